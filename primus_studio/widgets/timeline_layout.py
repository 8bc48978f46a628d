"""Where everything of the timeline lies, for one frame. Lengths in device-independent pixels."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QFontMetricsF

from primus_studio.theme.tokens import SPACE
from primus_studio.widgets.timeline_lanes import Lanes
from primus_studio.widgets.timeline_paint import LaneArea
from primus_studio.widgets.timeline_window import TimeWindow

LANE_MOST, LANE_LEAST = 54, 16
"""Height of a lane; lanes shrink to the least, then the view scrolls."""

INSET_SHARE = 9
"""A lane's height over the free space above and below its boxes."""


@dataclass(frozen=True, slots=True)
class TimelineLayout:
    """A paint device of `width` x `height` that shows `ranks` lanes, scrolled down by `scrolled`, over the time of `window`."""

    width: int
    height: int
    ranks: int
    scrolled: int
    window: TimeWindow
    ratio: float  # device pixels per device-independent pixel
    text_height: float
    name_width: float  # of the longest rank name
    bubble_width: float  # of the bubble column's header

    @property
    def axis_height(self) -> int:
        return int(self.text_height) + SPACE

    @property
    def room(self) -> int:
        """Height left for lanes."""
        return self.height - self.axis_height

    @property
    def lane_height(self) -> int:
        return max(LANE_LEAST, min(LANE_MOST, self.room // self.ranks))

    @property
    def inset(self) -> int:
        return max(1, self.lane_height // INSET_SHARE)

    @property
    def track(self) -> QRectF:
        """All lanes between the ranks' names and their bubbles, as if nothing were scrolled."""
        left = int(self.name_width + 2 * SPACE)
        width = max(20, int(self.width - left - self.bubble_width - 2 * SPACE))
        return QRectF(left, self.axis_height, width, self.lane_height * self.ranks)

    @property
    def bottom(self) -> float:
        """Lower end of the lanes in view."""
        return min(self.track.bottom() - self.scrolled, self.height)

    @property
    def area(self) -> LaneArea:
        """The lanes in view."""
        first = max(0, self.scrolled // self.lane_height)
        last = min(self.ranks, (self.scrolled + self.room) // self.lane_height + 1)
        tops = tuple(float(self.lane_top(rank) + self.inset) for rank in range(first, max(first, last)))
        track = self.track
        return LaneArea(track.left(), track.width(), tops, float(self.lane_height - 2 * self.inset), first, self.ratio)

    def lane_top(self, rank: int) -> int:
        return self.axis_height + rank * self.lane_height - self.scrolled

    def x(self, seconds: float) -> float:
        track = self.track
        return track.left() + (seconds - self.window.begin) / self.window.span * track.width()

    def seconds(self, x: float) -> float:
        track = self.track
        return self.window.begin + (x - track.left()) / track.width() * self.window.span

    def rank_at(self, place: QPointF) -> int | None:
        """The rank whose lane is under a place."""
        track = self.track
        if place.y() < self.axis_height or not track.left() <= place.x() < track.right():
            return None
        rank = int((place.y() - self.axis_height + self.scrolled) // self.lane_height)
        return rank if 0 <= rank < self.ranks else None

    def event_rect(self, lanes: Lanes, event: int) -> QRectF:
        """Where an event's box lies, in view or not."""
        timeline = lanes.timeline
        left, right = self.x(float(timeline.start[event])), self.x(float(timeline.end[event]))
        return QRectF(
            left, self.lane_top(int(timeline.rank[event])) + self.inset, max(2.0, right - left), self.lane_height - 2 * self.inset
        )


def layout_of(
    size: tuple[int, int], ranks: int, scrolled: int, window: TimeWindow, metrics: QFontMetricsF, ratio: float
) -> TimelineLayout:
    """The layout for labels in a font."""
    name, bubble = metrics.horizontalAdvance(f"rank {ranks - 1}"), metrics.horizontalAdvance("bubble")
    return TimelineLayout(*size, ranks, scrolled, window, ratio, metrics.height(), name, bubble)
