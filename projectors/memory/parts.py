"""What memory reads off the operators: parameters, saved bytes and transients of each part of the model.

Parts are the distinct layer kinds, then the embedding, then the head. Arrays have shape [P, n]: P parts, n recipes
(1 for a single one).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projectors.columns import Columns, Quantity
from projectors.inputs.model_card import ModelCard
from projectors.stages import StagePlan
from projectors.workload.ends import embedding_operators, head_operators
from projectors.workload.layers import LayerKind, layer_operators
from projectors.workload.operators import Module, Operator

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Parts:
    """Per part and recipe, on one GPU; activations and transients for one microbatch."""

    kinds: tuple[LayerKind, ...]
    dense_parameters: Floats    # elements replicated over data parallel
    expert_parameters: Floats   # elements of routed experts, replicated over expert data parallel
    matrix_parameters: Floats   # of both, elements of layer weight matrices (fp8 casts, Muon)
    saved: Floats               # bytes kept for backward under the recipe's selective recompute, without logits
    saved_in_full: Floats       # bytes kept when nothing is recomputed, without logits
    input: Floats               # bytes of a layer's input, all that full recompute keeps (0 for the ends)
    logits: Floats              # bytes kept of logits or their softmax
    transient: Floats           # largest bytes alive only while one operator's backward runs

    def rows(self, index: NDArray[np.intp]) -> Parts:
        """The same for some of the recipes."""
        arrays = {name: getattr(self, name)[:, index] for name in self.__dataclass_fields__ if name != "kinds"}
        return Parts(self.kinds, **arrays)


def read_parts(card: ModelCard, kinds: tuple[LayerKind, ...], columns: Columns, recipes: int) -> Parts:
    """Read every part of the model once for `recipes` recipes (the common length of the arrays in `columns`)."""
    layer_input = columns.tokens_sp * card.residual_width * columns.activation_bytes
    read = [_read(layer_operators(card, kind, columns), columns, layer_input, layer=True) for kind in kinds]
    read += [_read(operators, columns, 0, layer=False) for operators in (embedding_operators(card, columns), head_operators(card, columns))]
    arrays = np.empty((len(read[0]), len(read), recipes))
    for part, values in enumerate(read):
        for quantity, value in enumerate(values):
            arrays[quantity, part] = value
    return Parts(kinds, *arrays)


def part_counts(plan: StagePlan) -> NDArray[np.int64]:
    """How often each virtual stage holds each part: [V, P]."""
    ends = np.zeros((plan.virtual_stages, 2), dtype=np.int64)
    ends[0, 0] = ends[-1, 1] = 1
    return np.hstack([plan.layer_counts, ends])


def recomputed_counts(plan: StagePlan, columns: Columns) -> NDArray[np.int64]:
    """Layers of each kind that full recompute runs again on each virtual stage, [V, P]: the first
    `recompute_num_layers` of it, or all. Kinds are in the order in which models use them (dense layers lead)."""
    counts = part_counts(plan)
    if columns.recompute_num_layers is None:
        counts[:, -2:] = 0
        return counts
    before = np.cumsum(plan.layer_counts, axis=1) - plan.layer_counts
    counts[:, :-2] = np.clip(columns.recompute_num_layers - before, 0, plan.layer_counts)
    counts[:, -2:] = 0
    return counts


def _read(operators: tuple[Operator, ...], columns: Columns, layer_input: Quantity, *, layer: bool) -> tuple[Any, ...]:
    """The quantities of one part, in the order of Parts' fields behind `kinds`."""
    dense: Quantity = 0
    expert: Quantity = 0
    matrices: Quantity = 0
    saved: Quantity = 0
    in_full: Quantity = 0
    logits: Quantity = 0
    transient: Quantity = 0
    for operator in operators:
        if operator.expert_weights:
            expert = expert + operator.parameters
        else:
            dense = dense + operator.parameters
        if operator.gemm is not None and layer:
            matrices = matrices + operator.parameters
        if operator.module is Module.LOSS:
            logits = logits + operator.saved_bytes()
        elif operator.saved:
            saved = saved + operator.saved_bytes(columns.modules_recomputed)
            in_full = in_full + operator.saved_bytes()
        transient = np.maximum(transient, operator.transient_bytes(columns.activation_bytes))
    return dense, expert, matrices, saved, in_full, layer_input, logits, transient

