"""Measured layers in place of simulated ones: the same formulas evaluated for the run that was measured give the ratio.

Compute of the target = measured pass, less its communication, times simulated compute of the target over simulated compute
of the measured run. Communication is the target's simulated one, times measured over simulated where a collective was
measured. Where the measured run has the target's shapes the ratio is 1, and the figure is the measured one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from projectors.columns import Columns
from projectors.communication.groups import GIGA, MICRO
from projectors.communication.measured import MeasuredLine
from projectors.compute.layer import Machine, PartSeconds, PassSeconds, part_seconds
from projectors.compute.roofline import OperatorSeconds
from projectors.inputs.benchmark_record import BenchmarkRecord, MeasuredPart
from projectors.results import AuditEntry, Origin
from projectors.workload.model import ModelPart
from projectors.workload.operators import CollectiveKind

LEAST_COMPUTE = 0.1
"""Part of a measured pass that is compute at least, however much communication its simulation says there is."""

NOTHING = 1e-12
"""Seconds below which a simulated pass is nothing, and no ratio is taken of it."""

OPTIMIZER_PASSES = 7
"""fp32 HBM passes of the measured Adam step: parameter, gradient and two moments read, all but the gradient written."""

@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """A record with the simulation of the run that it measured."""

    record: BenchmarkRecord
    parts: Mapping[str, MeasuredPart]
    simulated: Mapping[str, PartSeconds]   # of the measured run, under the target's kind of schedule
    optimizer_factor: float                # measured over simulated time of the same HBM passes
    same_shapes: bool                      # nothing was scaled down but the pipeline

    @property
    def compute_origin(self) -> Origin:
        """Measured, or restored from what was measured scaled down."""
        return Origin.MEASURED if self.same_shapes else Origin.RESTORED

    @property
    def communication_origin(self) -> Origin:
        """Restored where collectives were measured, else simulated."""
        return Origin.RESTORED if self.record.collectives else Origin.SIMULATED


def measured_run(
    record: BenchmarkRecord, model: tuple[ModelPart, ...], machine: Machine, columns: Columns, *, same_shapes: bool
) -> MeasuredRun:
    """`model`, `machine`, `columns`: of the measured run, its schedule replaced by the target's (whether backward is split)."""
    return MeasuredRun(
        record=record,
        parts={part.part: part for part in record.parts},
        simulated={part.label: part_seconds(part.operators, machine, columns) for part in model},
        optimizer_factor=_optimizer_factor(record, machine),
        same_shapes=same_shapes,
    )


def restored(label: str, target: PartSeconds, run: MeasuredRun) -> tuple[PartSeconds, tuple[AuditEntry, ...]]:
    """A part's passes from what was measured, and how each came about; the simulation where the part was not measured."""
    measured, base = run.parts.get(label), run.simulated.get(label)
    if measured is None or base is None:
        return target, ()
    entries: list[AuditEntry] = []

    def scaled(name: str, seconds: float, of_base: PassSeconds, of_target: PassSeconds) -> tuple[PassSeconds, float]:
        entry = _entry(label, name, seconds, of_base, of_target)
        entries.append(entry)
        return replace(of_target, compute=entry.compute), entry.ratio

    forward, ahead = scaled("forward", measured.forward.seconds, base.forward, target.forward)
    if float(target.weight.total) > NOTHING:  # the schedule splits the backward pass
        own = max(measured.backward.seconds - measured.input_gradient.seconds, 0.0)
        backward, behind = scaled("input gradient", measured.input_gradient.seconds, base.backward, target.backward)
        weight, _ = scaled("weight gradient", own, base.weight, target.weight)
    else:
        backward, behind = scaled("backward", measured.backward.seconds, base.backward, target.backward)
        weight = target.weight
    backward = replace(backward, recompute=target.backward.recompute * ahead)
    again = replace(target.again, recompute=target.again.recompute * ahead)
    rows = tuple(replace(row, seconds=_times(row.seconds, ahead, behind)) for row in target.rows)
    return PartSeconds(forward, backward, weight, again, rows), tuple(entries)


def _entry(
    label: str, name: str, seconds: float, base: PassSeconds, target: PassSeconds
) -> AuditEntry:
    sent = float(base.tp + base.ep + base.cp)
    own = max(seconds - sent, LEAST_COMPUTE * seconds)
    simulated, wanted = float(base.compute), float(target.compute)
    ratio = own / simulated if simulated > NOTHING else 1.0
    communication = float(target.tp + target.ep + target.cp + target.fsdp)
    compute = wanted * ratio
    return AuditEntry(
        part=label, name=name, measured=seconds, communication_measured=sent, simulated=simulated, target=wanted, ratio=ratio,
        compute=compute, communication=communication,
    )


def _times(seconds: OperatorSeconds, ahead: float, behind: float) -> OperatorSeconds:
    """An operator's share of the part's measured passes: as the simulation divides them."""
    return replace(
        seconds, forward=seconds.forward * ahead, input_gradient=seconds.input_gradient * behind,
        weight_gradient=seconds.weight_gradient * behind,
    )


def measured_lines(record: BenchmarkRecord) -> tuple[MeasuredLine, ...]:
    """The collectives of a record, in seconds and bytes."""
    return tuple(
        MeasuredLine(CollectiveKind(each.kind), each.members, each.latency_us * MICRO, each.bandwidth_gb_s * GIGA)
        for each in record.collectives
    )


def _optimizer_factor(record: BenchmarkRecord, machine: Machine) -> float:
    measured = record.optimizer
    if measured is None:
        return 1.0
    simulated = measured.parameters * OPTIMIZER_PASSES * 4 / machine.device.bytes_per_s
    return measured.step.seconds / simulated
