"""Exact times of an order: each rank runs its passes in turn, each as soon as its input is there."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from projectors.inputs.recipe import Schedule
from projectors.pipeline.kernels import COMPILED, compile_kernels, many, many_vectors, times
from projectors.pipeline.orders import Order, order
from projectors.pipeline.placement import placement
from projectors.pipeline.timeline import PassKind, Timeline

Seconds = NDArray[np.float64]


TOGETHER = 64
"""Candidates that are simulated together: their vectors stay in the cache, and 32,768 passes of them take 16 MB."""


class PipelineDeadlock(Exception):
    """Ranks wait for each other for ever; the message says which rank waits for what."""


def compile_kernel() -> None:
    """Compile the simulation for this process; worth it where many pipelines are simulated."""
    compile_kernels()
    smallest = order(Schedule.ONE_F_ONE_B, 1, 1, 1)
    simulate(smallest, [0.0], [0.0], [0.0], [])
    simulate_many(smallest, [[0.0]], [[0.0]], [[0.0]], np.zeros((0, 1)))


def simulate(
    order: Order,
    forward: ArrayLike,
    backward: ArrayLike,
    weight: ArrayLike,
    send: ArrayLike,
    *,
    blocking_send: bool = False,
    overlap: float = 1.0,
    paired: tuple[ArrayLike, ArrayLike] | None = None,
) -> Timeline:
    """Times of every pass of an order.

    Parameters
    ----------
    order : Order
        From `orders.order`.
    forward, backward, weight : [V] seconds
        Of one microbatch on each virtual stage in model order: forward pass, input gradient, weight gradient. A fused backward
        takes the last two.
    send : [V - 1] seconds
        From virtual stage i to i + 1 and, for gradients, back. Not paid between stages of one rank.
    blocking_send : bool
        A rank computes nothing while it sends; otherwise sends take time but no rank waits for its own.
    overlap : float
        Seconds of an overlapped forward-and-backward block over those of the two one after the other (DualPipe).
    paired : ([V] seconds, [V] seconds)
        Of a forward and of a whole backward inside such a block, where they are not those of a pass on its own times `overlap`.

    Raises
    ------
    PipelineDeadlock
        Where the order cannot be run to its end.
    """
    if len(order.run) < len(order.kind):
        raise PipelineDeadlock(_who_waits(order))
    per_stage = np.array([forward, np.add(backward, weight), backward, weight], dtype=np.float64)
    edges = np.append(np.asarray(send, dtype=np.float64), 0.0)
    if per_stage.shape[1] != order.stages or len(edges) != order.stages:
        raise ValueError(f"{order.stages} virtual stages, but times of {per_stage.shape[1]} and {len(edges) - 1} boundaries")
    seconds = per_stage[order.kind, order.stage]
    first = np.flatnonzero(order.joined)
    shares, rests = seconds[first] * overlap, seconds[first + 1] * overlap
    if paired is not None:
        inside = np.asarray(paired, dtype=np.float64)
        shares, rests = inside[0, order.stage[first]], inside[1, order.stage[first + 1]]
    if len(first):
        seconds[first + 1] = shares + rests
        seconds[first] = 0.0
    if blocking_send:
        start, end = _times(order, seconds + _sending(order, edges), np.zeros(len(seconds)))
        end = start + seconds
    else:
        start, end = _times(order, seconds, edges[order.edge])
    if len(first):  # inside a block the forward is drawn first
        start[first] = start[first + 1]
        end[first] = start[first + 1] = start[first] + shares
    return Timeline(
        order.schedule, order.ranks, order.chunks, order.microbatches,
        order.rank, order.chunk, order.microbatch, order.kind, start, end,
    )


def simulate_many(
    order: Order,
    forward: ArrayLike,
    backward: ArrayLike,
    weight: ArrayLike,
    send: ArrayLike,
    *,
    overlap: float = 1.0,
    barrier: bool = True,
) -> Seconds:
    """Seconds that the pipeline takes, [n], for n candidates that share an order: a search simulates them together.

    forward, backward, weight [V, n]; send [V - 1, n]; else as `simulate`, whose makespan (to the last bit) this is with
    `barrier`, else its longest span of a rank. No rank waits for its sends. Raises PipelineDeadlock.
    """
    if len(order.run) < len(order.kind):
        raise PipelineDeadlock(_who_waits(order))
    ahead, back, late = (np.asarray(each, dtype=np.float64) for each in (forward, backward, weight))
    sends = np.asarray(send, dtype=np.float64)
    if ahead.shape[0] != order.stages or len(sends) != order.stages - 1:
        raise ValueError(f"{order.stages} virtual stages, but times of {len(ahead)} and {len(sends)} boundaries")
    row = order.kind.astype(np.int32) * order.stages + order.stage
    table = [ahead, back + late, back, late]
    first = np.flatnonzero(order.joined)
    if len(first):
        rows = np.concatenate(table)
        pairs, of_pair = np.unique(np.stack([row[first], row[first + 1]]), axis=1, return_inverse=True)
        table += [np.zeros((1, ahead.shape[1])), rows[pairs[0]] * overlap + rows[pairs[1]] * overlap]
        row[first], row[first + 1] = len(rows), len(rows) + 1 + of_pair
    seconds, delay = np.concatenate(table), np.concatenate([sends, np.zeros((1, ahead.shape[1]))])
    found = np.empty(ahead.shape[1])
    for start in range(0, len(found), TOGETHER):
        batch = slice(start, start + TOGETHER)
        found[batch] = _many(order, row, np.ascontiguousarray(seconds[:, batch]), np.ascontiguousarray(delay[:, batch]), barrier)
    return found


def _many(order: Order, row: NDArray[np.int32], seconds: Seconds, delay: Seconds, barrier: bool) -> Seconds:
    end = np.zeros((len(order.kind) + 1, seconds.shape[1]))
    COMPILED.get(many.__name__, many_vectors)(order.run, order.before, order.need, row, order.edge, seconds, delay, end)
    last = end[order.offsets[1:] - 1]
    if not barrier:
        begins = order.offsets[:-1] + order.joined[order.offsets[:-1]]  # a block has its time on its second pass
        last = last - (end[begins] - seconds[row[begins]])
    longest: Seconds = last.max(axis=0)
    return longest


def _times(order: Order, seconds: Seconds, delay: Seconds) -> tuple[Seconds, Seconds]:
    number = len(seconds)
    kernel = COMPILED.get(times.__name__)
    if kernel is None:
        start, end = [0.0] * number, [0.0] * (number + 1)
        times(order.run.tolist(), order.before.tolist(), order.need.tolist(), delay.tolist(), seconds.tolist(), start, end)
        return np.array(start), np.array(end[:-1])
    starts, ends = np.zeros(number), np.zeros(number + 1)
    kernel(order.run, order.before, order.need, delay, seconds, starts, ends)
    return starts, ends[:-1]


def _sending(order: Order, edges: Seconds) -> Seconds:
    """Seconds for which each pass keeps its rank busy sending afterwards; a block sends both results after it."""
    rank_of = placement(order.schedule, order.ranks, order.chunks)
    across = np.where(np.diff(rank_of) != 0, edges[:-1], 0.0)
    to_next, to_previous = np.append(across, 0.0), np.append(0.0, across)
    is_forward, is_weight = order.kind == PassKind.FORWARD, order.kind == PassKind.WEIGHT_GRADIENT
    sending: Seconds = np.where(is_forward, to_next[order.stage], np.where(is_weight, 0.0, to_previous[order.stage]))
    first = np.flatnonzero(order.joined)
    sending[first + 1] += sending[first]
    sending[first] = 0.0
    return sending


def _who_waits(order: Order) -> str:
    done = np.bincount(order.rank[order.run], minlength=order.ranks)
    stuck = order.offsets[:-1] + done
    lines = [
        f"rank {rank}: {_pass(order, int(here))} waits for {_pass(order, int(order.need[here]))}"
        for rank, here in enumerate(stuck)
        if here < order.offsets[rank + 1]
    ]
    sizes = f"pp {order.ranks}, vpp {order.chunks}, {order.microbatches} microbatches"
    return f"{order.schedule.value} with {sizes} cannot go on: " + "; ".join(lines)


def _pass(order: Order, index: int) -> str:
    kind = PassKind(int(order.kind[index])).label.lower()
    return f"{kind} of microbatch {order.microbatch[index]} on chunk {order.chunk[index]} of rank {order.rank[index]}"
