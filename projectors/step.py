"""One optimizer step of one recipe: passes of every stage, the pipeline, data parallelism, the optimizer; and the rates."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from projectors.columns import Columns
from projectors.communication.groups import level_between
from projectors.communication.measured import send_seconds
from projectors.compute.host import STEP_SECONDS
from projectors.compute.layer import Machine, machine_of
from projectors.compute.measured import MeasuredRun, measured_lines
from projectors.compute.rates import TERA
from projectors.data_parallel import RankWork, exposed_data_parallel
from projectors.inputs.cluster import ClusterSpec
from projectors.inputs.model_card import ModelCard
from projectors.inputs.recipe import Schedule
from projectors.optimizer_step import newton_schulz_flops, optimizer_parts
from projectors.pipeline import Order, PassParts, automatic, blocking, busy_seconds, order, rank_windows, simulate, stage_span
from projectors.pipeline.timeline import PassKind, Timeline
from projectors.results import (
    AuditEntry,
    CommunicationRow,
    ExposedCommunication,
    OperatorTime,
    StepBreakdown,
    StepDetail,
    Throughput,
)
from projectors.stage_times import KINDS_OF_SECONDS, StageTimes, operator_times, stage_times
from projectors.stages import StagePlan
from projectors.stragglers import slowest_excess
from projectors.traffic import communication_rows, traffic_beside_replicas
from projectors.workload.model import ModelPart
from projectors.workload.parameters import forward_flops_per_sequence

Floats = NDArray[np.float64]

SLOWEST = "Waiting for the slowest node"

TRAINING_PASSES = 3
"""Forward passes that a training step's model FLOPs amount to: backward does every product twice (arXiv:2204.02311)."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """Time of one step: where it goes, the pipeline, the operator table, the rates."""

    step: StepBreakdown
    timeline: Timeline
    pass_parts: PassParts
    operators: tuple[OperatorTime, ...]
    communication: tuple[CommunicationRow, ...]
    throughput: Throughput
    audit: tuple[AuditEntry, ...]


def project_step(
    card: ModelCard,
    cluster: ClusterSpec,
    columns: Columns,
    plan: StagePlan,
    model: tuple[ModelPart, ...],
    measured: MeasuredRun | None = None,
) -> StepResult:
    """Project one legal recipe; `model`: the parts of the model under these columns; `measured`: what replaces simulation.

    Raises ValueError where the device has no peak for its precision.
    """
    machine = machine_of(cluster, columns, measured_lines(measured.record) if measured is not None else ())
    paired = times = stage_times(columns, plan, machine, model, measured)
    if columns.moe_overlap and columns.pairs_passes:  # what has no partner hides nothing behind it
        times = stage_times(replace(columns, moe_overlap=False), plan, machine, model, measured)
    send = boundary_seconds(card, columns, plan, machine)
    passes = order_of(columns, plan, times, send)
    forward, backward, weight = times.seconds
    blocks = paired.seconds[0], paired.seconds[1] + paired.seconds[2]
    waits = blocking(columns.schedule, columns.overlap_p2p)
    timeline = simulate(passes, forward, backward, weight, send, blocking_send=waits, paired=blocks)
    seconds = unhindered = pipeline_seconds(timeline, columns)
    if send.any():
        unhindered = pipeline_seconds(simulate(passes, forward, backward, weight, np.zeros_like(send), paired=blocks), columns)
    busiest = int(np.argmax(busy_seconds(timeline)))
    spent = _spent(passes, times, paired, busiest)
    step = _breakdown(spent, times, timeline, seconds, unhindered, machine, columns, plan)
    if measured is not None:
        step = _with_optimizer(step, measured.optimizer_factor)
    waiting = slowest_excess(cluster.nodes, cluster.node_spread) * (step.seconds - step.other)
    compute = _compute_details(step.compute, paired, plan.stages_of[busiest])
    details = (*step.details, *compute, StepDetail("other", SLOWEST, waiting))
    step = replace(step, other=step.other + waiting, details=tuple(each for each in details if each.seconds > 0))
    throughput = _throughput(card, cluster, columns, step.seconds)
    communication = communication_rows(
        busiest, step.exposed, paired, plan, machine, columns, cluster.gpus_per_node, boundary_bytes(card, columns)
    )
    parts = _pass_parts(passes, times, paired, timeline, step, columns)
    return StepResult(step, timeline, parts, operator_times(paired, columns), communication, throughput, times.audit)


def _with_optimizer(step: StepBreakdown, factor: float) -> StepBreakdown:
    """The step with its optimizer as long as measured."""
    details = (
        replace(each, seconds=each.seconds * factor) if each.part == "optimizer" else each for each in step.details
    )
    return replace(step, optimizer=step.optimizer * factor, details=tuple(details))


