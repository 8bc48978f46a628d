"""Which activations are live together on a rank. Depends on the order of passes alone: a rank runs one pass at a time."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from projectors.inputs.recipe import Schedule
from projectors.pipeline.orders import order
from projectors.pipeline.timeline import PassKind

SATURATION = {
    Schedule.ONE_F_ONE_B: 1,
    Schedule.INTERLEAVED: 2,
    Schedule.ZB_H1: 1,
    Schedule.ZB_H2: 2,
    Schedule.ZBV: 3,
    Schedule.V_HALF: 4,
    Schedule.V_MIN: 4,
    Schedule.DUALPIPE: 2,
    Schedule.DUALPIPE_V: 3,
}
"""Microbatches over pp (over their group for the interleaved schedule) from which on more of them change no live set, where no
group is left incomplete; a test compares with many more."""

Counts = NDArray[np.int64]


def live_chunks(
    schedule: Schedule,
    ranks: int,
    chunks: int,
    microbatches: int,
    group: int | None = None,
    *,
    limit: int | tuple[int, ...] | None = None,
    paired: bool = False,
    freed_by: PassKind = PassKind.WEIGHT_GRADIENT,
) -> tuple[Counts, ...]:
    """Live microbatches of each chunk, [k, chunks] for each rank: every set that no other one holds at least as much of.

    An activation lives from the start of its forward until its weight gradient (or fused backward) has ended; with
    `freed_by` INPUT_GRADIENT, until its input gradient has. The most bytes that a rank holds is the largest of these rows
    times the bytes of its chunks. `limit`: activations that zb-auto may hold, on every rank or on each, all of which count as
    held; 1, with which it can still run, where None. `paired`: passes of the interleaved schedule run in blocks.
    """
    if schedule is Schedule.GPIPE:
        return _stated((microbatches,) * ranks)
    if schedule is Schedule.ZB_AUTO:
        limits = limit if isinstance(limit, tuple) else (limit or 1,) * ranks
        return _stated(tuple(min(microbatches, each) for each in limits))
    unit = group or ranks
    enough = SATURATION[schedule] * unit + microbatches % unit * (schedule is Schedule.INTERLEAVED)
    return _live(schedule, ranks, chunks, min(microbatches, enough), group, freed_by, paired)


def peak_in_flight(
    schedule: Schedule, ranks: int, chunks: int, microbatches: int, group: int | None = None
) -> NDArray[np.float64]:
    """Most microbatches in flight on each rank, [ranks]: live chunks over the chunks of a rank."""
    sets = live_chunks(schedule, ranks, chunks, microbatches, group)
    return np.array([rows.sum(axis=1).max() / chunks for rows in sets])


@lru_cache(maxsize=4096)
def _stated(microbatches: tuple[int, ...]) -> tuple[Counts, ...]:
    """As many on each rank as stated: all microbatches in GPipe, which ends no backward before the last forward."""
    return tuple(_fixed(np.array([[each]], dtype=np.int64)) for each in microbatches)


@lru_cache(maxsize=4096)
def _live(
    schedule: Schedule, ranks: int, chunks: int, microbatches: int, group: int | None, freed_by: PassKind, paired: bool = False
) -> tuple[Counts, ...]:
    passes = order(schedule, ranks, chunks, microbatches, group, paired=paired)
    frees = (passes.kind == PassKind.BACKWARD) | (passes.kind == freed_by)
    change = (passes.kind == PassKind.FORWARD).astype(np.int64) - frees
    found = []
    for first, last in zip(passes.offsets[:-1], passes.offsets[1:], strict=True):
        by_chunk = np.zeros((last - first, chunks), dtype=np.int64)
        by_chunk[np.arange(last - first), passes.chunk[first:last]] = change[first:last]
        rises = change[first:last] > 0
        tops = rises & ~np.append(rises[1:], False)  # between two forwards nothing is freed, so the later one holds more
        found.append(_fixed(_undominated(np.cumsum(by_chunk, axis=0)[tops])))
    return tuple(found)


def _undominated(rows: Counts) -> Counts:
    """Rows that no other row equals or exceeds everywhere, largest sums first."""
    rest = np.unique(rows, axis=0)
    kept = []
    while len(rest):
        sums = rest.sum(axis=1)
        largest = sums == sums.max()  # none of equal sum exceeds another
        kept.append(rest[largest])
        rest = rest[~largest]
        if len(rest):
            rest = rest[~(kept[-1][:, None] >= rest[None]).all(axis=2).any(axis=0)]
    return np.concatenate(kept)


def _fixed(array: Counts) -> Counts:
    array.flags.writeable = False
    return array
