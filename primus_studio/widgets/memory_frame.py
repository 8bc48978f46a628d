"""One frame of the memory bars: axis, capacity and margin, rows. Paints on any device."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPen

from primus_studio.theme.contrast import ink_on
from primus_studio.theme.marks import MEMORY_HUES, mark
from primus_studio.theme.tokens import SPACE, Tokens, mixed
from primus_studio.widgets.axis import round_step, ticks
from primus_studio.widgets.draw import draw_elided, focus_ring, hatch
from primus_studio.widgets.memory_layout import MemoryLayout
from primus_studio.widgets.memory_words import Segment
from projectors.results import MemoryBreakdown, MemoryComponent
from projectors.text import GIB, bytes_text

TICK_ROOM = 64
"""Least distance of axis labels in device-independent pixels."""

FADED = 0.78
"""How far components that are not brought out go towards the ground."""

QUIETER = 0.15
"""How far ranks other than the peak go towards the ground."""

MARGIN_QUIETER = 0.45
"""How far the hatching of the safety margin goes towards the ground."""

LABEL_LEAST = 26.0
"""Least width of a segment that carries its size, in device-independent pixels."""

Stacks = tuple[tuple[Segment, ...], ...]


@dataclass(frozen=True, slots=True)
class Look:
    """How a frame looks: colors, fonts, and what is brought out."""

    colors: Tokens
    small: QFont
    bold: QFont
    brought_out: MemoryComponent | None = None
    focused: Segment | None = None


def paint_frame(painter: QPainter, memory: MemoryBreakdown, stacks: Stacks, layout: MemoryLayout, look: Look) -> None:
    """Paint everything."""
    painter.fillRect(QRectF(0, 0, layout.width, layout.height), QColor(look.colors.panel))
    metrics = QFontMetricsF(look.small)
    palette = {component: mark(hue, look.colors.scheme) for component, hue in MEMORY_HUES.items()}
    if look.brought_out is not None:
        palette = {
            component: color if component is look.brought_out else mixed(color, look.colors.panel, FADED)
            for component, color in palette.items()
        }
    quiet = {component: mixed(color, look.colors.panel, QUIETER) for component, color in palette.items()}
    peak = memory.peak_rank
    for index, stack in enumerate(stacks):
        row = layout.row(index)
        if row.bottom() > layout.axis_height and row.top() < layout.height:
            _paint_ground(painter, memory, layout, look, index)
            for segment in stack:
                labeled = look.brought_out in (None, segment.component)
                _paint_segment(
                    painter,
                    segment,
                    layout,
                    (palette if index == peak else quiet)[segment.component],
                    look,
                    metrics,
                    labeled=labeled,
                )
            _paint_words(painter, memory, layout, look, index, peak=index == peak)
    _paint_limits(painter, memory, layout, look)
    _paint_axis(painter, memory, layout, look)
    if look.focused is not None:
        focus_ring(painter, layout.segment(look.focused).adjusted(-1, -2, 1, 2), look.colors.accent)


def _paint_ground(painter: QPainter, memory: MemoryBreakdown, layout: MemoryLayout, look: Look, index: int) -> None:
    """The device's memory, its safety margin hatched."""
    painter.fillRect(layout.bar(index, 0, memory.capacity_bytes), QColor(look.colors.raised))
    color = mixed(look.colors.warn, look.colors.panel, MARGIN_QUIETER)
    hatch(painter, layout.bar(index, memory.budget_bytes, memory.capacity_bytes), color)


def _paint_segment(
    painter: QPainter, segment: Segment, layout: MemoryLayout, color: str, look: Look, metrics: QFontMetricsF, *, labeled: bool
) -> None:
    bar = layout.segment(segment)
    gap = 1.0 if bar.width() > 3 else 0.0
    painter.fillRect(bar.adjusted(0, 0, -gap, 0), QColor(color))
    if not labeled or bar.height() < metrics.height() - 1 or bar.width() < LABEL_LEAST:
        return
    size = f"{segment.nbytes / GIB:.1f}"
    options = (f"{segment.component.label} {size}", size)
    words = next((text for text in options if metrics.horizontalAdvance(text) + SPACE <= bar.width()), None)
    if words is not None:
        painter.setFont(look.small)
        painter.setPen(QColor(ink_on(color)))
        base = bar.center().y() + (metrics.ascent() - metrics.descent()) / 2
        painter.drawText(QPointF(bar.left() + SPACE / 2, base), words)


