"""Order of passes on every rank, one plain function per schedule: (rank, ranks, chunks, microbatches) -> passes.

A pass is (kind, microbatch, chunk). Orders depend on sizes only, never on durations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from projectors.inputs.recipe import Schedule
from projectors.pipeline.timeline import PassKind

Pass = tuple[PassKind, int, int]
F, B, I, W = PassKind.FORWARD, PassKind.BACKWARD, PassKind.INPUT_GRADIENT, PassKind.WEIGHT_GRADIENT


def gpipe(rank: int, ranks: int, chunks: int, microbatches: int) -> list[Pass]:
    """All forwards, then all backwards (arXiv:1811.06965)."""
    return [(F, k, 0) for k in range(microbatches)] + [(B, k, 0) for k in range(microbatches)]


def one_f_one_b(rank: int, ranks: int, chunks: int, microbatches: int) -> list[Pass]:
    """Warm up with p - 1 - r forwards, then one forward, one backward (PipeDream-flush, arXiv:2104.04473, 2.2.1)."""
    warm = min(ranks - 1 - rank, microbatches)
    steady = [step for k in range(microbatches - warm) for step in ((F, warm + k, 0), (B, k, 0))]
    return [(F, k, 0) for k in range(warm)] + steady + [(B, k, 0) for k in range(microbatches - warm, microbatches)]


def interleaved(rank: int, ranks: int, chunks: int, microbatches: int) -> list[Pass]:
    """Groups of p microbatches through one chunk after the other (arXiv:2104.04473, 2.2.2; Megatron-Core)."""
    table = [
        (k, chunk)
        for first in range(0, microbatches, ranks)
        for chunk in range(chunks)
        for k in range(first, min(first + ranks, microbatches))
    ]
    warm = min(2 * (ranks - 1 - rank) + (chunks - 1) * ranks, len(table))
    forward = [(F, k, chunk) for k, chunk in table]
    backward = [(B, k, chunks - 1 - chunk) for k, chunk in table]
    steady = [step for pair in zip(forward[warm:], backward, strict=False) for step in pair]
    return forward[:warm] + steady + backward[len(table) - warm :]


@dataclass(frozen=True, slots=True)
class Order:
    """Passes of all ranks, rank by rank; rank r owns the slice offsets[r]:offsets[r + 1]."""

    schedule: Schedule
    ranks: int
    chunks: int
    microbatches: int
    offsets: NDArray[np.int64]      # [ranks + 1]
    kind: NDArray[np.uint8]         # [N]
    microbatch: NDArray[np.int32]   # [N]
    chunk: NDArray[np.int32]        # [N]
    stage: NDArray[np.int32]        # [N] virtual stage


_ORDERS: dict[Schedule, Callable[[int, int, int, int], list[Pass]]] = {
    Schedule.GPIPE: gpipe,
    Schedule.ONE_F_ONE_B: one_f_one_b,
    Schedule.INTERLEAVED: interleaved,
}


@lru_cache(maxsize=64)
def order(schedule: Schedule, ranks: int, chunks: int, microbatches: int) -> Order:
    """The order of a legal size (`applicable` says which are)."""
    per_rank = [_ORDERS[schedule](rank, ranks, chunks, microbatches) for rank in range(ranks)]
    passes = np.array([step for steps in per_rank for step in steps], dtype=np.int64).reshape(-1, 3)
    offsets = np.cumsum([0, *(len(steps) for steps in per_rank)])
    rank = np.repeat(np.arange(ranks), np.diff(offsets))
    stage = stage_of(schedule, ranks, chunks)[rank, passes[:, 2]]
    return Order(
        schedule, ranks, chunks, microbatches, offsets, passes[:, 0].astype(np.uint8), passes[:, 1].astype(np.int32),
        passes[:, 2].astype(np.int32), stage.astype(np.int32),
    )


def stage_of(schedule: Schedule, ranks: int, chunks: int) -> NDArray[np.int64]:
    """Virtual stage of each chunk of each rank, [ranks, chunks]: loop placement, or V (chunk 1 runs back)."""
    rank, chunk = np.meshgrid(np.arange(ranks), np.arange(chunks), indexing="ij")
    stage = chunk * ranks + rank
    if schedule.v_shaped:
        stage = np.where(chunk % 2 == 1, chunk * ranks + ranks - 1 - rank, stage)
    return stage


def applicable(schedule: Schedule, ranks: int, chunks: int, microbatches: int) -> str | None:
    """None where the schedule can run these sizes, else the reason in words."""
    if schedule not in _ORDERS:
        return f"{schedule.value} is not simulated"
    if schedule is Schedule.INTERLEAVED:
        if chunks < 2:
            return "interleaved needs vpp of 2 or more"
        if microbatches % ranks and microbatches % ranks < ranks and microbatches % ranks != 0:
            return f"interleaved needs a multiple of pp = {ranks} microbatches, there are {microbatches}"
        return None
    if chunks != 1:
        return f"{schedule.value} needs vpp 1"
    return None


def live_chunks(schedule: Schedule, ranks: int, chunks: int, microbatches: int) -> tuple[NDArray[np.int64], ...]:
    """Undominated sets of live microbatches per chunk, one array [k, chunks] per rank."""
    return _live(schedule, ranks, chunks, min(microbatches, 4 * ranks))


@lru_cache(maxsize=4096)
def _live(schedule: Schedule, ranks: int, chunks: int, microbatches: int) -> tuple[NDArray[np.int64], ...]:
    every = order(schedule, ranks, chunks, microbatches)
    found = []
    for rank in range(ranks):
        part = slice(every.offsets[rank], every.offsets[rank + 1])
        change = np.zeros((part.stop - part.start, chunks), dtype=np.int64)
        kind = every.kind[part]
        change[np.arange(len(change)), every.chunk[part]] = np.where(kind == F, 1, np.where(kind == I, 0, -1))
        live = np.unique(np.cumsum(change, axis=0), axis=0)
        undominated = [row for row in live if not any((other >= row).all() and (other > row).any() for other in live)]
        found.append(np.array(undominated))
    return tuple(found)
