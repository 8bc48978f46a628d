"""The inner loops of the simulation, each a plain function over sequences that can be indexed.

Interpreted they run on lists at once; numba, which takes half a second to import, compiles the same source for processes
that live long enough to gain from it (`compile_kernels`). Both give the same bits: numba keeps the order of operations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

DONE = -2
NOBODY = -1


def sequence(offsets: Any, need: Any, at: Any, waiting: Any, behind: Any, ready: Any, run: Any) -> int:
    """Fill `run` with passes in an order in which everything that a pass waits for comes before it.

    Every rank runs its passes offsets[r]:offsets[r + 1] in turn until one waits for a pass that is not done. `at` [ranks]:
    first pass of each rank; `waiting` [N] and `behind` [ranks] start as NOBODY; `ready` [ranks]: ranks in any order.
    Returns how many passes can run; fewer than all means a deadlock.
    """
    last = len(run)
    done = 0
    left = len(ready)
    while left > 0:
        left -= 1
        rank = ready[left]
        here = at[rank]
        while here < offsets[rank + 1]:
            need_here = need[here]
            if need_here < last and waiting[need_here] != DONE:
                behind[rank] = waiting[need_here]
                waiting[need_here] = rank
                break
            run[done] = here
            done += 1
            woken = waiting[here]
            waiting[here] = DONE
            while woken >= 0:
                ready[left] = woken
                left += 1
                woken = behind[woken]
            here += 1
        at[rank] = here
    return done


def times(run: Any, before: Any, need: Any, delay: Any, seconds: Any, start: Any, end: Any) -> None:
    """Fill start [N] and end [N + 1] of every pass: as soon as its rank is free and its input has come.

    `before`: pass before it on its rank; `need`: pass whose result it waits for, `delay` seconds on the way. N stands for
    none: end[N] is 0.
    """
    for here in run:
        free = end[before[here]]
        come = end[need[here]] + delay[here]
        begin = free if free > come else come  # noqa: FURB136 - a call of max() takes half as long as all the rest
        start[here] = begin
        end[here] = begin + seconds[here]


def many(run: Any, before: Any, need: Any, row: Any, edge: Any, seconds: Any, delay: Any, end: Any) -> None:
    """Fill end [N + 1, n] of every pass for n candidates at once: as `times`, with a vector in place of a number.

    `row` [N]: which of `seconds` [rows, n] a pass takes; `edge` [N]: which of `delay` [edges, n] its input takes.
    """
    for here in run:
        free, come, lasts = end[before[here]], end[need[here]], seconds[row[here]]
        later, done = delay[edge[here]], end[here]
        for each in range(len(done)):
            arrives = come[each] + later[each]
            done[each] = (free[each] if free[each] > arrives else arrives) + lasts[each]  # noqa: FURB136 - see `times`


def many_vectors(run: Any, before: Any, need: Any, row: Any, edge: Any, seconds: Any, delay: Any, end: Any) -> None:
    """`many` for the interpreter: NumPy works through the candidates of a pass."""
    maximum = np.maximum
    for here, free, come, lasts, later in zip(run, before[run], need[run], row[run], edge[run], strict=True):
        end[here] = maximum(end[free], end[come] + delay[later]) + seconds[lasts]


COMPILED: dict[str, Any] = {}


def compile_kernels() -> None:
    """Use compiled kernels from now on in this process. The machine code is kept on disk between processes."""
    if COMPILED:
        return
    from numba import njit

    COMPILED.update({kernel.__name__: njit(cache=True, nogil=True)(kernel) for kernel in (sequence, times, many)})
