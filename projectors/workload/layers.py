"""A transformer layer as a list of operators: the one description that memory, time and FLOPs read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from projectors.columns import Columns
from projectors.inputs.model_card import HEAVY_RATIO, INDEXED_RATIO, ModelCard
from projectors.workload.attention import grouped_query_attention, latent_attention
from projectors.workload.compressed_attention import compressed_attention
from projectors.workload.hyper_connections import collapse_streams, spread_over_streams
from projectors.workload.mlp import dense_mlp, mixture_of_experts
from projectors.workload.operators import Operator
from projectors.workload.parts import norm, residual


@dataclass(frozen=True, slots=True, order=True)
class LayerKind:
    """What distinguishes one layer of a model from another."""

    moe: bool
    windowed: bool
    compress_ratio: int | None = None  # DeepSeek-V4: tokens per compressed entry, 0 = window only
    hash_routed: bool = False          # experts picked by token number

    @property
    def label(self) -> str:
        mlp = ("Hash-routed " if self.hash_routed else "") + ("MoE" if self.moe else "Dense")
        context = _COMPRESSION_NAMES.get(self.compress_ratio or 0, " windowed" if self.windowed else "")
        return f"{mlp}{context} layer"


_COMPRESSION_NAMES = {INDEXED_RATIO: " CSA", HEAVY_RATIO: " HCA"}


@lru_cache(maxsize=256)
def layer_kinds(card: ModelCard) -> tuple[LayerKind, ...]:
    """The kind of every layer, first to last."""
    return tuple(_kind(card, layer) for layer in range(card.num_layers))


def _kind(card: ModelCard, layer: int) -> LayerKind:
    compressed = card.compressed_attention
    if compressed is None:
        return LayerKind(card.is_moe(layer), card.is_windowed(layer))
    moe = card.is_moe(layer)
    return LayerKind(moe, True, compressed.compress_ratios[layer], moe and layer < compressed.hash_layers)


@lru_cache(maxsize=256)
def distinct_kinds(card: ModelCard) -> tuple[LayerKind, ...]:
    """Each kind of layer that the model has, once, in a fixed order."""
    return tuple(sorted(set(layer_kinds(card))))


def mtp_kind(card: ModelCard) -> LayerKind:
    """The layer of a multi-token-prediction depth: like the last one, but without compressed context (DeepSeek-V4)."""
    last = layer_kinds(card)[-1]
    return last if card.compressed_attention is None else LayerKind(last.moe, True, 0)


def layer_operators(card: ModelCard, kind: LayerKind, columns: Columns) -> tuple[Operator, ...]:
    """Operators of one layer, in forward order, on one GPU for one microbatch.

    Input and output are the residual stream [tokens / sp, residual width]. `norms_per_layer` above 2 puts further norms
    on the outputs of attention and MLP before they are added (Gemma).
    """
    if kind.moe and card.moe:
        mlp = mixture_of_experts(card, card.moe, columns, hash_routed=kind.hash_routed)
    else:
        mlp = dense_mlp(card, columns)
    return (*_around("attention", card, columns, _attention(card, kind, columns)), *_around("MLP", card, columns, mlp))


def _attention(card: ModelCard, kind: LayerKind, columns: Columns) -> tuple[Operator, ...]:
    window = card.sliding_window.window if kind.windowed and card.sliding_window else None
    if card.compressed_attention and window is not None and kind.compress_ratio is not None:
        return compressed_attention(card, card.compressed_attention, columns, window, kind.compress_ratio)
    return latent_attention(card, card.mla, columns, window) if card.mla else grouped_query_attention(card, columns, window)


def _around(name: str, card: ModelCard, columns: Columns, part: tuple[Operator, ...]) -> tuple[Operator, ...]:
    """A part of a layer with its norms and its residual add, or the hyper-connections in the add's place."""
    norms = _norm_names(card.norms_per_layer)

    def stream_norm(norm_name: str) -> list[Operator]:
        return [norm(norm_name, card.norm, columns, columns.tokens_sp, card.hidden_size)] if norm_name in norms else []

    normed = (*stream_norm(f"{name} norm"), *part, *stream_norm(f"{name} output norm"))
    if card.compressed_attention is None:
        return (*normed, residual(f"{name} residual", columns, card.hidden_size))
    streams = card.compressed_attention.hyper_connections
    return (
        *collapse_streams(name, columns, card.hidden_size, streams),
        *normed,
        spread_over_streams(name, columns, card.hidden_size, streams),
    )


def _norm_names(count: int) -> tuple[str, ...]:
    """Where the norms of a layer sit, by how many there are."""
    return ("attention norm", "MLP norm", "attention output norm", "MLP output norm")[:count]
