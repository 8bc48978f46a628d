"""The ends of a model as PyTorch modules: embedding; final norm, head, loss and multi-token prediction."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from projectors.benchmark.layers import DecoderLayer, Situation
from projectors.benchmark.parallel import into_region, maximum, out_of_region, total
from projectors.benchmark.pieces import WEIGHT_SCALE, linear_like, make_norm
from projectors.workload.layers import mtp_kind


class Embedding(nn.Module):
    """Rows of this rank; tokens of other ranks give zeros, and the parts are summed."""

    def __init__(self, at: Situation, rows: int) -> None:
        super().__init__()
        self.at, self.rows = at, rows
        self.weight = nn.Parameter(torch.randn(rows, at.card.hidden_size, dtype=at.dtype, device=at.device) * WEIGHT_SCALE)

    def forward(self, tokens: Tensor) -> Tensor:
        at = self.at
        if at.tp.size == 1:
            return functional.embedding(tokens, self.weight)
        local = tokens - at.tp.rank * self.rows
        elsewhere = (local < 0) | (local >= self.rows)
        part = functional.embedding(local.clamp(0, self.rows - 1), self.weight).masked_fill(elsewhere[:, None], 0)
        return out_of_region(part, at.tp, sequence_parallel=at.sequence_parallel)


class HeadAndLoss(nn.Module):
    """Final norm, vocabulary-parallel head and cross entropy; then the multi-token-prediction depths, which share the head."""

    def __init__(self, at: Situation, rows: int, *, fused_loss: bool) -> None:
        super().__init__()
        card = at.card
        self.at, self.rows, self.fused_loss = at, rows, fused_loss
        self.norm = make_norm(at, card.norm, card.hidden_size)
        self.head = nn.Linear(card.hidden_size, rows, bias=False, dtype=at.dtype, device=at.device)
        self.depths = nn.ModuleList([PredictionDepth(at) for _ in range(card.mtp_layers)])
        self.embedding = Embedding(at, rows) if card.mtp_layers else None

    def forward(self, own: Tensor, tokens: Tensor) -> Tensor:
        loss = self._loss(self.norm(own), tokens)
        for depth in self.depths:
            assert self.embedding is not None
            own = depth(own, self.embedding(tokens))
            loss = loss + self._loss(self.norm(own), tokens)
        return loss

    def _loss(self, normed: Tensor, tokens: Tensor) -> Tensor:
        at = self.at
        logits = self.head(into_region(normed, at.tp, sequence_parallel=at.sequence_parallel))
        values = logits if self.fused_loss else logits.float()
        if at.tp.size == 1:
            return functional.cross_entropy(values, tokens)
        largest = maximum(at.tp, values.detach().amax(-1))
        shifted = values - largest[:, None]
        normaliser = total(at.tp, shifted.exp().sum(-1))
        local = tokens - at.tp.rank * self.rows
        elsewhere = (local < 0) | (local >= self.rows)
        target = shifted.gather(1, local.clamp(0, self.rows - 1)[:, None])[:, 0].masked_fill(elsewhere, 0)
        return (normaliser.log() - total(at.tp, target)).mean()


class PredictionDepth(nn.Module):
    """One depth of multi-token prediction (arXiv:2412.19437, 2.2) before its head."""

    def __init__(self, at: Situation) -> None:
        super().__init__()
        card = at.card
        self.at = at
        self.hidden_norm = make_norm(at, card.norm, card.hidden_size)
        self.embedding_norm = make_norm(at, card.norm, card.hidden_size)
        self.projection = linear_like(at, 2 * card.hidden_size, card.hidden_size)
        self.layer = DecoderLayer(at, mtp_kind(card))

    def forward(self, own: Tensor, embedded: Tensor) -> Tensor:
        joined = torch.cat([self.hidden_norm(own), self.embedding_norm(embedded)], dim=-1)
        mixed: Tensor = self.layer(self.projection(joined))
        return mixed
