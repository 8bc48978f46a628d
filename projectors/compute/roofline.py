"""Seconds of one operator on one device: each of its passes against what limits it. Origin: simulated."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from projectors.columns import Columns, Quantity, at_least
from projectors.compute.gemm import MatrixUnits, gemm_seconds, matrix_units
from projectors.compute.rates import activation_precision, attention_peak, launch_seconds, matrix_rate, memory_rate
from projectors.inputs.hardware import HardwareProfile
from projectors.inputs.recipe import FloatFormat
from projectors.workload.operators import ATTENTION_BACKWARD_FLOPS, Attention, Gemm, Module, Operator, OperatorKind

UNQUANTISED = frozenset({Module.HEAD, Module.ROUTER})
"""GEMMs that an fp8 recipe leaves in bf16 (Transformer Engine recipes; Megatron-Core keeps head and router out)."""

CAST_BYTES = 4
"""HBM bytes to quantise one bf16 element for fp8: read 2, write it and its transpose, 1 each."""

ATTENTION_RAMP_KEYS = 300.0
"""Mean keys per query at which fused attention reaches half of its long-sequence rate: diagonal blocks, prologue and tail.
Read off FlashAttention-2 (arXiv:2307.08691, figure 4, causal: about 0.75 of the 16k rate at 2k, 0.6 at 1k)."""

BACKWARD_ATTENTION_PASSES = 3
"""HBM passes over Q, K, V and output in backward over forward: read them again, read and write their gradients."""


class Bound(StrEnum):
    """What limits an operator."""

    COMPUTE = "compute"
    MEMORY = "memory"
    LAUNCH = "launch"
    COMMUNICATION = "communication"


@dataclass(frozen=True, slots=True)
class OperatorSeconds:
    """Device seconds of one microbatch by pass; the weight gradient is 0 for what has no matrix weight."""

    forward: Quantity
    input_gradient: Quantity
    weight_gradient: Quantity
    bound_forward: Bound   # of one recipe; of the first for a table


@dataclass(frozen=True, slots=True)
class Device:
    """A device under a recipe's formats: computed once, used for every operator."""

    layer_units: MatrixUnits     # GEMMs of layers, in the recipe's format
    plain_units: MatrixUnits     # GEMMs that stay in the activations' format
    attention_forward: float     # FLOP/s
    attention_backward: float
    bytes_per_s: float
    launch: float                # seconds
    grouped: float               # grouped GEMM over a plain one of the same work
    operand_bytes: float
    activation_bytes: int
    gradient_bytes: int          # HBM bytes per weight gradient: read and write of the accumulated sum
    casts: bool


def device_of(hardware: HardwareProfile, columns: Columns) -> Device:
    """Rates of a device for a recipe. Raises ValueError where it has no peak for the recipe's precision."""
    precision, memory = columns.precision, memory_rate(hardware)
    attention = attention_peak(hardware, precision)
    accumulated = FloatFormat.FP32 if columns.activation_bytes == FloatFormat.FP32.nbytes else columns.grad_reduce_dtype
    return Device(
        layer_units=matrix_units(hardware, matrix_rate(hardware, precision), memory),
        plain_units=matrix_units(hardware, matrix_rate(hardware, activation_precision(precision)), memory),
        attention_forward=attention * hardware.efficiency.attention_forward,
        attention_backward=attention * hardware.efficiency.attention_backward,
        bytes_per_s=memory,
        launch=launch_seconds(hardware),
        grouped=hardware.efficiency.grouped_gemm,
        operand_bytes=columns.operand_bytes,
        activation_bytes=columns.activation_bytes,
        gradient_bytes=2 * accumulated.nbytes,
        casts=columns.fp8,
    )


def operator_seconds(operator: Operator, device: Device) -> OperatorSeconds:
    """Forward, input gradient and weight gradient of an operator, kernel launches included, collectives not."""
    if operator.gemm is not None:
        return _gemm(operator, operator.gemm, device)
    if operator.attention is not None:
        return _attention(operator.attention, device)
    forward, backward = operator.stream_forward / device.bytes_per_s, operator.stream_backward / device.bytes_per_s
    return OperatorSeconds(_launched(forward, device), _launched(backward, device), 0.0, Bound.MEMORY)


def _launched(seconds: Quantity, device: Device) -> Quantity:
    """One kernel, or none where there is nothing to do."""
    return seconds + device.launch * (seconds > 0)


def _gemm(operator: Operator, gemm: Gemm, device: Device) -> OperatorSeconds:
    """[m, k] by [k, n] forward; [m, n] by [n, k] for the input gradient; [k, m] by [m, n] for the weight gradient.

    In fp8 the input is quantised ahead of the forward product and the output's gradient ahead of the backward ones. The
    weight is quantised once a step (`optimizer_step.py`).
    """
    quantised = device.casts and operator.module not in UNQUANTISED
    units = device.layer_units if quantised or not device.casts else device.plain_units
    element = device.operand_bytes if quantised else device.activation_bytes
    m, n, k, batch = gemm.m, gemm.n, gemm.k, gemm.batch
    slower = device.grouped if operator.kind is OperatorKind.GROUPED_GEMM else 1.0
    out = device.activation_bytes
    forward, moving = gemm_seconds(units, m, n, k, batch, element, out)
    inputs, _ = gemm_seconds(units, m, k, n, batch, element, out)
    weights, _ = gemm_seconds(units, k, n, m, batch, element, device.gradient_bytes)
    cast_input: Quantity = 0.0
    cast_gradient: Quantity = 0.0
    if quantised:
        cast_input = CAST_BYTES * batch * m * k / device.bytes_per_s + device.launch
        cast_gradient = CAST_BYTES * batch * m * n / device.bytes_per_s + device.launch
    bound = Bound.MEMORY if np.any(moving) else Bound.COMPUTE
    return OperatorSeconds(
        forward / slower + cast_input + device.launch,
        inputs / slower + cast_gradient + device.launch,
        weights / slower + device.launch,
        bound,
    )


def _attention(core: Attention, device: Device) -> OperatorSeconds:
    """Fused attention. It has no weights, so its whole backward pass is input gradient."""
    width = core.dim_qk + core.dim_v
    a_key = 2 * core.batch * core.heads * core.queries * width  # FLOPs of one more key for every query
    ramped = core.flops + ATTENTION_RAMP_KEYS * a_key           # flops / (keys / (keys + ramp)), also without any key
    computing = ramped / device.attention_forward
    backward = ATTENTION_BACKWARD_FLOPS * ramped / device.attention_backward
    moving = core.batch * core.queries * (core.heads + core.kv_heads) * width * device.activation_bytes / device.bytes_per_s
    bound = Bound.MEMORY if np.any(np.asarray(moving) > computing) else Bound.COMPUTE
    return OperatorSeconds(
        at_least(computing, moving) + device.launch,
        at_least(backward, BACKWARD_ATTENTION_PASSES * moving) + device.launch,
        0.0,
        bound,
    )
