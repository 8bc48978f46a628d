"""Manifold-constrained hyper-connections: several parallel residual streams, mixed around every part of a layer.

A token's residual stream is [streams, hidden] wide between layers. Ahead of attention and of the MLP the streams are
weighed and added up to [hidden]; behind it the output is spread over them and they are mixed by a doubly stochastic
matrix (arXiv:2512.24880; shapes: huggingface/transformers `deepseek_v4/modeling_deepseek_v4.py` @0197608). Everything
is whole on every GPU and works on the sequence-parallel share of the tokens.

The norm of the streams has no gain, so its factor may multiply the projection's output instead of its input; kernels
are taken as fused that way, so that only the streams themselves and the few mixing weights of a token are kept.
"""

from __future__ import annotations

from projectors.columns import Columns
from projectors.workload.operators import Gemm, Module, Operator, OperatorKind, Tensor
from projectors.workload.parts import FP32_BYTES

GAINS_PER_MIXING = 3
"""Learned scales of the collapsing, the spreading and the mixing weights."""


def stream_copies(columns: Columns, hidden: int, streams: int) -> Operator:
    """Every stream starts as a copy of the embedding; backward adds up their gradients."""
    passes = (1 + streams) * columns.tokens_sp * hidden * columns.activation_bytes
    return Operator("stream copies", OperatorKind.STREAM, Module.RESIDUAL, stream_forward=passes, stream_backward=passes)


def collapse_streams(name: str, columns: Columns, hidden: int, streams: int) -> tuple[Operator, ...]:
    """Mixing weights of a part of a layer from all streams, and the weighted sum of the streams that it works on.

    Per token: `streams` weights to collapse, as many to spread, `streams` squared to mix.
    """
    return _weighed_sum(name, columns, hidden, streams, weights=(2 + streams) * streams, gains=GAINS_PER_MIXING)


def collapse_at_head(name: str, columns: Columns, hidden: int, streams: int) -> tuple[Operator, ...]:
    """The weighted sum of the streams ahead of a final norm."""
    return _weighed_sum(name, columns, hidden, streams, weights=streams, gains=1)


def spread_over_streams(name: str, columns: Columns, hidden: int, streams: int) -> Operator:
    """New streams = mixed streams + output times its weights. Takes the residual add's place.

    Reads the output and the streams, writes the streams; backward reads those again beside the gradient of the new
    streams, and writes both gradients. Keeps the output; the streams are kept where they were collapsed.
    """
    passes = columns.tokens_sp * hidden * columns.activation_bytes
    return Operator(
        f"{name} stream mixing",
        OperatorKind.STREAM,
        Module.RESIDUAL,
        stream_forward=(2 * streams + 1) * passes,
        stream_backward=(3 * streams + 2) * passes,
        saved=(Tensor(f"{name} output", ("tokens", "features"), (columns.tokens_sp, hidden), columns.activation_bytes),),
    )


def _weighed_sum(name: str, columns: Columns, hidden: int, streams: int, *, weights: int, gains: int) -> tuple[Operator, ...]:
    own, width, element = columns.tokens_sp, streams * hidden, columns.activation_bytes
    return (
        Operator(
            f"{name} stream weights",
            OperatorKind.GEMM,
            Module.RESIDUAL,
            weights=(
                Tensor(f"{name} stream projection", ("stream features", "weights"), (width, weights), columns.weight_bytes),
                Tensor(f"{name} stream bias", ("weights",), (weights,), columns.weight_bytes),
                Tensor(f"{name} stream gains", ("gains",), (gains,), columns.weight_bytes),
            ),
            gemm=Gemm(own, weights, width),
            saved=(
                Tensor(f"{name} streams", ("tokens", "streams", "features"), (own, streams, hidden), element),
                Tensor(f"{name} stream statistics", ("tokens",), (own,), FP32_BYTES),
                Tensor(f"{name} stream weights", ("tokens", "weights"), (own, weights), FP32_BYTES),
            ),
        ),
        Operator(
            f"{name} stream collapse",
            OperatorKind.STREAM,
            Module.RESIDUAL,
            stream_forward=(streams + 1) * own * hidden * element,
            stream_backward=(2 * streams + 1) * own * hidden * element,
        ),
    )
