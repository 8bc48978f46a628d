"""A rank's order as a list of actions: small integers that say which pass runs on which chunk, not for which microbatch.

In every schedule here a rank takes the microbatches of one kind of pass on one chunk in rising order, so the k-th action of a
kind belongs to microbatch k. A schedule is then nothing but the pattern of its actions, which lists repeat and add up.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Final

from projectors.pipeline.timeline import PassKind

KIND_BITS: Final = 2
JOINED_BIT: Final = 1 << KIND_BITS
CHUNK_SHIFT: Final = KIND_BITS + 1

Actions = list[int]


def action(kind: PassKind, chunk: int = 0, *, joined: bool = False) -> int:
    """One action; `joined`: it runs in one overlapped block with the one that follows it."""
    return chunk << CHUNK_SHIFT | (JOINED_BIT if joined else 0) | kind


def forward(chunk: int = 0) -> int:
    """The forward pass of a chunk."""
    return action(PassKind.FORWARD, chunk)


def backward(chunk: int = 0) -> int:
    """Input and weight gradient in one; the gradient leaves when both are done."""
    return action(PassKind.BACKWARD, chunk)


def input_gradient(chunk: int = 0) -> int:
    """The backward pass up to the gradient that the previous stage waits for; the weight gradient comes later."""
    return action(PassKind.INPUT_GRADIENT, chunk)


def weight_gradient(chunk: int = 0) -> int:
    """The rest of a split backward pass; nobody else waits for it."""
    return action(PassKind.WEIGHT_GRADIENT, chunk)


def alternate(first: Actions, second: Actions) -> Actions:
    """first[0], second[0], first[1], second[1], ... of two lists of equal length."""
    pairs: Iterable[tuple[int, int]] = zip(first, second, strict=True)
    return list(chain.from_iterable(pairs))
