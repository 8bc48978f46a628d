"""A pipeline's events as the timeline draws them: lanes of sorted arrays, and exact shares of color per pixel. No Qt.

A pixel of a crowded view covers many passes. Its color is the mean of theirs weighted by their time, the idle rest being the
ground: prefix sums over a lane's events give it exactly with one binary search per pixel edge, at any zoom.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from projectors.pipeline.timeline import Timeline, busy_seconds


@dataclass(frozen=True, slots=True)
class Lanes:
    """One lane per pipeline rank over the arrays of a `Timeline` (sorted by rank, then start)."""

    timeline: Timeline
    offsets: NDArray[np.int64]  # [ranks + 1]: events of rank r are offsets[r] to offsets[r + 1]
    classes: NDArray[np.intp]  # [n]: kind * chunks + chunk, what the color hangs on
    idle: NDArray[np.float64]  # [ranks]: share of the makespan in which the rank waits
    makespan: float  # seconds

    @property
    def ranks(self) -> int:
        return self.timeline.ranks

    def span(self, rank: int) -> slice:
        """The rank's events."""
        return slice(int(self.offsets[rank]), int(self.offsets[rank + 1]))

    def visible(self, rank: int, begin: float, end: float) -> slice:
        """The rank's events that touch the time from `begin` to `end`."""
        lane = self.span(rank)
        first = lane.start + int(np.searchsorted(self.timeline.end[lane], begin, side="right"))
        last = lane.start + int(np.searchsorted(self.timeline.start[lane], end, side="left"))
        return slice(first, max(first, last))

    def event_at(self, rank: int, seconds: float) -> int | None:
        """The event that runs on a rank at a time."""
        lane = self.span(rank)
        at = lane.start + int(np.searchsorted(self.timeline.start[lane], seconds, side="right")) - 1
        return at if at >= lane.start and seconds < self.timeline.end[at] else None

    def gap_at(self, rank: int, seconds: float) -> tuple[float, float] | None:
        """Begin and end of the idle time around a time, or None while the rank works or outside of the makespan."""
        if not 0 <= seconds < self.makespan or self.event_at(rank, seconds) is not None:
            return None
        lane = self.span(rank)
        after = lane.start + int(np.searchsorted(self.timeline.start[lane], seconds, side="right"))
        begin = float(self.timeline.end[after - 1]) if after > lane.start else 0.0
        end = float(self.timeline.start[after]) if after < lane.stop else self.makespan
        return begin, end

    def of_microbatch(self, microbatch: int) -> NDArray[np.intp]:
        """All passes of one microbatch."""
        return np.flatnonzero(self.timeline.microbatch == microbatch)

    def flow(self, event: int) -> NDArray[np.intp]:
        """All passes of the event's microbatch in the order of time."""
        passes = self.of_microbatch(int(self.timeline.microbatch[event]))
        return passes[np.argsort(self.timeline.start[passes], kind="stable")]


def lanes_of(timeline: Timeline) -> Lanes:
    """Lanes of a timeline."""
    makespan = timeline.makespan
    busy = busy_seconds(timeline)
    return Lanes(
        timeline,
        offsets=np.searchsorted(timeline.rank, np.arange(timeline.ranks + 1)),
        classes=timeline.kind.astype(np.intp) * timeline.chunks + timeline.chunk,
        idle=1 - busy / makespan if makespan else np.zeros_like(busy),
        makespan=makespan,
    )


@dataclass(frozen=True, slots=True)
class ColorSums:
    """Prefix sums of busy seconds times color, [4, n + 1]: red, green, blue, 1."""

    sums: NDArray[np.float64]
    colors: NDArray[np.float64]  # [4, classes]


def color_sums(lanes: Lanes, palette: NDArray[np.float64]) -> ColorSums:
    """Prefix sums for a palette [classes, 3] of red, green, blue from 0 to 255."""
    timeline = lanes.timeline
    colors = np.concatenate([palette.T, np.ones((1, len(palette)))])
    sums = np.zeros((4, len(timeline.start) + 1))
    seconds = timeline.end - timeline.start
    for of_channel, total in zip(colors, sums, strict=True):
        weighted = of_channel[lanes.classes]
        weighted *= seconds
        np.cumsum(weighted, out=total[1:])
    return ColorSums(sums, colors)


def pixel_colors(
    lanes: Lanes, sums: ColorSums, rank: int, edges: NDArray[np.float64], ground: NDArray[np.float64]
) -> NDArray[np.uint8]:
    """Mean color of a rank between each two neighboring times of `edges` [w + 1], as [w, 3]; idle time counts as `ground` [3]."""
    timeline, lane = lanes.timeline, lanes.span(rank)
    if lane.start == lane.stop:
        return np.broadcast_to(ground.astype(np.uint8), (len(edges) - 1, 3)).copy()
    begun = lane.start + np.searchsorted(timeline.start[lane], edges, side="right")
    running = np.maximum(begun - 1, lane.start)
    start = timeline.start[running]
    done = np.clip(edges - start, 0, timeline.end[running] - start)
    until = sums.sums[:, running] + done * sums.colors[:, lanes.classes[running]]
    share = np.diff(until, axis=1) / np.diff(edges)
    busy = share[3]
    over = np.maximum(busy, 1.0)  # overlapped passes of a rank together fill a pixel, not more
    mean = share[:3] / over + (1 - np.minimum(busy, 1.0)) * ground[:, None]
    colors: NDArray[np.uint8] = np.clip(mean.T + 0.5, 0, 255).astype(np.uint8)
    return colors
