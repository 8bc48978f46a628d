"""Measured layers in place of simulated ones: the same formulas evaluated for the run that was measured give the ratio.

Compute of the target = measured pass, less its communication, times simulated compute of the target over simulated compute
of the measured run. Communication is the target's simulated one, times measured over simulated where a collective was
measured. Where the measured run has the target's shapes the ratio is 1, and the figure is the measured one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from projectors.columns import Columns
from projectors.communication.collectives import collective_seconds
from projectors.communication.groups import spread
from projectors.compute.layer import Machine, PartSeconds, PassSeconds, part_seconds
from projectors.compute.roofline import OperatorSeconds
from projectors.inputs.benchmark_record import BenchmarkRecord, MeasuredCollective, MeasuredPart
from projectors.results import AuditEntry, Origin
from projectors.workload.model import ModelPart
from projectors.workload.operators import CollectiveKind

LEAST_COMPUTE = 0.1
"""Part of a measured pass that is compute at least, however much communication its simulation says there is."""

NOTHING = 1e-12
"""Seconds below which a simulated pass is nothing, and no ratio is taken of it."""

SUMMED_FROM_BYTES = 1 << 16
"""Sizes from which collectives are compared: below, the measured run sends nothing."""

OPTIMIZER_PASSES = 7
"""fp32 HBM passes of the measured Adam step: parameter, gradient and two moments read, all but the gradient written."""

TENSOR_KINDS = (CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER)


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """A record with the simulation of the run that it measured."""

    record: BenchmarkRecord
    parts: Mapping[str, MeasuredPart]
    simulated: Mapping[str, PartSeconds]   # of the measured run, under the target's kind of schedule
    tp_factor: float                       # measured over simulated collectives of tensor parallelism
    ep_factor: float
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
    by_kind = {each.kind: each for each in record.collectives}
    return MeasuredRun(
        record=record,
        parts={part.part: part for part in record.parts},
        simulated={part.label: part_seconds(part.operators, machine, columns) for part in model},
        tp_factor=_factor([by_kind[kind.value] for kind in TENSOR_KINDS if kind.value in by_kind], machine),
        ep_factor=_factor([each for each in record.collectives if each.kind == CollectiveKind.ALL_TO_ALL.value], machine),
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
        entry = _entry(label, name, seconds, of_base, of_target, run)
        entries.append(entry)
        return _with_compute(of_target, entry.compute, run), entry.ratio

    forward, ahead = scaled("forward", measured.forward.seconds, base.forward, target.forward)
    if float(target.weight.total) > NOTHING:  # the schedule splits the backward pass
        own = max(measured.backward.seconds - measured.input_gradient.seconds, 0.0)
        backward, behind = scaled("input gradient", measured.input_gradient.seconds, base.backward, target.backward)
        weight, _ = scaled("weight gradient", own, base.weight, target.weight)
    else:
        backward, behind = scaled("backward", measured.backward.seconds, base.backward, target.backward)
        weight = target.weight
    backward = replace(backward, recompute=target.backward.recompute * ahead)
    again = _with_compute(target.again, float(target.again.compute), run)
    again = replace(again, recompute=target.again.recompute * ahead)
    rows = tuple(replace(row, seconds=_times(row.seconds, ahead, behind)) for row in target.rows)
    return PartSeconds(forward, backward, weight, again, rows), tuple(entries)


def _entry(
    label: str, name: str, seconds: float, base: PassSeconds, target: PassSeconds, run: MeasuredRun
) -> AuditEntry:
    sent = float(base.tp) * run.tp_factor + float(base.ep) * run.ep_factor + float(base.cp)
    own = max(seconds - sent, LEAST_COMPUTE * seconds)
    simulated, wanted = float(base.compute), float(target.compute)
    ratio = own / simulated if simulated > NOTHING else 1.0
    communication = float(target.tp) * run.tp_factor + float(target.ep) * run.ep_factor + float(target.cp + target.fsdp)
    compute = wanted * ratio
    return AuditEntry(
        part=label, name=name, measured=seconds, communication_measured=sent, simulated=simulated, target=wanted, ratio=ratio,
        compute=compute, communication=communication,
    )


def _with_compute(seconds: PassSeconds, compute: float, run: MeasuredRun) -> PassSeconds:
    return replace(seconds, compute=compute, tp=seconds.tp * run.tp_factor, ep=seconds.ep * run.ep_factor)


def _times(seconds: OperatorSeconds, ahead: float, behind: float) -> OperatorSeconds:
    """An operator's share of the part's measured passes: as the simulation divides them."""
    return replace(
        seconds, forward=seconds.forward * ahead, input_gradient=seconds.input_gradient * behind,
        weight_gradient=seconds.weight_gradient * behind,
    )


def _factor(sweeps: Sequence[MeasuredCollective], machine: Machine) -> float:
    """Geometric mean of measured over simulated seconds; 1 where nothing was measured."""
    logs = [
        float(np.log(sample.seconds / float(collective_seconds(kind, nbytes, group, machine.network))))
        for each in sweeps
        for kind, group in [(CollectiveKind(each.kind), spread(machine.network, each.members, 1))]
        for nbytes, sample in zip(each.nbytes, each.samples, strict=True)
        if nbytes >= SUMMED_FROM_BYTES and sample.seconds > 0
    ]
    return float(np.exp(np.mean(logs))) if logs else 1.0


def _optimizer_factor(record: BenchmarkRecord, machine: Machine) -> float:
    measured = record.optimizer
    if measured is None:
        return 1.0
    simulated = measured.parameters * OPTIMIZER_PASSES * 4 / machine.device.bytes_per_s
    return measured.step.seconds / simulated
