"""Exact event times of any order: each rank runs its passes in order, each as soon as its input is there.

One kernel, a plain function over indexable sequences: interpreted on lists for a single command, compiled by numba in
long-lived processes. Both give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projectors.inputs.recipe import Schedule
from projectors.pipeline.orders import Order
from projectors.pipeline.timeline import PassKind, Timeline


class PipelineDeadlock(Exception):
    """An order in which ranks wait for each other for ever; says which rank waits for what."""


def run_kernel(offsets: Any, stage: Any, microbatch: Any, kind: Any, seconds: Any, send: Any, stages: int, start: Any, end: Any,
               forward_end: Any, gradient_end: Any, at: Any, clock: Any) -> int:
    """Fill start and end of every pass; the number of passes that could run (all of them unless there is a deadlock)."""
    ranks = len(offsets) - 1
    done = 0
    moved = True
    while moved:
        moved = False
        for rank in range(ranks):
            position = at[rank]
            now = clock[rank]
            while position < offsets[rank + 1]:
                here = stage[position]
                index = microbatch[position] * stages + here
                what = kind[position]
                ready = now
                if what == 0:
                    if here > 0:
                        came = forward_end[index - 1]
                        if came < 0.0:
                            break
                        ready = max(now, came + send[here - 1])
                elif what == 1 or what == 2:
                    if here < stages - 1:
                        came = gradient_end[index + 1]
                        if came < 0.0:
                            break
                        ready = max(now, came + send[here])
                    elif forward_end[index] < 0.0:
                        break
                start[position] = ready
                now = ready + seconds[what][here]
                end[position] = now
                if what == 0:
                    forward_end[index] = now
                elif what != 3:
                    gradient_end[index] = now
                position += 1
                moved = True
            done += position - at[rank]
            at[rank] = position
            clock[rank] = now
    return done


def simulate(order: Order, forward: Any, backward: Any, weight: Any, send: Any) -> Timeline:
    """Event times of an order: seconds per virtual stage in model order; send[i] from stage i to i + 1 and back."""
    stages = order.ranks * order.chunks
    number = len(order.kind)
    start, end = [0.0] * number, [0.0] * number
    fused = [float(b) + float(w) for b, w in zip(backward, weight, strict=True)]
    seconds = [[float(x) for x in forward], fused, [float(x) for x in backward], [float(x) for x in weight]]
    done = run_kernel(
        order.offsets.tolist(), order.stage.tolist(), order.microbatch.tolist(), order.kind.tolist(), seconds,
        [float(x) for x in send], stages, start, end, [-1.0] * (stages * order.microbatches), [-1.0] * (stages * order.microbatches),
        order.offsets[:-1].tolist(), [0.0] * order.ranks,
    )
    if done < number:
        raise PipelineDeadlock("deadlock")
    rank = np.repeat(np.arange(order.ranks, dtype=np.int32), np.diff(order.offsets))
    return Timeline(order.schedule, order.ranks, order.chunks, order.microbatches, rank, order.chunk, order.microbatch, order.kind,
                    np.array(start), np.array(end))