def _paint_words(painter: QPainter, memory: MemoryBreakdown, layout: MemoryLayout, look: Look, index: int, *, peak: bool) -> None:
    """The rank's name and total; what lies over the capacity is hatched and framed."""
    colors, rank, row = look.colors, memory.ranks[index], layout.row(index)
    plain = colors.text if peak else colors.muted
    painter.setFont(look.bold if peak else look.small)
    painter.setPen(QColor(plain))
    draw_elided(painter, QRectF(SPACE / 2, row.top(), layout.left - SPACE, row.height()), f"rank {rank.rank}")
    total = colors.bad if rank.total > memory.capacity_bytes else colors.warn if rank.total > memory.budget_bytes else plain
    right = layout.left + layout.length
    painter.setPen(QColor(total))
    place = QRectF(right + SPACE / 2, row.top(), layout.width - right - SPACE, row.height())
    draw_elided(painter, place, bytes_text(rank.total), align=Qt.AlignmentFlag.AlignRight)
    if rank.total > memory.capacity_bytes:
        over = layout.bar(index, memory.capacity_bytes, rank.total)
        hatch(painter, over, colors.panel, spacing=5, width=1.6)
        painter.setPen(QPen(QColor(colors.bad), 1.5))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(over)


def _paint_limits(painter: QPainter, memory: MemoryBreakdown, layout: MemoryLayout, look: Look) -> None:
    """Capacity as a solid line through all rows, the margin's begin dashed."""
    bottom = min(layout.row(layout.rows - 1).bottom(), layout.height)
    for nbytes, color, style in (
        (memory.budget_bytes, look.colors.warn, Qt.PenStyle.DashLine),
        (memory.capacity_bytes, look.colors.bad, Qt.PenStyle.SolidLine),
    ):
        x = round(layout.x(nbytes)) + 0.5
        painter.setPen(QPen(QColor(color), 1.5, style))
        painter.drawLine(QPointF(x, layout.axis_height - 3), QPointF(x, bottom))


def _paint_axis(painter: QPainter, memory: MemoryBreakdown, layout: MemoryLayout, look: Look) -> None:
    """Ticks in GiB over the rows; the capacity's label wins over ticks that would touch it."""
    colors, metrics = look.colors, QFontMetricsF(look.small)
    painter.fillRect(QRectF(0, 0, layout.width, layout.axis_height - 4), QColor(colors.panel))
    words = f"HBM {bytes_text(memory.capacity_bytes)}"
    width = QFontMetricsF(look.bold).horizontalAdvance(words)
    left = min(layout.x(memory.capacity_bytes) - width / 2, layout.width - width - 2)
    painter.setFont(look.bold)
    painter.setPen(QColor(colors.text))
    painter.drawText(QPointF(left, metrics.ascent()), words)
    painter.setFont(look.small)
    limit = layout.limit / GIB
    for value in ticks(0, limit, round_step(limit, max(1, int(layout.length // TICK_ROOM)))):
        x = layout.x(value * GIB)
        text = f"{value:g}" if value else "0 GiB"
        half = metrics.horizontalAdvance(text) / 2
        place = x - half if value else layout.left
        painter.setPen(QColor(colors.line))
        painter.drawLine(QPointF(x, layout.axis_height - 4), QPointF(x, layout.axis_height - 1))
        if place + 2 * half + SPACE < left or place > left + width + SPACE:
            painter.setPen(QColor(colors.muted))
            painter.drawText(QPointF(place, metrics.ascent()), text)
