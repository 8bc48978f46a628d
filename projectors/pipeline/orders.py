"""The order of passes on every rank as flat arrays, with what each pass waits for. Depends on sizes only, never on times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from projectors.inputs.recipe import Schedule
from projectors.pipeline.actions import CHUNK_SHIFT, JOINED_BIT, KIND_BITS, Actions
from projectors.pipeline.controllable import controllable
from projectors.pipeline.kernels import COMPILED, NOBODY, sequence
from projectors.pipeline.legal import applicable
from projectors.pipeline.loop_schedules import H1, H2, gpipe, interleaved, one_f_one_b, zero_bubble
from projectors.pipeline.placement import placement, stages_of_ranks
from projectors.pipeline.timeline import PassKind
from projectors.pipeline.v_schedules import dualpipe, dualpipe_v, zbv

Indices = NDArray[np.int32]

ACTIONS: dict[Schedule, Callable[[int, int, int, int, bool], list[Actions]]] = {
    Schedule.GPIPE: lambda p, _v, m, _n, _j: [gpipe(m)] * p,
    Schedule.ONE_F_ONE_B: lambda p, _v, m, _n, _j: [one_f_one_b(r, p, m) for r in range(p)],
    Schedule.INTERLEAVED: lambda p, v, m, n, j: [interleaved(r, p, v, m, n, paired=j) for r in range(p)],
    Schedule.ZB_H1: lambda p, _v, m, _n, _j: [zero_bubble(r, p, m, H1) for r in range(p)],
    Schedule.ZB_H2: lambda p, _v, m, _n, _j: [zero_bubble(r, p, m, H2) for r in range(p)],
    Schedule.ZBV: lambda p, _v, m, _n, _j: [zbv(r, p, m) for r in range(p)],
    Schedule.V_HALF: lambda p, _v, m, _n, _j: controllable(Schedule.V_HALF, p, m),
    Schedule.V_MIN: lambda p, _v, m, _n, _j: controllable(Schedule.V_MIN, p, m),
    Schedule.DUALPIPE: lambda p, _v, m, _n, _j: [dualpipe(r, p, m) for r in range(p)],
    Schedule.DUALPIPE_V: lambda p, _v, m, _n, _j: [dualpipe_v(r, p, m) for r in range(p)],
}
"""Actions of every rank, from ranks p, chunks v, microbatches m, microbatches of a group n, and whether passes are paired j."""

CACHED_ORDERS = 128


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """Passes of all ranks, rank by rank, N in all; rank r owns offsets[r]:offsets[r + 1]. Indices N mean none."""

    schedule: Schedule
    ranks: int
    chunks: int
    microbatches: int
    group: int | None           # microbatches of a group of the interleaved schedule; None = p
    offsets: Indices            # [ranks + 1]
    rank: Indices               # [N]
    kind: NDArray[np.uint8]     # [N] PassKind
    microbatch: Indices         # [N]; DualPipe counts those of its second direction after those of the first
    chunk: Indices              # [N]
    stage: Indices              # [N] virtual stage
    joined: NDArray[np.bool_]   # [N] runs in one overlapped block with the pass after it
    before: Indices             # [N] pass before it on its rank
    need: Indices               # [N] pass whose result it waits for
    edge: Indices               # [N] boundary that the result crosses: i between stages i and i + 1, V - 1 = none
    run: Indices                # [R] passes in an order in which they can run; R < N only in a deadlock

    @property
    def stages(self) -> int:
        return self.ranks * self.chunks


@lru_cache(maxsize=CACHED_ORDERS)
def order(
    schedule: Schedule, ranks: int, chunks: int, microbatches: int, group: int | None = None, *, paired: bool = False
) -> Order:
    """The order of a schedule; raises ValueError with the reason where it cannot run these sizes.

    `chunks`: chunks of a rank, those of both directions for DualPipe; `group`: microbatches of a group of the interleaved
    schedule, p where None; `paired`: its forwards and backwards run in blocks. The order of zb-auto depends on times:
    `automatic.automatic`.
    """
    reason = applicable(schedule, ranks, chunks, microbatches, group)
    if reason is None and schedule not in ACTIONS:
        reason = f"{schedule.value} has no order of its own: it depends on the times of the passes"
    if reason:
        raise ValueError(reason)
    actions = ACTIONS[schedule](ranks, chunks, microbatches, group or ranks, paired)
    return assemble(schedule, ranks, chunks, microbatches, actions, group)


def assemble(
    schedule: Schedule, ranks: int, chunks: int, microbatches: int, actions: Sequence[Actions], group: int | None = None
) -> Order:
    """An order from the actions of every rank. `schedule` places the stages and names the result.

    Raises ValueError where a pass is missing or there twice.
    """
    codes = np.array([code for of_rank in actions for code in of_rank], dtype=np.int32)
    offsets = np.cumsum([0, *(len(of_rank) for of_rank in actions)], dtype=np.int32)
    number = len(codes)
    rank = np.repeat(np.arange(ranks, dtype=np.int32), np.diff(offsets))
    kind = (codes & ((1 << KIND_BITS) - 1)).astype(np.uint8)
    chunk = codes >> CHUNK_SHIFT
    joined = (codes & JOINED_BIT) > 0
    stage = stages_of_ranks(schedule, ranks, chunks).astype(np.int32)[rank, chunk]
    counted = _microbatches(kind, stage, ranks * chunks)
    length = ranks * chunks // schedule.copies
    of_each = microbatches // schedule.copies
    need = _needs(kind, stage, counted, joined, ranks * chunks, length, of_each)
    microbatch = counted + stage // length * of_each
    before = np.arange(-1, number - 1, dtype=np.int32)
    before[offsets[:-1]] = number
    edge = _edges(placement(schedule, ranks, chunks), kind, stage)
    run = _runnable(offsets, need)
    for array in (offsets, rank, kind, microbatch, chunk, stage, joined, before, need, edge, run):
        array.flags.writeable = False
    return Order(
        schedule, ranks, chunks, microbatches, group, offsets, rank, kind, microbatch, chunk, stage, joined, before, need, edge,
        run,
    )


def _microbatches(kind: NDArray[np.uint8], stage: Indices, stages: int) -> Indices:
    """Microbatch of each pass, counted in its copy of the model: the k-th forward on a stage is of microbatch k, the k-th
    backward too, and the k-th weight gradient that of the k-th input gradient."""
    microbatch = np.empty(len(kind), dtype=np.int32)
    is_weight = kind == PassKind.WEIGHT_GRADIENT
    is_forward = kind == PassKind.FORWARD
    for chosen in (is_forward, ~is_forward & ~is_weight):
        passes = _by_stage(chosen, stage)
        per_stage = np.bincount(stage[passes], minlength=stages)
        microbatch[passes] = np.arange(len(passes)) - np.repeat(np.cumsum(per_stage) - per_stage, per_stage)
    split, weights = _by_stage(kind == PassKind.INPUT_GRADIENT, stage), _by_stage(is_weight, stage)
    if not np.array_equal(stage[split], stage[weights]):
        raise ValueError(f"{len(split)} input gradients and {len(weights)} weight gradients, or on other chunks")
    microbatch[weights] = microbatch[split]
    return microbatch


def _by_stage(chosen: NDArray[np.bool_], stage: Indices) -> NDArray[np.intp]:
    """Chosen passes in the order in which they run, stage after stage."""
    passes = np.flatnonzero(chosen)
    return passes[np.argsort(stage[passes], kind="stable")]


def _needs(
    kind: NDArray[np.uint8],
    stage: Indices,
    microbatch: Indices,
    joined: NDArray[np.bool_],
    stages: int,
    length: int,
    microbatches: int,
) -> Indices:
    """The pass that each pass waits for: a forward for the stage before, a backward for the stage after (on the last stage
    for its own forward), a weight gradient for its input gradient. A block gives both results at its end.

    `length`: stages of a copy of the model; `microbatches`: those of a copy.
    """
    number = len(kind)
    passes = np.arange(number, dtype=np.int32)
    forward, backward = (np.full((stages + 1, microbatches), number, dtype=np.int32) for _ in range(2))
    is_forward, is_weight = kind == PassKind.FORWARD, kind == PassKind.WEIGHT_GRADIENT
    is_backward = ~is_forward & ~is_weight
    for table, chosen in ((forward, is_forward), (backward, is_backward)):
        found = np.bincount(stage[chosen] * microbatches + microbatch[chosen], minlength=stages * microbatches)
        if len(found) != stages * microbatches or (found != 1).any():
            raise ValueError("a pass is missing or there twice")
        table[stage[chosen], microbatch[chosen]] = passes[chosen] + joined[chosen]
    source = np.where(stage % length == 0, stages, stage - 1)
    need = np.where(is_forward, forward[source, microbatch], backward[np.where(is_weight, stage, stage + 1), microbatch])
    turn = is_backward & (stage % length == length - 1)
    need[turn] = forward[stage[turn], microbatch[turn]]
    return need


def _edges(rank_of: NDArray[np.int64], kind: NDArray[np.uint8], stage: Indices) -> Indices:
    """Boundary that the input of each pass crosses: a forward comes from the stage before, a gradient from the one after.

    The last stage's number where nothing comes from another rank.
    """
    none = len(rank_of) - 1
    boundaries = np.append(np.where(np.diff(rank_of) != 0, np.arange(none), none), none).astype(np.int32)
    edge = np.where(kind == PassKind.FORWARD, boundaries[stage - 1], boundaries[stage])
    edge[kind == PassKind.WEIGHT_GRADIENT] = none
    return edge


def _runnable(offsets: Indices, need: Indices) -> Indices:
    ranks, number = len(offsets) - 1, len(need)
    at, waiting, behind = offsets[:-1].copy(), np.full(number, NOBODY, np.int32), np.full(ranks, NOBODY, np.int32)
    ready, run = np.arange(ranks - 1, -1, -1, dtype=np.int32), np.zeros(number, dtype=np.int32)
    kernel = COMPILED.get(sequence.__name__)
    if kernel is None:
        listed = run.tolist()
        done = sequence(offsets.tolist(), need.tolist(), at.tolist(), waiting.tolist(), behind.tolist(), ready.tolist(), listed)
        run = np.array(listed, dtype=np.int32)
    else:
        done = kernel(offsets, need, at, waiting, behind, ready, run)
    return run[:done]
