"""Memory as one stacked bar per pipeline rank against what the device has."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QFontMetricsF,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QWidget

from primus_studio.theme import tokens
from primus_studio.theme.contrast import ink_on
from primus_studio.theme.fonts import Size, sized
from primus_studio.theme.marks import MEMORY_HUES, mark
from primus_studio.theme.tokens import SPACE, mixed
from primus_studio.widgets.announce import announce
from primus_studio.widgets.axis import round_step, ticks
from primus_studio.widgets.cards import HoverCard
from primus_studio.widgets.draw import draw_elided, focus_ring, hatch
from primus_studio.widgets.memory_words import Segment, memory_table, segment_card, segments
from projectors.results import MemoryBreakdown, MemoryComponent
from projectors.text import GIB, bytes_text

ROW_MOST, ROW_LEAST = 32, 15
"""Height of a rank's row in device-independent pixels; rows shrink to the least, then the view scrolls."""

BAR_SHARE = 0.72
"""Part of a row's height that its bar takes."""

TICK_ROOM = 64
"""Least distance of axis labels in device-independent pixels."""

BEYOND = 1.03
"""Length of the axis over the larger of capacity and peak."""

FADED = 0.78
"""How far bars that are not brought out go towards the ground."""

LABEL_LEAST = 26.0
"""Least width of a segment that carries its share, in device-independent pixels."""

_STEPS = {
    Qt.Key.Key_Left: (-1, 0), Qt.Key.Key_Right: (1, 0), Qt.Key.Key_Up: (0, -1), Qt.Key.Key_Down: (0, 1),
    Qt.Key.Key_PageUp: (0, -8), Qt.Key.Key_PageDown: (0, 8),
}  # fmt: skip


