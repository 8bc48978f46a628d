"""The simulated pipeline as arrays, and what is read off them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from projectors.inputs.recipe import Schedule


class PassKind(IntEnum):
    """What a rank does for one microbatch of one chunk."""

    FORWARD = 0
    BACKWARD = 1         # input and weight gradient in one
    INPUT_GRADIENT = 2
    WEIGHT_GRADIENT = 3

    @property
    def label(self) -> str:
        return self.name.replace("_", " ").capitalize()


@dataclass(frozen=True, slots=True)
class Timeline:
    """Every pass of one step, sorted by rank, then start. Arrays of equal length; times in seconds from the step's start."""

    schedule: Schedule
    ranks: int
    chunks: int
    microbatches: int
    rank: NDArray[np.int32]
    chunk: NDArray[np.int32]
    microbatch: NDArray[np.int32]
    kind: NDArray[np.uint8]
    start: NDArray[np.float64]
    end: NDArray[np.float64]

    @property
    def makespan(self) -> float:
        """Seconds until the last pass of any rank ends."""
        return float(self.end.max()) if len(self.end) else 0.0


def busy_seconds(timeline: Timeline) -> NDArray[np.float64]:
    """Seconds that each rank computes, [ranks]."""
    return np.bincount(timeline.rank, timeline.end - timeline.start, minlength=timeline.ranks).astype(np.float64)


def bubble_fraction(timeline: Timeline) -> float:
    """Idle share of all ranks until the makespan: 1 - sum of busy / (p makespan)."""
    makespan = timeline.makespan
    return 1.0 - float(busy_seconds(timeline).sum()) / (timeline.ranks * makespan) if makespan else 0.0


def rank_windows(timeline: Timeline) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Start of the first pass and end of the last one on each rank, [ranks] seconds each."""
    starts, ends = np.full(timeline.ranks, np.inf), np.zeros(timeline.ranks)
    np.minimum.at(starts, timeline.rank, timeline.start)
    np.maximum.at(ends, timeline.rank, timeline.end)
    return starts, ends


def stage_span(timeline: Timeline) -> float:
    """Longest time from a rank's first pass to its last: what a step takes when no barrier follows (arXiv:2401.10241, 4)."""
    starts, ends = rank_windows(timeline)
    return float((ends - starts).max())
