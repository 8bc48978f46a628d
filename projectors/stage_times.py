"""Seconds of every virtual stage, pass by pass, from its layers and ends."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projectors.columns import Columns
from projectors.compute.host import HOST_FORWARD
from projectors.compute.layer import Machine, OperatorRow, PartSeconds, PassSeconds, parameter_counts, part_seconds
from projectors.compute.measured import MeasuredRun, restored
from projectors.compute.roofline import Bound
from projectors.inputs.recipe import Recompute
from projectors.results import AuditEntry, OperatorTime, Origin
from projectors.stages import StagePlan, part_counts, recomputed_counts
from projectors.workload.model import ModelPart

Floats = NDArray[np.float64]

KINDS_OF_SECONDS = tuple(entry.name for entry in fields(PassSeconds))
"""What the last axis of `StageTimes.passes` counts."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the model and its seconds."""

    model: ModelPart
    seconds: PartSeconds


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Of one recipe. V virtual stages in model order."""

    passes: Floats          # [V, 3, kinds]: forward, backward, weight gradient
    dense: Floats           # [V] dense parameters on one GPU
    expert: Floats          # [V] parameters of routed experts on one GPU
    counts: NDArray[np.int64]   # [V, parts]
    parts: tuple[Part, ...]
    audit: tuple[AuditEntry, ...]
    origin: Origin

    @property
    def seconds(self) -> Floats:
        """[3, V] whole passes."""
        totals: Floats = self.passes.sum(axis=2).T
        return totals


def stage_times(
    columns: Columns, plan: StagePlan, machine: Machine, model: tuple[ModelPart, ...], measured: MeasuredRun | None = None
) -> StageTimes:
    """Layers of each kind times how many a stage has, the embedding on the first virtual stage, head and loss on the last
    (on V-shaped schedules both are on rank 0)."""
    parts, audit = _parts(columns, machine, model, measured)
    counts = part_counts(plan)
    each = np.array([
        [_values(part.seconds.forward), _values(part.seconds.backward), _values(part.seconds.weight)] for part in parts
    ])
    passes = np.tensordot(counts, each, axes=1)
    if columns.recompute is Recompute.FULL:
        again = np.array([_values(part.seconds.again) for part in parts])
        passes[:, 1] += recomputed_counts(plan, columns) @ again
    elements = np.array([parameter_counts(part.model.operators) for part in parts], dtype=np.float64)
    dense, expert = (counts @ elements).T
    origin = measured.compute_origin if measured is not None and audit else Origin.SIMULATED
    return StageTimes(passes, dense, expert, counts, parts, audit, origin)


def _parts(
    columns: Columns, machine: Machine, model: tuple[ModelPart, ...], measured: MeasuredRun | None
) -> tuple[tuple[Part, ...], tuple[AuditEntry, ...]]:
    """Every part with its seconds: measured where the record has it, simulated otherwise."""
    parts: list[Part] = []
    audit: list[AuditEntry] = []
    for part in model:
        seconds = part_seconds(part.operators, machine, columns)
        if measured is not None:
            seconds, entries = restored(part.label, seconds, measured)
            audit += entries
        parts.append(Part(part, seconds))
    return tuple(parts), tuple(audit)


def _values(seconds: PassSeconds) -> tuple[Any, ...]:
    return (seconds.compute, seconds.recompute, seconds.tp, seconds.cp, seconds.ep, seconds.fsdp)


def operator_times(times: StageTimes, columns: Columns) -> tuple[OperatorTime, ...]:
    """The operator table: every operator of every part once."""
    full = columns.recompute is Recompute.FULL
    return tuple(
        _operator_time(part.model.label, row, times.origin, recomputed=row.recomputed or (full and part.model.is_layer))
        for part in times.parts
        for row in part.seconds.rows
    )


def _operator_time(label: str, row: OperatorRow, origin: Origin, *, recomputed: bool) -> OperatorTime:
    seconds = row.seconds
    forward, exposed = float(seconds.forward), float(row.exposed_forward + row.exposed_backward)
    bound = seconds.bound_forward
    if float(row.exposed_forward) > max(forward, HOST_FORWARD):
        bound = Bound.COMMUNICATION
    elif forward + float(row.exposed_forward) < HOST_FORWARD:
        bound = Bound.LAUNCH
    return OperatorTime(
        layer=label,
        operator=row.operator.name,
        forward=forward,
        backward=float(seconds.input_gradient + seconds.weight_gradient),
        recompute=forward if recomputed else 0.0,
        exposed=exposed,
        flops_forward=float(row.operator.flops_forward),
        bound=bound.value,
        origin=origin,
    )