class MemoryBars(QAbstractScrollArea):
    """Bars of all ranks under one axis. Segments are reached with the arrow keys; `pointed` carries the segment or None."""

    pointed = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.viewport().setMouseTracking(True)
        self.setAccessibleName("Memory per pipeline rank")
        self._memory: MemoryBreakdown | None = None
        self._stacks: tuple[tuple[Segment, ...], ...] = ()
        self._brought_out: MemoryComponent | None = None
        self._focused: tuple[int, MemoryComponent] | None = None
        self._card = HoverCard(self)
        self._limit = 1.0  # bytes at the right end of the axis
        self._peak_rank = 0
        self._columns = 0.0, 0.0  # widths of the ranks' names and of their totals
        self._small = sized(self.font(), Size.SMALL)
        self._metrics = QFontMetricsF(self._small)
        self._small_bold = sized(self.font(), Size.SMALL, bold=True)

    def show_memory(self, memory: MemoryBreakdown) -> None:
        """Draw another breakdown; the scroll position and the focused component stay where they can."""
        peak_moved = self._memory is None or self._peak_rank != memory.peak_rank or len(self._memory.ranks) != len(memory.ranks)
        self._memory = memory
        self._limit = max(memory.capacity_bytes, memory.peak_bytes) * BEYOND
        self._peak_rank = memory.peak_rank
        metrics = QFontMetricsF(self._small_bold)
        self._columns = (
            metrics.horizontalAdvance(f"rank {len(memory.ranks)}") + 1.5 * SPACE,
            metrics.horizontalAdvance("8,888.8 GiB") + SPACE,
        )
        self._stacks = tuple(segments(rank) for rank in memory.ranks)
        self.setAccessibleDescription(memory_table(memory))
        if self._focused is not None and self._segment(*self._focused) is None:
            self._focused = None
        self._card.dismiss()
        self._scrolling()
        if peak_moved:
            self._bring_into_view(self._peak_rank)
        self.viewport().update()

    def bring_out(self, component: MemoryComponent | None) -> None:
        """Fade all but one component, or none."""
        self._brought_out = component
        self.viewport().update()

    # Geometry, in viewport coordinates.

    @property
    def _row_height(self) -> int:
        rows = max(1, len(self._stacks))
        return max(ROW_LEAST, min(ROW_MOST, (self.viewport().height() - self._axis_height) // rows))

    @property
    def _axis_height(self) -> int:
        return int(self._metrics.height()) + SPACE

    @property
    def _bars(self) -> QRectF:
        """Area of the bars of all rows: between the rank's name and its total."""
        name, total = self._columns
        width = max(20.0, self.viewport().width() - name - total)
        return QRectF(name, self._axis_height, width, self._row_height * len(self._stacks))

    def _x(self, nbytes: float) -> float:
        bars = self._bars
        return bars.left() + bars.width() * nbytes / self._limit

    def _row(self, index: int) -> QRectF:
        height = self._row_height
        top = self._axis_height + index * height - self.verticalScrollBar().value()
        return QRectF(0, top, self.viewport().width(), height)

    def _bar(self, segment: Segment) -> QRectF:
        row = self._row(segment.rank)
        height = max(6.0, row.height() * BAR_SHARE)
        left = self._x(segment.start)
        return QRectF(left, row.center().y() - height / 2, max(1.0, self._x(segment.end) - left), height)

    def _segment(self, rank: int, component: MemoryComponent) -> Segment | None:
        if rank >= len(self._stacks):
            return None
        return next((segment for segment in self._stacks[rank] if segment.component is component), None)

    def segment_at(self, place: QPoint) -> Segment | None:
        """What lies under a place of the viewport."""
        if self._memory is None or place.y() < self._axis_height:
            return None
        row = (place.y() - self._axis_height + self.verticalScrollBar().value()) // self._row_height
        if not 0 <= row < len(self._stacks):
            return None
        return next(
            (segment for segment in self._stacks[row] if self._bar(segment).adjusted(0, -4, 0, 4).contains(QPointF(place))), None
        )

    def sizeHint(self) -> QSize:
        return QSize(360, self._axis_height + 24 * max(2, min(8, len(self._stacks))))

    def minimumSizeHint(self) -> QSize:
        return QSize(200, self._axis_height + ROW_LEAST * max(2, min(4, len(self._stacks))))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._scrolling()
        if self._memory is not None and self._focused is None:
            self._bring_into_view(self._peak_rank)

    def scrollContentsBy(self, _dx: int, _dy: int) -> None:
        self.viewport().update()

    def _scrolling(self) -> None:
        room = self.viewport().height() - self._axis_height
        bar = self.verticalScrollBar()
        bar.setPageStep(max(1, room))
        bar.setSingleStep(self._row_height)
        bar.setRange(0, max(0, self._row_height * len(self._stacks) - room))

    # Drawing.

    def paintEvent(self, _event: QPaintEvent) -> None:
        colors = tokens()
        with QPainter(self.viewport()) as painter:
            painter.fillRect(self.viewport().rect(), QColor(colors.panel))
            if self._memory is None:
                return
            height = self.viewport().height()
            for index in range(len(self._stacks)):
                row = self._row(index)
                if row.bottom() > self._axis_height and row.top() < height:
                    self._draw_row(painter, index)
            self._draw_limits(painter)
            self._draw_axis(painter)
            if self.hasFocus() and self._focused is not None:
                segment = self._segment(*self._focused)
                if segment is not None:
                    focus_ring(painter, self._bar(segment).adjusted(-1, -2, 1, 2), colors.accent)

    def _draw_row(self, painter: QPainter, index: int) -> None:
        assert self._memory is not None
        colors, memory = tokens(), self._memory
        rank, row, bars = memory.ranks[index], self._row(index), self._bars
        peak = rank.rank == self._peak_rank
        height = max(6.0, row.height() * BAR_SHARE)
        track = QRectF(bars.left(), row.center().y() - height / 2, self._x(memory.capacity_bytes) - bars.left(), height)
        painter.fillRect(track, QColor(colors.raised))
        hatch(
            painter,
            QRectF(self._x(memory.budget_bytes), track.top(), track.right() - self._x(memory.budget_bytes), height),
            mixed(colors.warn, colors.panel, 0.45),
        )
        painter.setFont(self._small_bold if peak else self._small)
        painter.setPen(QColor(colors.text if peak else colors.muted))
        draw_elided(painter, QRectF(SPACE / 2, row.top(), bars.left() - SPACE, row.height()), f"rank {rank.rank}")
        for segment in self._stacks[index]:
            self._draw_segment(painter, segment, peak=peak)
        over = rank.total > memory.capacity_bytes
        if over:
            past = QRectF(
                self._x(memory.capacity_bytes), track.top(), self._x(rank.total) - self._x(memory.capacity_bytes), height
            )
            hatch(painter, past, colors.panel, spacing=5, width=1.6)
            painter.setPen(QPen(QColor(colors.bad), 1.5))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(past)
        painter.setFont(self._small_bold if peak else self._small)
        painter.setPen(QColor(colors.bad if over else colors.text if peak else colors.muted))
        right = QRectF(bars.right() + SPACE / 2, row.top(), self.viewport().width() - bars.right() - SPACE, row.height())
        draw_elided(painter, right, bytes_text(rank.total), align=Qt.AlignmentFlag.AlignRight)

    def _draw_segment(self, painter: QPainter, segment: Segment, *, peak: bool) -> None:
        colors = tokens()
        color = mark(MEMORY_HUES[segment.component], colors.scheme)
        faded = self._brought_out is not None and segment.component is not self._brought_out
        if faded:
            color = mixed(color, colors.panel, FADED)
        elif not peak:
            color = mixed(color, colors.panel, 0.15)
        bar = self._bar(segment)
        gap = 1.0 if bar.width() > 3 else 0.0
        painter.fillRect(bar.adjusted(0, 0, -gap, 0), QColor(color))
        metrics = self._metrics
        if faded or bar.height() < metrics.height() - 1 or bar.width() < LABEL_LEAST:
            return
        label, value = segment.component.label, f"{segment.nbytes / GIB:.1f}"
        words = next(
            (text for text in (f"{label} {value}", value) if metrics.horizontalAdvance(text) + SPACE <= bar.width()), None
        )
        if words is not None:
            painter.setFont(self._small)
            painter.setPen(QColor(ink_on(color)))
            painter.drawText(
                QPointF(bar.left() + SPACE / 2, bar.center().y() + (metrics.ascent() - metrics.descent()) / 2), words
            )

    def _draw_limits(self, painter: QPainter) -> None:
        """Capacity as a solid line through all rows, the margin's begin dashed."""
        assert self._memory is not None
        colors, memory = tokens(), self._memory
        bottom = min(self._row(len(self._stacks) - 1).bottom(), self.viewport().height())
        for nbytes, color, style in (
            (memory.budget_bytes, colors.warn, Qt.PenStyle.DashLine),
            (memory.capacity_bytes, colors.bad, Qt.PenStyle.SolidLine),
        ):
            x = round(self._x(nbytes)) + 0.5
            painter.setPen(QPen(QColor(color), 1.5, style))
            painter.drawLine(QPointF(x, self._axis_height - 3), QPointF(x, bottom))

    def _draw_axis(self, painter: QPainter) -> None:
        """Ticks in GiB over the rows; the capacity's label wins over ticks that would touch it."""
        assert self._memory is not None
        colors, bars = tokens(), self._bars
        metrics = self._metrics
        painter.fillRect(QRectF(0, 0, self.viewport().width(), self._axis_height - 4), QColor(colors.panel))
        base = metrics.ascent()
        words = f"HBM {bytes_text(self._memory.capacity_bytes)}"
        width = metrics.horizontalAdvance(words)
        left = min(self._x(self._memory.capacity_bytes) - width / 2, self.viewport().width() - width - 2)
        painter.setFont(self._small_bold)
        painter.setPen(QColor(colors.text))
        painter.drawText(QPointF(left, base), words)
        painter.setFont(self._small)
        limit = self._limit / GIB
        step = round_step(limit, max(1, int(bars.width() // TICK_ROOM)))
        for value in ticks(0, limit, step):
            x = self._x(value * GIB)
            text = f"{value:g}" if value else "0 GiB"
            half = metrics.horizontalAdvance(text) / 2
            place = max(x - half, bars.left()) if not value else x - half
            painter.setPen(QColor(colors.line))
            painter.drawLine(QPointF(x, self._axis_height - 4), QPointF(x, self._axis_height - 1))
            if place + 2 * half + SPACE < left or place > left + width + SPACE:
                painter.setPen(QColor(colors.muted))
                painter.drawText(QPointF(place, base), text)

    # Pointer and keyboard.

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        segment = self.segment_at(event.position().toPoint())
        if segment is None:
            self._card.dismiss()
        else:
            self._explain(segment)
        self.pointed.emit(segment)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        segment = self.segment_at(event.position().toPoint())
        if segment is not None:
            self._focus(segment)

    def leaveEvent(self, _event: object) -> None:
        self._card.dismiss()
        self.pointed.emit(None)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = _STEPS.get(Qt.Key(event.key()))
        if event.key() == Qt.Key.Key_Escape and self._card.isVisible():
            self._card.dismiss()
        elif step is not None and self._memory is not None:
            self._walk(*step)
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        if self._focused is None and self._memory is not None and self._stacks[self._peak_rank]:
            first = self._stacks[self._peak_rank][0]
            self._focused = (first.rank, first.component)
        self.viewport().update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._card.dismiss()
        self.viewport().update()

    def focused_segment(self) -> Segment | None:
        """The segment that has the keyboard."""
        return self._segment(*self._focused) if self._focused is not None else None

    def _walk(self, across: int, down: int) -> None:
        """Move the focus by segments along a bar or by ranks, staying on the component where the rank has it."""
        assert self._memory is not None
        now = self.focused_segment() or self._stacks[self._peak_rank][0]
        stack = self._stacks[max(0, min(len(self._stacks) - 1, now.rank + down))]
        order = [segment.component for segment in stack]
        same = order.index(now.component) if now.component in order else min(len(order) - 1, self._stacks[now.rank].index(now))
        self._focus(stack[max(0, min(len(stack) - 1, same + across))])

    def _focus(self, segment: Segment) -> None:
        self._focused = (segment.rank, segment.component)
        self._bring_into_view(segment.rank)
        self._explain(segment)
        if self._card.card is not None:
            announce(self, self._card.card.words)
        self.viewport().update()

    def _bring_into_view(self, rank: int) -> None:
        row, bar = self._row(rank), self.verticalScrollBar()
        if row.top() < self._axis_height:
            bar.setValue(bar.value() - int(self._axis_height - row.top()))
        elif row.bottom() > self.viewport().height():
            bar.setValue(bar.value() + int(row.bottom() - self.viewport().height()))

    def _explain(self, segment: Segment) -> None:
        assert self._memory is not None
        area = self._bar(segment).toRect()
        beside = QRect(self.viewport().mapToGlobal(area.topLeft()), area.size())
        self._card.show_card(segment_card(self._memory, segment, mark(MEMORY_HUES[segment.component], tokens().scheme)), beside)
