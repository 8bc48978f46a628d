"""One frame of the timeline: axis, names, idle grounds, bubble shares, passes. Paints on any device."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPen

from primus_studio.theme.marks import idle_color
from primus_studio.theme.tokens import SPACE, Tokens
from primus_studio.widgets.axis import round_step, ticks, time_labels
from primus_studio.widgets.draw import draw_elided, focus_ring
from primus_studio.widgets.timeline_lanes import ColorSums, Lanes
from primus_studio.widgets.timeline_layout import TimelineLayout
from primus_studio.widgets.timeline_paint import paint_events, paint_lanes
from projectors.text import percent_text

TICK_ROOM = 92
"""Least distance of axis labels in device-independent pixels."""

SAME_IDLE = 5e-4
"""Idle shares this near are shown alike, and count as equally bad."""

UNSELECTED = 0.72
"""Opacity of the ground over passes of other microbatches while one is followed."""


@dataclass(frozen=True, slots=True)
class Look:
    """How a frame looks: colors, palette of the classes with its sums, font, and what is brought out."""

    colors: Tokens
    palette: tuple[str, ...]
    sums: ColorSums
    font: QFont
    microbatch: int | None = None  # followed
    event: int | None = None  # has the keyboard


def paint_frame(painter: QPainter, lanes: Lanes, layout: TimelineLayout, look: Look) -> None:
    """Paint everything."""
    track, area = layout.track, layout.area
    painter.fillRect(QRectF(0, 0, layout.width, layout.height), QColor(look.colors.panel))
    painter.setFont(look.font)
    _paint_axis(painter, layout, look)
    painter.setClipRect(QRectF(0, layout.axis_height, layout.width, layout.room))
    _paint_grounds(painter, lanes, layout, look)
    painter.setClipRect(QRectF(track.left(), layout.axis_height, track.width(), layout.room))
    paint_lanes(painter, lanes, look.sums, look.palette, area, layout.window, idle_color(look.colors.scheme), look.font)
    if look.microbatch is not None:
        veil = QColor(look.colors.panel)
        veil.setAlphaF(UNSELECTED)
        painter.fillRect(QRectF(track.left(), layout.axis_height, track.width(), layout.bottom - layout.axis_height), veil)
        passes = lanes.of_microbatch(look.microbatch)
        paint_events(painter, lanes, passes, look.palette, area, layout.window, look.colors.text, look.font)
    if look.event is not None:
        focus_ring(painter, layout.event_rect(lanes, look.event).adjusted(-1, -1, 1, 1), look.colors.accent)


def _paint_axis(painter: QPainter, layout: TimelineLayout, look: Look) -> None:
    metrics, window, track = QFontMetricsF(look.font), layout.window, layout.track
    step = round_step(window.span, max(1, int(track.width() // TICK_ROOM)))
    values = ticks(window.begin, window.end, step)
    for value, words in zip(values, time_labels(values, step), strict=True):
        x = layout.x(value)
        painter.setPen(QPen(QColor(look.colors.line), 1))
        painter.drawLine(QPointF(x, layout.axis_height - 4), QPointF(x, layout.bottom))
        width = metrics.horizontalAdvance(words)
        if x + width / 2 <= track.right():
            painter.setPen(QColor(look.colors.muted))
            painter.drawText(QPointF(max(track.left(), x - width / 2), metrics.ascent() + 1), words)
    painter.setPen(QColor(look.colors.muted))
    draw_elided(painter, _bubble_column(layout, 0, metrics.height()), "bubble", align=Qt.AlignmentFlag.AlignRight)


def _bubble_column(layout: TimelineLayout, top: float, height: float) -> QRectF:
    right = layout.track.right()
    return QRectF(right + SPACE / 2, top, layout.width - right - 1.5 * SPACE, height)


def _paint_grounds(painter: QPainter, lanes: Lanes, layout: TimelineLayout, look: Look) -> None:
    """Each lane's name, idle ground from the step's begin to its end, and bubble share; the worst share stands out."""
    area, track, colors = layout.area, layout.track, look.colors
    begin, end = (min(max(layout.x(edge), track.left()), track.right()) for edge in (0.0, lanes.makespan))
    ground, worst = QColor(idle_color(colors.scheme)), float(lanes.idle.max()) - SAME_IDLE
    for rank, top in enumerate(area.tops, start=area.first):
        painter.fillRect(QRectF(begin, top, end - begin, area.height), ground)
        painter.setPen(QColor(colors.muted))
        draw_elided(painter, QRectF(SPACE / 2, top, track.left() - SPACE, area.height), f"rank {rank}")
        painter.setPen(QColor(colors.text if lanes.idle[rank] >= worst else colors.muted))
        share = percent_text(float(lanes.idle[rank]))
        draw_elided(painter, _bubble_column(layout, top, area.height), share, align=Qt.AlignmentFlag.AlignRight)
