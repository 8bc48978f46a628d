"""Bytes of model state: weights, gradients, optimizer state, by format and sharding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from projectors.columns import Columns, Quantity
from projectors.inputs.hardware import Precision
from projectors.inputs.recipe import FloatFormat, Optimizer, Sharding

FP8_CASTS_PER_WEIGHT = 2
"""Cached fp8 copies of a layer weight, one byte each (and scales in mxfp8): as it is and transposed, for the forward pass
and the input gradient (Transformer Engine caches both over the microbatches of a step)."""

MOMENT_BYTES = {
    Optimizer.ADAM: 8,               # two fp32 moments
    Optimizer.ADAM_BF16_MOMENTS: 4,  # two bf16 moments
    Optimizer.SGD: 4,                # one fp32 momentum
    Optimizer.MUON: 4,               # one fp32 momentum for matrices; everything else is trained by Adam
}
"""Optimizer state per parameter beside the master weight (ZeRO, arXiv:1910.02054, 3.1; Muon: Kimi-K2, arXiv:2507.20534)."""


@dataclass(frozen=True, slots=True)
class StateBytes:
    """Bytes per parameter before sharding."""

    weight: int
    gradient: float
    master: int
    matrix_moments: int  # of layer matrices
    other_moments: int   # of everything else


def state_bytes(columns: Columns) -> StateBytes:
    """Bytes per parameter of each kind of state.

    Mixed precision: a 2-byte weight, a gradient in `grad_reduce_dtype`, a master weight unless the weight itself is
    one. Sharded parameters (zero3, hsdp) are stored in the master format only, as PyTorch FSDP2 does, and are cast when
    gathered.
    """
    master_format = columns.master_weights
    own_master = columns.precision is Precision.FP32 or (master_format is not FloatFormat.FP32) or columns.sharding.parameters
    weight = columns.weight_bytes
    if columns.sharding.parameters:
        weight = max(weight, master_format.nbytes)
    formats = columns.weight_bytes if columns.precision is Precision.FP32 else columns.grad_reduce_dtype.nbytes
    gradient = columns.framework.gradient_bytes.get(columns.precision, formats)
    moments = MOMENT_BYTES[columns.optimizer]
    other = MOMENT_BYTES[Optimizer.ADAM] if columns.optimizer is Optimizer.MUON else moments
    return StateBytes(weight, gradient, 0 if own_master else master_format.nbytes, moments, other)


def shard_sizes(columns: Columns) -> tuple[Quantity, Quantity]:
    """Ranks that share dense and expert state when it is sharded: data parallel x context parallel, and expert data
    parallel (Megatron-Core's distributed optimizer), over all copies of the model along the pipeline; with hsdp at most
    `shard_group` of them."""
    copies = columns.schedule.copies
    dense, expert = columns.dp * columns.cp * copies, columns.expert_dp * copies
    if columns.sharding is Sharding.HSDP:
        return np.minimum(dense, columns.shard_group), np.minimum(expert, columns.shard_group)
    return dense, expert
