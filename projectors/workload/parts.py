"""Operators that several parts of a model share: norm, residual add, linear projection under tensor parallelism."""

from __future__ import annotations

from projectors.columns import Columns, Quantity
from projectors.inputs.model_card import Norm
from projectors.inputs.recipe import RecomputeModule
from projectors.workload.operators import (
    Axis,
    Collective,
    CollectiveKind,
    Gemm,
    Module,
    Operator,
    OperatorKind,
    Tensor,
)

FP32_BYTES = 4
INT64_BYTES = 8
MASK_BYTES = 1


def norm(
    name: str,
    kind: Norm,
    columns: Columns,
    tokens: Quantity,
    width: Quantity,
    *,
    module: Module = Module.NORM,
    weighted: bool = True,
) -> Operator:
    """RMSNorm or LayerNorm of [tokens, width]; `weighted` False has no gain.

    Keeps its input and, per token, the fp32 reciprocal deviation (LayerNorm: and the mean), as Transformer Engine's
    norm kernels do. HBM passes: read and write forward; read input, read gradient, write gradient backward.
    """
    element = columns.activation_bytes
    passes = tokens * width * element
    statistics = Tensor(f"{name} statistics", ("tokens", "values"), (tokens, kind.parameters_per_feature), FP32_BYTES)
    gain = Tensor(f"{name} gain", ("features",), (width * kind.parameters_per_feature,), columns.weight_bytes)
    return Operator(
        name,
        OperatorKind.STREAM,
        module,
        weights=(gain,) if weighted else (),
        stream_forward=2 * passes,
        stream_backward=3 * passes,
        saved=(
            (Tensor(f"{name} input", ("tokens", "features"), (tokens, width), element), statistics)
            if columns.framework.fused_norm
            else (
                Tensor(f"{name} input in fp32", ("tokens", "features"), (tokens, width), FP32_BYTES),
                Tensor(f"{name} normalized", ("tokens", "features"), (tokens, width), element),
                statistics,
            )
        ),
    )


def residual(name: str, columns: Columns, width: int) -> Operator:
    """Residual add of [tokens, width]: two reads and a write forward; the gradients of both branches add up backward."""
    passes = columns.tokens_sp * width * columns.activation_bytes
    return Operator(
        name, OperatorKind.STREAM, Module.RESIDUAL, stream_forward=3 * passes, stream_backward=3 * passes,
        saved=(*dropout_mask(columns, width), *_copies(columns, width)),
    )


def _copies(columns: Columns, width: int) -> tuple[Tensor, ...]:
    """Copies that eager code keeps, half of a layer's at each of its two residual adds."""
    if not columns.framework.copies_kept:
        return ()
    return (Tensor("copies", ("tokens", "features"), (columns.tokens_sp, width), columns.framework.copies_kept / 2),)


def dropout_mask(columns: Columns, width: int) -> tuple[Tensor, ...]:
    """What dropout of [tokens, width] keeps, fused with the residual add: a byte per value (arXiv:2205.05198, 4.1)."""
    if not columns.framework.hidden_dropout:
        return ()
    return (Tensor("dropout mask", ("tokens", "features"), (columns.tokens_sp, width), MASK_BYTES),)


def linear(
    name: str,
    columns: Columns,
    module: Module,
    *,
    rows: Quantity,
    inputs: Quantity,
    outputs: Quantity,
    bias: Quantity = 0,
    saved: tuple[Tensor, ...] = (),
    collectives: tuple[Collective, ...] = (),
    fused: tuple[Quantity, ...] = (),
) -> Operator:
    """A projection [rows, inputs] x [inputs, outputs] by this GPU's share of the weight; `bias` counts bias elements."""
    weights = [Tensor(f"{name} weight", ("inputs", "outputs"), (inputs, outputs), columns.weight_bytes)]
    if not isinstance(bias, int) or bias:
        weights.append(Tensor(f"{name} bias", ("outputs",), (bias,), columns.weight_bytes))
    return Operator(
        name,
        OperatorKind.GEMM,
        module,
        weights=tuple(weights),
        gemm=Gemm(rows, outputs, inputs),
        fused=fused,
        saved=saved,
        collectives=collectives,
    )


def linear_input(
    name: str, columns: Columns, tokens: Quantity, width: Quantity, *dropped_by: RecomputeModule, features: str = "features"
) -> Tensor:
    """The input that a projection keeps for its weight gradient: the fp8 cast in fp8, else the activation itself."""
    return Tensor(name, ("tokens", features), (tokens, width), columns.operand_bytes, dropped_by)


def tokens_of_input(columns: Columns) -> Quantity:
    """Tokens of the input that a column-parallel projection keeps: its share of the sequence, or all of them."""
    return columns.tokens if columns.framework.gathered_inputs_kept else columns.tokens_sp


def into_tensor_parallel(
    columns: Columns, width: int, *, rows: Quantity | None = None, kept_gathered: bool = False
) -> tuple[Collective, ...]:
    """Traffic ahead of a column-parallel projection of [rows, width], by default [tokens, width].

    With sequence parallel (arXiv:2205.05198, 4.2.2): all-gather forward; backward gathers the input again for the weight
    gradient (unless it is `kept_gathered`) and reduce-scatters the input gradient. Without: all-reduce of the input
    gradient.
    """
    nbytes = (columns.tokens if rows is None else rows) * width * columns.activation_bytes
    gather, reduce = _sequence_parallel_share(columns)
    return (
        Collective(CollectiveKind.ALL_GATHER, Axis.TP, nbytes * gather, forward=1, backward=0 if kept_gathered else 1),
        Collective(CollectiveKind.REDUCE_SCATTER, Axis.TP, nbytes * gather, forward=0, backward=1),
        Collective(CollectiveKind.ALL_REDUCE, Axis.TP, nbytes * reduce, forward=0, backward=1),
    )


def out_of_tensor_parallel(columns: Columns, hidden_size: int) -> tuple[Collective, ...]:
    """Traffic behind a row-parallel projection to [tokens, hidden]: reduce-scatter forward and all-gather backward with
    sequence parallel, all-reduce forward without."""
    nbytes = columns.tokens * hidden_size * columns.activation_bytes
    gather, reduce = _sequence_parallel_share(columns)
    return (
        Collective(CollectiveKind.REDUCE_SCATTER, Axis.TP, nbytes * gather, forward=1, backward=0),
        Collective(CollectiveKind.ALL_GATHER, Axis.TP, nbytes * gather, forward=0, backward=1),
        Collective(CollectiveKind.ALL_REDUCE, Axis.TP, nbytes * reduce, forward=1, backward=0),
    )


def _sequence_parallel_share(columns: Columns) -> tuple[Quantity, Quantity]:
    """1 and 0 with sequence parallel, 0 and 1 without (arrays: per recipe)."""
    on = columns.sequence_parallel * 1
    return on, 1 - on