def _compute_details(compute: float, times: StageTimes, stages: NDArray[np.int64]) -> tuple[StepDetail, ...]:
    """Layers, embedding, head and loss of a rank, shares of its compute."""
    counts = times.counts[stages].sum(axis=0).tolist()
    shares = dict.fromkeys(["Layers", *(part.model.label for part in times.parts if not part.model.is_layer)], 0.0)
    for part, count in zip(times.parts, counts, strict=True):
        passes = (part.seconds.forward, part.seconds.backward, part.seconds.weight)
        shares["Layers" if part.model.is_layer else part.model.label] += count * sum(float(each.compute) for each in passes)
    total = sum(shares.values())
    return tuple(StepDetail("compute", label, compute * share / total) for label, share in shares.items() if total > 0)


def _bubble_details(idle: float, starts: float, ends: float, pipeline: float) -> tuple[StepDetail, ...]:
    """Idle time before a rank's first pass, after its last, and between its passes."""
    fill = min(starts, idle)
    flush = min(max(pipeline - ends, 0.0), idle - fill)
    parts = (("Pipeline fill", fill), ("Pipeline flush", flush), ("Between passes", idle - fill - flush))
    return tuple(StepDetail("bubble", label, seconds) for label, seconds in parts)


def order_of(columns: Columns, plan: StagePlan, times: StageTimes, send: Floats) -> Order:
    """The order of passes that the recipe's schedule takes, for its times where the schedule looks at them."""
    microbatches = int(columns.microbatches)
    if columns.schedule is not Schedule.ZB_AUTO:
        group, paired = columns.microbatch_group_size, columns.pairs_passes and columns.schedule is Schedule.INTERLEAVED
        return order(columns.schedule, plan.ranks, plan.chunks, microbatches, group, paired=paired)
    forward, backward, weight = times.seconds
    limit, barrier = columns.max_in_flight or 1, not columns.post_validation
    return automatic(plan.ranks, microbatches, forward, backward, weight, send, limit=limit, barrier=barrier)


def pipeline_seconds(timeline: Timeline, columns: Columns) -> float:
    """What the pipeline adds to every step: its makespan, since the gradient norm is reduced over all ranks before any of them
    may take its optimizer step. With post-validation none waits, the next step fills the ends of this one, and the rank that is
    longest at work counts (arXiv:2401.10241, section 4)."""
    return stage_span(timeline) if columns.post_validation else timeline.makespan


def boundary_bytes(card: ModelCard, columns: Columns) -> float:
    """What one GPU sends to the next stage for one microbatch."""
    return float(columns.tokens_sp * card.residual_width * columns.activation_bytes)


def boundary_seconds(card: ModelCard, columns: Columns, plan: StagePlan, machine: Machine) -> Floats:
    """[V - 1] seconds to send one microbatch from each virtual stage to the next; 0 where both are on one rank.

    A pipeline rank is a block of gpus / pp neighbouring GPUs, each sending to the same place in the next block.
    """
    boundary = boundary_bytes(card, columns)
    block = columns.gpus // plan.ranks
    send = np.zeros(plan.virtual_stages - 1)
    known: dict[str, float] = {}
    for stage, (here, there) in enumerate(zip(plan.rank_of[:-1].tolist(), plan.rank_of[1:].tolist(), strict=True)):
        if here == there:
            continue
        level = level_between(machine.network, here * block, there * block)
        if level.name not in known:
            known[level.name] = send_seconds(boundary, level, machine.network)
        send[stage] = known[level.name]
    return send


def _spent(passes: Order, times: StageTimes, paired: StageTimes, rank: int) -> Floats:
    """Seconds of all passes of a rank by `KINDS_OF_SECONDS`; those inside blocks take the times of `paired`."""
    mine = slice(passes.offsets[rank], passes.offsets[rank + 1])
    kind, stage, inside = passes.kind[mine], passes.stage[mine], _inside(passes)[mine]
    total = np.zeros(len(KINDS_OF_SECONDS))
    for seconds, chosen in ((times.passes, ~inside), (paired.passes, inside)):
        counts = np.zeros((passes.stages, len(PassKind)))
        np.add.at(counts, (stage[chosen], kind[chosen]), 1)
        backward = counts[:, PassKind.BACKWARD]
        each = np.stack(
            [counts[:, PassKind.FORWARD], counts[:, PassKind.INPUT_GRADIENT] + backward,
             counts[:, PassKind.WEIGHT_GRADIENT] + backward], axis=1,
        )
        total += np.einsum("sp,spk->k", each, seconds)
    return total


def _inside(passes: Order) -> NDArray[np.bool_]:
    """[N] whether a pass runs in a block with another."""
    inside: NDArray[np.bool_] = passes.joined | np.append(False, passes.joined[:-1])
    return inside


