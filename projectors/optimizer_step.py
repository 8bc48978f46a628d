"""Seconds of the optimizer step of one GPU: gradient norm and clipping, the update, what sits on the host, fp8 weight casts."""

from __future__ import annotations

from projectors.columns import Columns
from projectors.communication.collectives import collective_seconds
from projectors.communication.groups import spread
from projectors.compute.layer import Machine
from projectors.inputs.recipe import Optimizer
from projectors.memory.state import FP8_CASTS_PER_WEIGHT, shard_sizes, state_bytes
from projectors.workload.operators import CollectiveKind, Operator
from projectors.workload.parts import FP32_BYTES

NORM_PASSES, CLIP_PASSES, UPDATE_PASSES = 1, 2, 1
"""HBM passes over the gradients: read for the norm, read and written to be clipped, read by the update (Megatron-Core
`clip_grads`; fused multi-tensor kernels stream at the device's streaming rate, so no efficiency of their own)."""

HOST_LINK_BYTES_PER_S = 55.4e9
"""Host link, PCIe 5 x16 as measured host to device (stas00/ml-engineering, network/README.md). State on the host is updated
there; a socket's memory bandwidth per GPU is of the same order, so its bytes are charged at this rate too."""

NEWTON_SCHULZ_STEPS = 5
"""Iterations that orthogonalise a Muon update (Kimi-K2, arXiv:2507.20534)."""


def optimizer_parts(
    dense: float, expert: float, newton_schulz: float, matrices: float, machine: Machine, columns: Columns
) -> tuple[tuple[str, float], ...]:
    """(label, seconds) of what one step consists of.

    `dense`, `expert`: parameters on the GPU before data parallelism shards them; `newton_schulz`: FLOPs of one iteration
    over all its layer matrices, `matrices`: their elements.
    """
    each, device = state_bytes(columns), machine.device
    dense_shards, expert_shards = shard_sizes(columns) if columns.sharding.optimizer else (1, 1)
    local = float(dense / dense_shards + expert / expert_shards)
    weight = columns.weight_bytes if each.master else 2 * each.weight  # without a master copy the weight itself is read too
    state = weight + 2 * (each.master + each.matrix_moments)
    offloaded = float(columns.offload_optimizer)
    gradients = local * each.gradient / device.bytes_per_s
    everyone = spread(machine.network, columns.gpus, 1)
    agreed = float(collective_seconds(CollectiveKind.ALL_REDUCE, FP32_BYTES, everyone, machine.network))
    parts = [
        ("Gradient norm", NORM_PASSES * gradients + agreed),
        ("Gradient clipping", CLIP_PASSES * gradients),
        ("Update", UPDATE_PASSES * gradients + local * state * (1 - offloaded) / device.bytes_per_s),
    ]
    if offloaded:
        parts.append(("State on the host", local * offloaded * (state + each.gradient) / HOST_LINK_BYTES_PER_S))
    if columns.fp8:
        parts.append(("fp8 weight casts", matrices * (columns.weight_bytes + FP8_CASTS_PER_WEIGHT) / device.bytes_per_s))
    if columns.optimizer is Optimizer.MUON:
        shards = local / (dense + expert) if dense + expert else 1.0
        products = NEWTON_SCHULZ_STEPS * newton_schulz * shards / device.plain_units.flops_per_s
        parts.append(("Orthogonalization", products))
    return tuple(parts)


def newton_schulz_flops(operators: tuple[Operator, ...]) -> tuple[float, float]:
    """(FLOPs of one Newton-Schulz iteration over the matrices of a layer, their elements).

    For X of [m, n] with m <= n: X X^T, its square, and the product with X: 2 m m n + 2 m m m + 2 m m n.
    """
    flops = elements = 0.0
    for operator in operators:
        if operator.gemm is None or not operator.weights:
            continue
        *batch, rows, columns = (float(extent) for extent in operator.weights[0].shape)
        short, long = min(rows, columns), max(rows, columns)
        matrices = batch[0] if batch else 1.0
        flops += matrices * (4 * short * short * long + 2 * short**3)
        elements += matrices * rows * columns
    return flops, elements
