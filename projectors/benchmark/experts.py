"""Routed and shared experts: router, dispatch by all-to-all, grouped products, combine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from projectors.benchmark.parallel import exchanged
from projectors.benchmark.pieces import WEIGHT_SCALE, FeedForward, activated, branches
from projectors.inputs.model_card import MixtureOfExperts

if TYPE_CHECKING:
    from projectors.benchmark.layers import Situation


@dataclass(frozen=True, slots=True)
class Route:
    """How rows came from other members: how many each way, and the order they were put in."""

    sends: list[int]
    receives: list[int]
    order: Tensor


class RoutedExperts(nn.Module):
    """Every token goes to `top_k` experts, in turn, so that all experts are equally busy."""

    def __init__(self, at: Situation, moe: MixtureOfExperts) -> None:
        super().__init__()
        card = at.card
        self.at, self.moe, self.local = at, moe, moe.num_experts // at.ep.size
        hidden, width = card.hidden_size, moe.moe_ffn_hidden_size
        self.router = nn.Linear(hidden, moe.num_experts, bias=card.router_bias, dtype=at.dtype, device=at.device)
        shapes = {"up": (self.local, hidden, branches(card.activation) * width), "down": (self.local, width, hidden)}
        made = {name: torch.randn(shape, dtype=at.dtype, device=at.device) * WEIGHT_SCALE for name, shape in shapes.items()}
        self.up, self.down = nn.Parameter(made["up"]), nn.Parameter(made["down"])
        self.shared = FeedForward(at, moe.shared_ffn_hidden_size) if moe.shared_ffn_hidden_size else None

    def forward(self, own: Tensor) -> Tensor:
        tokens, top_k, experts = own.shape[0], self.moe.top_k, self.moe.num_experts
        scores = functional.softmax(self.router(own).float(), dim=-1)
        chosen = (torch.arange(tokens * top_k, device=own.device) % experts).view(tokens, top_k)
        weights = scores.gather(1, chosen)
        by_expert = chosen.flatten().argsort(stable=True)
        source = by_expert // top_k
        counts = torch.bincount(chosen.flatten(), minlength=experts)
        dispatched, rows, route = self._dispatch(own.index_select(0, source), counts)
        inner = activated(self.at.card.activation, self._multiplied(dispatched, self.up, rows))
        worked = self._multiplied(inner, self.down, rows)
        returned = worked if route is None else self._combine(worked, route)
        weighted = returned * weights.flatten().index_select(0, by_expert)[:, None].to(returned.dtype)
        out = torch.zeros_like(own).index_add(0, source, weighted)
        return out if self.shared is None else out + self.shared(own)

    def _dispatch(self, copies: Tensor, counts: Tensor) -> tuple[Tensor, list[int], Route | None]:
        """Rows for the local experts, expert by expert, how many each has, and the way back where rows traveled. The counts
        go through the host, as they do in an all-to-all dispatcher."""
        ep = self.at.ep
        if ep.size == 1:
            return copies, counts.tolist(), None
        per_member = counts.view(ep.size, self.local)
        mine = per_member[ep.rank]
        sends, receives = per_member.sum(1).tolist(), [int(mine.sum())] * ep.size  # every member routes alike
        rows = exchanged(copies, sends, receives, ep)
        arrived = mine.repeat(ep.size)
        owner = torch.arange(self.local, device=rows.device).repeat(ep.size).repeat_interleave(arrived)
        order = owner.argsort(stable=True)
        return rows.index_select(0, order), (mine * ep.size).tolist(), Route(sends, receives, order)

    def _combine(self, worked: Tensor, route: Route) -> Tensor:
        back = worked.index_select(0, route.order.argsort())
        return exchanged(back, route.receives, route.sends, self.at.ep)

    def _multiplied(self, rows: Tensor, weight: Tensor, counts: list[int]) -> Tensor:
        """Each expert's rows times its matrix."""
        if self.at.kernels.grouped:
            ends = torch.tensor(counts, device=rows.device).cumsum(0).to(torch.int32)
            return functional.grouped_mm(rows, weight, offs=ends)
        return torch.cat([part @ matrix for part, matrix in zip(rows.split(counts), weight, strict=True)])
