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
from projectors.workload.model import ModelPart
from projectors.workload.operators import Module, OperatorKind
from projectors.workload.parts import FP32_BYTES

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Parts:
    """Per part and recipe, on one GPU; activations and transients for one microbatch."""

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
        return Parts(*(getattr(self, name)[:, index] for name in self.__dataclass_fields__))


def read_parts(card: ModelCard, model: tuple[ModelPart, ...], columns: Columns, recipes: int) -> Parts:
    """Read every part of the model once for `recipes` recipes (the common length of the arrays in `columns`)."""
    layer_input = columns.tokens_sp * card.residual_width * columns.activation_bytes
    read = [_read(part, columns, layer_input if part.is_layer else 0) for part in model]
    arrays = np.empty((len(read[0]), len(read), recipes))
    for part, values in enumerate(read):
        for quantity, value in enumerate(values):
            arrays[quantity, part] = value
    return Parts(*arrays)


def _read(part: ModelPart, columns: Columns, layer_input: Quantity) -> tuple[Any, ...]:
    """The quantities of one part, in the order of Parts' fields."""
    dense: Quantity = 0
    expert: Quantity = 0
    matrices: Quantity = 0
    saved: Quantity = 0
    in_full: Quantity = 0
    logits: Quantity = 0
    transient: Quantity = 0
    for operator in part.operators:
        if operator.expert_weights:
            expert = expert + operator.parameters
        else:
            dense = dense + operator.parameters
        if operator.gemm is not None and part.is_layer:
            matrices = matrices + operator.parameters
        if operator.module is Module.LOSS:
            logits = logits + operator.saved_bytes()
        elif operator.saved:
            saved = saved + operator.saved_bytes(columns.modules_recomputed)
            in_full = in_full + operator.saved_bytes()
        transient = np.maximum(transient, operator.transient_bytes(columns.activation_bytes))
    if columns.per_operator_recompute and part.is_layer:
        saved = layer_input + _kept_outputs(part, columns)
    return dense, expert, matrices, saved, in_full, layer_input, logits, transient


def _kept_outputs(part: ModelPart, columns: Columns) -> Quantity:
    """Bytes that a layer keeps beside its input when selective recompute goes by operators: the output and log-sum-exp of
    attention, and the outputs of every second matrix product, the first of them included; grouped products run again
    (pytorch/torchtitan models/llama3/infra/parallelize.py, `_apply_ac_to_transformer_block`, option `op`)."""
    kept: Quantity = 0
    products = 0
    for operator in part.operators:
        if operator.attention is not None:
            core = operator.attention
            kept = kept + core.batch * core.queries * core.heads * (core.dim_v * columns.activation_bytes + FP32_BYTES)
        elif operator.gemm is not None and operator.kind is OperatorKind.GEMM:
            for width in operator.fused or (operator.gemm.n,):
                products += 1
                if products % 2:
                    kept = kept + operator.gemm.m * width * columns.activation_bytes
    return kept
