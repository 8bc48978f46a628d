"""The whole model as parts: each distinct layer kind once, then the embedding, then the head with the loss."""

from __future__ import annotations

from dataclasses import dataclass

from projectors.columns import Columns
from projectors.inputs.model_card import ModelCard
from projectors.workload.ends import embedding_operators, head_operators
from projectors.workload.layers import LayerKind, layer_operators
from projectors.workload.operators import Operator

ENDS = 2
"""Parts behind the layer kinds: embedding and head."""


@dataclass(frozen=True, slots=True)
class ModelPart:
    """Operators of one layer kind or one end of the model, on one GPU for one microbatch."""

    label: str
    operators: tuple[Operator, ...]
    is_layer: bool


def model_parts(card: ModelCard, kinds: tuple[LayerKind, ...], columns: Columns) -> tuple[ModelPart, ...]:
    """The parts in a fixed order: `kinds`, embedding, head. Memory and time read the same ones."""
    layers = tuple(ModelPart(kind.label, layer_operators(card, kind, columns), is_layer=True) for kind in kinds)
    return (
        *layers,
        ModelPart("Embedding", embedding_operators(card, columns), is_layer=False),
        ModelPart("Head and loss", head_operators(card, columns), is_layer=False),
    )
