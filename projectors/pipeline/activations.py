"""Activation bytes of every rank over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from projectors.pipeline.timeline import PassKind, Timeline


@dataclass(frozen=True, slots=True)
class ActivationCurve:
    """Steps of one rank: from `seconds[i]` on it holds `nbytes[i]` of activations. Starts and ends at 0 bytes."""

    seconds: NDArray[np.float64]    # [k], rising; one entry per change
    nbytes: NDArray[np.float64]     # [k]

    @property
    def peak(self) -> float:
        return float(self.nbytes.max()) if len(self.nbytes) else 0.0


def activation_curves(timeline: Timeline, chunk_bytes: Sequence[Sequence[float]]) -> tuple[ActivationCurve, ...]:
    """Of every rank. `chunk_bytes` [ranks][chunks]: what one microbatch keeps of a chunk, from the start of its forward pass
    until its weight gradient, or fused backward pass, has ended."""
    each = np.asarray(chunk_bytes, dtype=np.float64)
    rises = timeline.kind == PassKind.FORWARD
    falls = (timeline.kind == PassKind.BACKWARD) | (timeline.kind == PassKind.WEIGHT_GRADIENT)
    curves = []
    for rank in range(timeline.ranks):
        mine = timeline.rank == rank
        up, down = mine & rises, mine & falls
        seconds = np.concatenate([timeline.end[down], timeline.start[up]])  # what ends is freed before what starts then
        change = np.concatenate([-each[rank, timeline.chunk[down]], each[rank, timeline.chunk[up]]])
        order = np.argsort(seconds, kind="stable")
        curves.append(ActivationCurve(seconds[order], np.cumsum(change[order])))
    return tuple(curves)
