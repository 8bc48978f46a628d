"""Collectives that autograd can differentiate: the forward pass runs one, the backward pass its transpose.

Tensors are [tokens, features]; everything happens along the tokens. With one member nothing is sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable


@dataclass(frozen=True, slots=True)
class Members:
    """A process group and its size; None: this process alone."""

    group: Any
    size: int
    rank: int


ALONE = Members(None, 1, 0)


def all_gather(members: Members, own: Tensor) -> Tensor:
    """Tokens of all members, in order of rank."""
    whole = own.new_empty((own.shape[0] * members.size, *own.shape[1:]))
    dist.all_gather(list(whole.chunk(members.size)), own.contiguous(), group=members.group)
    return whole


def reduce_scatter(members: Members, whole: Tensor) -> Tensor:
    """The sum, of which each member keeps its tokens."""
    own = whole.new_empty((whole.shape[0] // members.size, *whole.shape[1:]))
    dist.reduce_scatter(own, [part.contiguous() for part in whole.chunk(members.size)], group=members.group)
    return own


class Gather(Function):
    """Sequence parallel into a tensor-parallel region: all-gather; backward reduce-scatter (arXiv:2205.05198, 4.2)."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, members: Members) -> Tensor:
        ctx.members = members
        return all_gather(members, own)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return reduce_scatter(ctx.members, gradient), None


class Scatter(Function):
    """Out of a tensor-parallel region into sequence parallel: reduce-scatter; backward all-gather."""

    @staticmethod
    def forward(ctx: Any, partial: Tensor, members: Members) -> Tensor:
        ctx.members = members
        return reduce_scatter(members, partial)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return all_gather(ctx.members, gradient), None


class Copy(Function):
    """Into a tensor-parallel region without sequence parallel: nothing; backward all-reduce (arXiv:1909.08053, figure 3)."""

    @staticmethod
    def forward(ctx: Any, whole: Tensor, members: Members) -> Tensor:
        ctx.members = members
        return whole.view_as(whole)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        total = gradient.contiguous().clone()
        dist.all_reduce(total, group=ctx.members.group)
        return total, None


class Reduce(Function):
    """Out of a tensor-parallel region without sequence parallel: all-reduce; backward nothing."""

    @staticmethod
    def forward(_ctx: Any, partial: Tensor, members: Members) -> Tensor:
        total = partial.contiguous().clone()
        dist.all_reduce(total, group=members.group)
        return total

    @staticmethod
    @once_differentiable
    def backward(_ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


class Exchange(Function):
    """All-to-all of rows: `sends` and `receives` rows to and from each member; backward the other way."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, sends: list[int], receives: list[int], members: Members) -> Tensor:
        ctx.members, ctx.sends, ctx.receives = members, sends, receives
        return exchange(members, rows, sends, receives)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        return exchange(ctx.members, gradient, ctx.receives, ctx.sends), None, None, None


def exchange(members: Members, rows: Tensor, sends: list[int], receives: list[int]) -> Tensor:
    """Rows from every member, in order of rank."""
    out = rows.new_empty((sum(receives), *rows.shape[1:]))
    dist.all_to_all_single(out, rows.contiguous(), receives, sends, group=members.group)
    return out


def into_region(own: Tensor, members: Members, *, sequence_parallel: bool) -> Tensor:
    """The whole microbatch's tokens for a column-parallel product."""
    if members.size == 1:
        return own
    return _apply(Gather if sequence_parallel else Copy, own, members)


def out_of_region(partial: Tensor, members: Members, *, sequence_parallel: bool) -> Tensor:
    """The sum of a row-parallel product's parts, split over the tokens again with sequence parallel."""
    if members.size == 1:
        return partial
    return _apply(Scatter if sequence_parallel else Reduce, partial, members)


def maximum(members: Members, values: Tensor) -> Tensor:
    """Largest value over the members, not differentiated."""
    if members.size > 1:
        dist.all_reduce(values, op=dist.ReduceOp.MAX, group=members.group)
    return values


def total(members: Members, values: Tensor) -> Tensor:
    """Sum over the members; every member's gradient is the whole one."""
    if members.size == 1:
        return values
    return _apply(Reduce, values, members)




def exchanged(rows: Tensor, sends: list[int], receives: list[int], members: Members) -> Tensor:
    """`sends` rows to each member, `receives` rows from each, differentiably."""
    return _apply(Exchange, rows, sends, receives, members)


def _apply(function: type[Function], *arguments: Any) -> Tensor:
    made: Tensor = function.apply(*arguments)
    return made
