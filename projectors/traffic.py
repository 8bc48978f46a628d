"""The communication table: every collective of a step on one pipeline rank, with its group, algorithm, bytes and seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from projectors.columns import Columns
from projectors.communication.collectives import alternatives, bus_bandwidth, fastest
from projectors.communication.groups import Group, level_between, members, outermost, sharing, spread
from projectors.compute.layer import Machine, sharded_bytes
from projectors.data_parallel import transfers
from projectors.inputs.recipe import Recompute, Sharding
from projectors.results import CommunicationRow, ExposedCommunication
from projectors.stage_times import StageTimes
from projectors.stages import StagePlan, recomputed_counts
from projectors.workload.operators import Axis, CollectiveKind
from projectors.workload.parts import FP32_BYTES

PART_OF_AXIS = {Axis.TP: "tp", Axis.CP: "cp", Axis.EP: "ep", Axis.ETP: "ep"}
"""Collectives of layers: the part of the step that their exposed seconds go to."""

WORLD = "world"


@dataclass(frozen=True, slots=True)
class _Call:
    """What a row is about; `ranks` and `group` describe the same members."""

    part: str
    axis: str
    kind: CollectiveKind
    nbytes: float
    group: Group
    ranks: Sequence[int]


def communication_rows(
    rank: int, exposed: ExposedCommunication, times: StageTimes, plan: StagePlan, machine: Machine, columns: Columns,
    gpus_per_node: int, boundary: float,
) -> tuple[CommunicationRow, ...]:
    """Every collective of one GPU of a pipeline rank in one step; `boundary`: bytes that it sends to a neighboring stage."""
    calls: dict[tuple[str, str, CollectiveKind, float], tuple[_Call, float, list[str]]] = {}
    for call, times_a_step, user in _calls(rank, times, plan, machine, columns, boundary):
        if times_a_step <= 0 or call.nbytes <= 0 or len(call.ranks) <= 1:
            continue
        key = (call.part, call.axis, call.kind, call.nbytes)
        _, before, users = calls.setdefault(key, (call, 0.0, []))
        if user not in users:
            users.append(user)
        calls[key] = (call, before + times_a_step, users)
    priced = [
        (call, count, users, *fastest(call.kind, call.nbytes, call.group, machine.network))
        for call, count, users in calls.values()
    ]
    totals: dict[str, float] = {}
    for call, count, _, _, seconds in priced:
        totals[call.part] = totals.get(call.part, 0.0) + count * seconds
    return tuple(
        _row(call, count, users, algorithm, seconds, _share(call.part, exposed, totals), machine, gpus_per_node)
        for call, count, users, algorithm, seconds in priced
    )


def traffic_beside_replicas(
    stages: NDArray[np.int64], times: StageTimes, machine: Machine, columns: Columns
) -> tuple[float, float]:
    """Seconds of one microbatch' forward and backward passes over these virtual stages in which collectives of layers fill the
    outermost tier that data-parallel replicas are apart; 0 without contention. Sends between stages are not counted."""
    if not columns.contention:
        return 0.0, 0.0
    link = outermost(machine.groups[Axis.DP])
    sharers = {axis for axis in Axis if link >= 0 and outermost(machine.groups[axis]) == link}
    counts = times.counts[stages].sum(axis=0).tolist()
    forward = backward = 0.0
    for part, count in zip(times.parts, counts, strict=True):
        for row in part.seconds.rows if count and sharers else ():
            for each in row.operator.collectives:
                if each.axis in sharers:
                    seconds = count * float(machine.seconds(each.kind, each.axis, each.nbytes))
                    forward += each.forward * seconds
                    backward += (each.backward + each.forward * row.recomputed) * seconds
    return forward, backward


def _share(part: str, exposed: ExposedCommunication, totals: dict[str, float]) -> float:
    """Exposed seconds over all seconds of a part. What is in the optimizer step is never hidden."""
    if part == "optimizer":
        return 1.0
    return float(getattr(exposed, part)) / totals[part] if totals[part] > 0 else 0.0


def _calls(
    rank: int, times: StageTimes, plan: StagePlan, machine: Machine, columns: Columns, boundary: float
) -> Iterator[tuple[_Call, float, str]]:
    """(what, how often a step, used by what)."""
    stages = plan.stages_of[rank]
    first = rank * columns.gpus // plan.ranks
    microbatches = float(columns.microbatches / plan.copies)
    counts = times.counts[stages].sum(axis=0)
    again = recomputed_counts(plan, columns)[stages].sum(axis=0) if columns.recompute is Recompute.FULL else counts * 0
    groups = {axis: members(columns, axis, first) for axis in Axis}
    for part, count, repeated in zip(times.parts, counts.tolist(), again.tolist(), strict=True):
        if not count:
            continue
        for row in part.seconds.rows:
            forwards = count * (2 if row.recomputed else 1) + repeated
            for each in row.operator.collectives:
                often = (forwards * each.forward + count * each.backward) * microbatches
                axis = each.axis
                call = _Call(PART_OF_AXIS[axis], axis.value, each.kind, float(each.nbytes), machine.groups[axis], groups[axis])
                yield call, often, row.operator.name
        if columns.sharding.parameters:
            passes = count * microbatches
            sharded = sharded_bytes(part.model.operators, machine, columns)
            for axis, (group, gathered, scattered) in zip((Axis.DP, Axis.EXPERT_DP), sharded, strict=True):
                ranks = groups[axis][: int(group.size)]
                gather = _Call("fsdp", axis.value, CollectiveKind.ALL_GATHER, float(gathered), group, ranks)
                yield gather, 2 * passes, f"parameters of {part.model.label}"
                scatter = _Call("fsdp", axis.value, CollectiveKind.REDUCE_SCATTER, float(scattered), group, ranks)
                yield scatter, passes, f"gradients of {part.model.label}"
    yield from _sends(rank, plan, machine, columns, boundary)
    dense, expert = float(times.dense[stages].sum()), float(times.expert[stages].sum())
    for transfer in transfers(dense, expert, machine, columns):
        ranks, size = groups[transfer.axis], int(transfer.group.size)
        if size > 0:
            ranks = ranks[:: len(ranks) // size]
        moved = "parameters" if transfer.kind is CollectiveKind.ALL_GATHER else "gradients"
        often = float(columns.microbatches) if columns.sharding is Sharding.ZERO2 and moved == "gradients" else 1.0
        yield _Call("dp", transfer.axis.value, transfer.kind, transfer.nbytes, transfer.group, ranks), often, moved
    world = _Call(
        "optimizer", WORLD, CollectiveKind.ALL_REDUCE, FP32_BYTES, spread(machine.network, columns.gpus, 1), range(columns.gpus)
    )
    yield world, 1.0, "gradient norm"


def _sends(
    rank: int, plan: StagePlan, machine: Machine, columns: Columns, boundary: float
) -> Iterator[tuple[_Call, float, str]]:
    """What a rank sends to other ranks: activations to the stage after each of its own, gradients to the stage before."""
    block = columns.gpus // plan.ranks
    microbatches = float(columns.microbatches / plan.copies)
    for stage in plan.stages_of[rank].tolist():
        copy = stage // plan.length
        for other, user in ((stage + 1, "activations"), (stage - 1, "gradients of activations")):
            if other // plan.length != copy or int(plan.rank_of[other]) == rank:
                continue
            ends = sorted((rank * block, int(plan.rank_of[other]) * block))
            group = _pair(machine, *ends)
            yield _Call("pp", Axis.PP.value, CollectiveKind.SEND_RECEIVE, boundary, group, tuple(ends)), microbatches, user


def _pair(machine: Machine, first: int, second: int) -> Group:
    """Two ranks as a group: one fan-out of 2 at the innermost tier that holds both."""
    meeting = level_between(machine.network, first, second)
    return Group(2, second - first, tuple(2 if level is meeting else 1 for level in machine.network.levels))


def _row(
    call: _Call, count: float, users: list[str], algorithm: str, seconds: float, share: float, machine: Machine,
    gpus_per_node: int,
) -> CommunicationRow:
    levels = machine.network.levels
    return CommunicationRow(
        part=call.part,
        axis=call.axis,
        kind=call.kind.value,
        used_by=tuple(users),
        ranks=call.ranks,
        per_node=sharing(call.ranks, gpus_per_node),
        sharing=tuple((level.name, sharing(call.ranks, level.domain)) for level in levels),
        tiers=tuple(level.name for level, fanout in zip(levels, call.group.fanouts, strict=True) if fanout > 1),
        algorithm=algorithm,
        alternatives=alternatives(call.kind, call.nbytes, call.group, machine.network),
        nbytes=call.nbytes,
        seconds=seconds,
        calls=count,
        exposed=seconds * count * share,
        bus_bandwidth=bus_bandwidth(call.kind, call.nbytes, len(call.ranks), seconds),
    )
