"""What a training process takes beside the model's tensors, by what a memory figure counts.

PyTorch's allocator hands out the model's tensors and the GEMM workspaces (allocated). What it holds is that and its slack
(reserved). The device also has the context with its loaded kernels and the buffers of the collective library, which come
from the driver (device).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from projectors.columns import Columns, Quantity
from projectors.inputs.framework import FrameworkProfile, overhead_of
from projectors.inputs.hardware import GIB, MIB, FrameworkOverhead, HardwareProfile
from projectors.inputs.model_card import ModelCard
from projectors.memory.parts import Floats


@dataclass(frozen=True, slots=True)
class Overhead:
    """Bytes of one GPU of every pipeline rank, [ranks, n], from the allocator up to the whole device."""

    allocated: Floats
    workspace: float         # GEMM workspaces and the framework's buffers
    slack: Floats            # reserved less allocated
    context: float
    communicators: Quantity

    @property
    def reserved(self) -> Floats:
        return self.allocated + self.slack

    @property
    def framework(self) -> Floats:
        """The terms that no tensor of the model is behind."""
        return self.slack + self.workspace + self.context


def overhead(card: ModelCard, hardware: HardwareProfile, columns: Columns, tensors: Floats) -> Overhead:
    """Beside `tensors`, the bytes of every tensor that the model and its communication need at the peak, [ranks, n]."""
    point = overhead_of(columns.framework, hardware)
    workspace = _held(card, columns, point, columns.framework.buffers_mib)
    allocated = tensors + workspace
    return Overhead(
        allocated=allocated,
        workspace=workspace,
        slack=point.fragmentation * allocated,
        context=point.context_gib * GIB,
        communicators=communicators(columns) * (point.communicator_mib * MIB),
    )


def device_ends(card: ModelCard, hardware: HardwareProfile, columns: Columns, found: Overhead) -> tuple[Floats, Floats]:
    """Bytes of the whole device with every term at the low and at the high end of its range, [ranks, n] each."""
    point = overhead_of(columns.framework, hardware)
    opened = communicators(columns)

    def device(end: int) -> Floats:
        terms, buffers_mib = _at_end(columns.framework, point, end)
        allocated = found.allocated - found.workspace + _held(card, columns, terms, buffers_mib)
        whole: Floats = allocated * (1 + terms.fragmentation) + terms.context_gib * GIB + opened * (terms.communicator_mib * MIB)
        return whole

    return device(0), device(1)


def _held(card: ModelCard, columns: Columns, terms: FrameworkOverhead, buffers_mib: float) -> float:
    """GEMM workspaces and the framework's own buffers. Half of the workspaces is Transformer Engine's, one of them per stream of
    grouped GEMMs (`get_multi_stream_cublas_workspace`)."""
    streams = columns.framework.expert_gemm_streams if card.moe else 0
    return (terms.workspace_mib * (1 + streams / 2) + buffers_mib) * MIB


def _at_end(framework: FrameworkProfile, point: FrameworkOverhead, end: int) -> tuple[FrameworkOverhead, float]:
    """The terms and the framework's buffers at the low (0) or high (1) end of their ranges; a term without one stays, and none
    goes past its own figure."""
    outer = max if end else min

    def at_end(name: str, figure: float) -> float:
        ends = getattr(framework, f"{name}_range")
        return outer(figure, ends[end]) if ends else figure

    terms = point.model_copy(update={name: at_end(name, getattr(point, name)) for name in FrameworkOverhead.model_fields})
    return terms, at_end("buffers_mib", framework.buffers_mib)


def communicators(columns: Columns) -> Quantity:
    """Communicators that one GPU opens: the world, and each group with more than one member (two for the pipeline: to
    the next rank and to the previous one)."""
    groups = (columns.tp, columns.cp, columns.ep, columns.etp, columns.dp * columns.cp, columns.expert_dp)
    opened: Quantity = 1 if columns.gpus > 1 else 0
    for size in groups:
        opened = opened + (np.asarray(size) > 1)
    return opened + (2 if columns.pp > 1 else 0)
