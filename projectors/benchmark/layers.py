"""The card's layers as PyTorch modules, split as one rank of the reduced run holds them: what is timed.

Shapes follow `projectors.workload`: the residual stream is [tokens of a rank, hidden]. Routing is forced to be even, so that
a timing does not depend on random weights; imbalance is restored analytically.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from projectors.benchmark.attention import Kernels, attend
from projectors.benchmark.experts import RoutedExperts
from projectors.benchmark.parallel import Members, into_region, out_of_region
from projectors.benchmark.pieces import FeedForward, linear_like, make_norm, rotary_table, rotate
from projectors.inputs.model_card import LatentAttention, ModelCard, Norm, PositionEmbedding
from projectors.workload.layers import LayerKind


@dataclass(frozen=True, slots=True)
class Situation:
    """What every layer of the reduced run has in common."""

    card: ModelCard
    batch: int
    seq_length: int
    dtype: torch.dtype
    device: torch.device
    tp: Members
    ep: Members
    sequence_parallel: bool
    kernels: Kernels

    @property
    def own_tokens(self) -> int:
        """Tokens of the residual stream on this rank."""
        whole = self.batch * self.seq_length
        return whole // self.tp.size if self.sequence_parallel else whole


class GroupedQueryAttention(nn.Module):
    """Column-parallel QKV, rotary embedding, fused attention, row-parallel output."""

    def __init__(self, at: Situation, window: int | None) -> None:
        super().__init__()
        card, tp = at.card, at.tp.size
        self.at, self.window, self.dim = at, window, card.head_dim
        self.heads = card.num_attention_heads // tp
        self.kv_heads = max(card.num_query_groups // tp, 1)
        self.qkv = linear_like(at, card.hidden_size, (self.heads + 2 * self.kv_heads) * self.dim, bias=card.qkv_bias)
        self.out = linear_like(at, self.heads * self.dim, card.hidden_size, bias=card.o_bias)
        self.q_norm = make_norm(at, Norm.RMSNORM, self.dim) if card.qk_norm else None
        self.k_norm = make_norm(at, Norm.RMSNORM, self.dim) if card.qk_norm else None
        rotary = card.position_embedding is PositionEmbedding.ROPE
        self.table = rotary_table(at, self.dim) if rotary else None

    def forward(self, own: Tensor) -> Tensor:
        at = self.at
        whole = into_region(own, at.tp, sequence_parallel=at.sequence_parallel)
        mixed = self.qkv(whole).view(at.batch, at.seq_length, self.heads + 2 * self.kv_heads, self.dim)
        query, key, value = mixed.split([self.heads, self.kv_heads, self.kv_heads], dim=2)
        if self.q_norm is not None and self.k_norm is not None:
            query, key = self.q_norm(query), self.k_norm(key)
        if self.table is not None:
            query, key = rotate(query, self.table), rotate(key, self.table)
        mixed = attend(at.kernels, query, key, value, self.window)
        return out_of_region(self.out(mixed.reshape(-1, self.heads * self.dim)), at.tp, sequence_parallel=at.sequence_parallel)


class MultiHeadLatentAttention(nn.Module):
    """MLA as Megatron-Core trains it: whole down projections, column-parallel up projections, keys and values per head."""

    def __init__(self, at: Situation, mla: LatentAttention, window: int | None) -> None:
        super().__init__()
        card = at.card
        self.at, self.mla, self.window = at, mla, window
        self.heads = card.num_attention_heads // at.tp.size
        hidden, wide = card.hidden_size, self.heads * mla.qk_head_dim
        self.q_down = linear_like(at, hidden, mla.q_lora_rank) if mla.q_lora_rank else None
        self.q_norm = make_norm(at, Norm.RMSNORM, mla.q_lora_rank) if mla.q_lora_rank else None
        self.q_up = linear_like(at, mla.q_lora_rank or hidden, wide)
        self.kv_down = linear_like(at, hidden, mla.kv_lora_rank + mla.qk_rope_head_dim)
        self.kv_norm = make_norm(at, Norm.RMSNORM, mla.kv_lora_rank)
        self.kv_up = linear_like(at, mla.kv_lora_rank, self.heads * (mla.qk_nope_head_dim + mla.v_head_dim))
        self.out = linear_like(at, self.heads * mla.v_head_dim, hidden, bias=card.o_bias)
        self.table = rotary_table(at, mla.qk_rope_head_dim) if mla.qk_rope_head_dim else None

    def forward(self, own: Tensor) -> Tensor:
        at, mla, heads = self.at, self.mla, self.heads
        shape = (at.batch, at.seq_length, heads)
        latent = own if self.q_down is None or self.q_norm is None else self.q_norm(self.q_down(own))
        query = self.q_up(into_region(latent, at.tp, sequence_parallel=at.sequence_parallel)).view(*shape, mla.qk_head_dim)
        compressed, rope_key = self.kv_down(own).split([mla.kv_lora_rank, mla.qk_rope_head_dim], dim=-1)
        joined = torch.cat([self.kv_norm(compressed), rope_key], dim=-1)
        compressed, rope_key = into_region(joined, at.tp, sequence_parallel=at.sequence_parallel).split(
            [mla.kv_lora_rank, mla.qk_rope_head_dim], dim=-1
        )
        key, value = self.kv_up(compressed).view(*shape, -1).split([mla.qk_nope_head_dim, mla.v_head_dim], dim=-1)
        rope_key = rope_key.view(at.batch, at.seq_length, 1, mla.qk_rope_head_dim)
        if self.table is not None:
            plain, turned = query.split([mla.qk_nope_head_dim, mla.qk_rope_head_dim], dim=-1)
            query = torch.cat([plain, rotate(turned, self.table)], dim=-1)
            rope_key = rotate(rope_key, self.table)
        key = torch.cat([key, rope_key.expand(*shape, -1)], dim=-1)
        mixed = attend(at.kernels, query, key, value, self.window)
        return out_of_region(self.out(mixed.reshape(-1, heads * mla.v_head_dim)), at.tp, sequence_parallel=at.sequence_parallel)


class DecoderLayer(nn.Module):
    """Norms, attention and MLP or experts around the residual stream."""

    def __init__(self, at: Situation, kind: LayerKind) -> None:
        super().__init__()
        card = at.card
        window = card.sliding_window.window if kind.windowed and card.sliding_window else None
        self.attention: nn.Module = (
            MultiHeadLatentAttention(at, card.mla, window) if card.mla else GroupedQueryAttention(at, window)
        )
        self.mlp: nn.Module = RoutedExperts(at, card.moe) if kind.moe and card.moe else FeedForward(at, card.ffn_hidden_size)
        names = ("attention", "mlp", "attention_out", "mlp_out")[: card.norms_per_layer]
        self.norms = nn.ModuleDict({name: make_norm(at, card.norm, card.hidden_size) for name in names})

    def forward(self, own: Tensor) -> Tensor:
        for name, part in (("attention", self.attention), ("mlp", self.mlp)):
            added = part(self.norms[name](own) if name in self.norms else own)
            own = own + (self.norms[f"{name}_out"](added) if f"{name}_out" in self.norms else added)
        return own


