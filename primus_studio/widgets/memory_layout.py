"""Where everything of the memory bars lies, for one frame. Lengths in device-independent pixels."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QRectF
from PySide6.QtGui import QFontMetricsF

from primus_studio.theme.tokens import SPACE
from primus_studio.widgets.memory_words import Segment
from projectors.results import MemoryBreakdown

ROW_MOST, ROW_LEAST = 32, 15
"""Height of a rank's row; rows shrink to the least, then the view scrolls."""

BAR_SHARE, BAR_LEAST = 0.72, 6.0
"""Part of a row's height that its bar takes, and the least height of a bar."""

BEYOND = 1.03
"""Length of the axis over the larger of capacity and peak."""


@dataclass(frozen=True, slots=True)
class MemoryLayout:
    """A view of `width` x `height` over `rows` rows, scrolled down by `scrolled`."""

    width: int
    height: int
    rows: int
    scrolled: int
    axis_height: int
    row_height: int
    left: float  # of the bars: right of the ranks' names
    length: float  # of the axis
    limit: float  # bytes at its end

    @property
    def room(self) -> int:
        """Height left for rows."""
        return self.height - self.axis_height

    def x(self, nbytes: float) -> float:
        return self.left + self.length * nbytes / self.limit

    def row(self, index: int) -> QRectF:
        return QRectF(0, self.axis_height + index * self.row_height - self.scrolled, self.width, self.row_height)

    def bar(self, row: int, start: float, end: float) -> QRectF:
        """The part of a row's bar from `start` to `end` bytes."""
        height = max(BAR_LEAST, self.row_height * BAR_SHARE)
        top = self.axis_height + (row + 0.5) * self.row_height - self.scrolled - height / 2
        left = self.x(start)
        return QRectF(left, top, max(1.0, self.x(end) - left), height)

    def segment(self, segment: Segment) -> QRectF:
        return self.bar(segment.rank, segment.start, segment.end)

    def row_at(self, y: float) -> int | None:
        """The row under a height."""
        row = int((y - self.axis_height + self.scrolled) // self.row_height)
        return row if y >= self.axis_height and 0 <= row < self.rows else None


def layout_of(
    memory: MemoryBreakdown, size: tuple[int, int], scrolled: int, small: QFontMetricsF, bold: QFontMetricsF
) -> MemoryLayout:
    """The layout for labels in a font and its bold sister."""
    width, height = size
    rows = len(memory.ranks)
    axis_height = int(small.height()) + SPACE
    name = bold.horizontalAdvance(f"rank {rows}") + 1.5 * SPACE
    total = bold.horizontalAdvance("8,888.8 GiB") + SPACE
    row_height = max(ROW_LEAST, min(ROW_MOST, (height - axis_height) // rows))
    limit = max(memory.capacity_bytes, memory.peak_bytes) * BEYOND
    return MemoryLayout(width, height, rows, scrolled, axis_height, row_height, name, max(20.0, width - name - total), limit)
