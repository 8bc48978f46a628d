"""A transformer layer as a list of operators: the one description that memory, time and FLOPs read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from projectors.columns import Columns
from projectors.inputs.model_card import ModelCard
from projectors.workload.attention import grouped_query_attention, latent_attention
from projectors.workload.mlp import dense_mlp, mixture_of_experts
from projectors.workload.operators import Operator
from projectors.workload.parts import norm, residual


@dataclass(frozen=True, slots=True, order=True)
class LayerKind:
    """What distinguishes one layer of a model from another."""

    moe: bool
    windowed: bool

    @property
    def label(self) -> str:
        return ("MoE" if self.moe else "Dense") + (" windowed" if self.windowed else "") + " layer"


@lru_cache(maxsize=256)
def layer_kinds(card: ModelCard) -> tuple[LayerKind, ...]:
    """The kind of every layer, first to last."""
    return tuple(LayerKind(card.is_moe(layer), card.is_windowed(layer)) for layer in range(card.num_layers))


@lru_cache(maxsize=256)
def distinct_kinds(card: ModelCard) -> tuple[LayerKind, ...]:
    """Each kind of layer that the model has, once, in a fixed order."""
    return tuple(sorted(set(layer_kinds(card))))


def layer_operators(card: ModelCard, kind: LayerKind, columns: Columns) -> tuple[Operator, ...]:
    """Operators of one layer, in forward order, on one GPU for one microbatch.

    Input and output are the residual stream [tokens / sp, hidden]. `norms_per_layer` above 2 puts further norms on the
    outputs of attention and MLP before they are added (Gemma).
    """
    window = card.sliding_window.window if kind.windowed and card.sliding_window else None
    attention = latent_attention(card, card.mla, columns, window) if card.mla else grouped_query_attention(card, columns, window)
    mlp = mixture_of_experts(card, card.moe, columns) if kind.moe and card.moe else dense_mlp(card, columns)
    norms = _norm_names(card.norms_per_layer)

    def stream_norm(name: str) -> list[Operator]:
        return [norm(name, card.norm, columns, columns.tokens_sp, card.hidden_size)] if name in norms else []

    return (
        *stream_norm("attention norm"),
        *attention,
        *stream_norm("attention output norm"),
        residual("attention residual", columns, card.hidden_size),
        *stream_norm("MLP norm"),
        *mlp,
        *stream_norm("MLP output norm"),
        residual("MLP residual", columns, card.hidden_size),
    )


def _norm_names(count: int) -> tuple[str, ...]:
    """Where the norms of a layer sit, by how many there are."""
    return ("attention norm", "MLP norm", "attention output norm", "MLP output norm")[:count]