def _pass_parts(
    passes: Order, times: StageTimes, paired: StageTimes, timeline: Timeline, step: StepBreakdown, columns: Columns
) -> PassParts:
    tables = np.stack([times.passes, paired.passes])  # [2, V, passes, kinds of seconds]
    by_kind = np.empty((2, passes.stages, len(PassKind), len(KINDS_OF_SECONDS)))
    by_kind[:, :, PassKind.FORWARD] = tables[:, :, 0]
    by_kind[:, :, PassKind.BACKWARD] = tables[:, :, 1] + tables[:, :, 2]
    by_kind[:, :, PassKind.INPUT_GRADIENT] = tables[:, :, 1]
    by_kind[:, :, PassKind.WEIGHT_GRADIENT] = tables[:, :, 2]
    own = [KINDS_OF_SECONDS.index(name) for name in ("compute", "recompute")]
    communication = np.delete(by_kind, own, axis=3).sum(axis=3)
    starts = np.full(passes.ranks, step.seconds - step.other - step.optimizer)
    if columns.post_validation:
        starts = rank_windows(timeline)[1] + step.exposed.dp
    return PassParts(_inside(passes), by_kind[..., own[1]], communication, starts, starts + step.optimizer)


def _breakdown(
    spent: Floats,
    times: StageTimes,
    timeline: Timeline,
    pipeline: float,
    unhindered: float,
    machine: Machine,
    columns: Columns,
    plan: StagePlan,
) -> StepBreakdown:
    """Parts of the step on the rank that is busy longest, whose passes take `spent`; bubble is what these and waiting for sends
    leave of the seconds that the pipeline takes."""
    seconds = dict(zip(KINDS_OF_SECONDS, spent.tolist(), strict=True))
    exposed_pp = max(pipeline - unhindered, 0.0)
    idle = max(pipeline - exposed_pp - float(spent.sum()), 0.0) if plan.ranks > 1 else 0.0
    work = _work(times, timeline, plan, machine, columns)
    matrices = np.array([newton_schulz_flops(part.model.operators) for part in times.parts if part.model.is_layer])
    flops, elements = (plan.layer_counts @ matrices).T
    optimizer = max(
        (
            optimizer_parts(rank.dense, rank.expert, float(flops[own].sum()), float(elements[own].sum()), machine, columns)
            for rank, own in zip(work, plan.stages_of, strict=True)
        ),
        key=lambda parts: sum(seconds for _, seconds in parts),
    )
    own = work[int(np.argmax(busy_seconds(timeline)))]
    return StepBreakdown(
        compute=seconds["compute"],
        recompute=seconds["recompute"],
        bubble=idle,
        optimizer=sum(each for _, each in optimizer),
        other=STEP_SECONDS,
        details=(
            *_bubble_details(idle, own.starts, own.ends, pipeline),
            *(StepDetail("optimizer", label, each) for label, each in optimizer),
            StepDetail("other", "Data loading and logging", STEP_SECONDS),
        ),
        exposed=ExposedCommunication(
            tp=seconds["tp"], cp=seconds["cp"], ep=seconds["ep"], pp=exposed_pp,
            dp=exposed_data_parallel(work, machine, columns, pipeline), fsdp=seconds["fsdp"],
        ),
    )


def _work(times: StageTimes, timeline: Timeline, plan: StagePlan, machine: Machine, columns: Columns) -> list[RankWork]:
    starts, ends = rank_windows(timeline)
    if columns.post_validation:  # every rank's step begins with its own first pass
        starts, ends = np.zeros_like(starts), ends - starts
    forward, backward, weight = times.seconds
    traffic = [traffic_beside_replicas(stages, times, machine, columns) for stages in plan.stages_of]
    return [
        RankWork(
            dense=float(times.dense[stages].sum()),
            expert=float(times.expert[stages].sum()),
            forward=float(forward[stages].sum()),
            backward=float(backward[stages].sum() + weight[stages].sum()),
            starts=float(starts[rank]),
            ends=float(ends[rank]),
            forward_traffic=traffic[rank][0],
            backward_traffic=traffic[rank][1],
        )
        for rank, stages in enumerate(plan.stages_of)
    ]


def _throughput(card: ModelCard, cluster: ClusterSpec, columns: Columns, seconds: float) -> Throughput:
    """Rates over the whole run: tokens are gbs times sequence length, exactly."""
    tokens_per_s = float(columns.gbs * columns.seq_length) / seconds
    flops = TRAINING_PASSES * forward_flops_per_sequence(card, int(columns.seq_length)) * float(columns.gbs)
    tflops = flops / seconds / cluster.gpus / TERA
    peak = cluster.hardware.peak_tflops.tflops(columns.precision)
    return Throughput(tokens_per_s, tokens_per_s / cluster.gpus, tflops, tflops / peak if peak else None)
