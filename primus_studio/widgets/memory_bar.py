"""Memory as one stacked bar per pipeline rank against what the device has: pointer, keyboard, scrolling."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QPointF, QRect, QSize, Qt
from PySide6.QtGui import QColor, QFocusEvent, QFontMetricsF, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QWidget

from primus_studio.theme import tokens
from primus_studio.theme.fonts import Size, sized
from primus_studio.theme.marks import MEMORY_HUES, mark
from primus_studio.theme.tokens import SPACE
from primus_studio.widgets.announce import announce
from primus_studio.widgets.cards import HoverCard
from primus_studio.widgets.memory_frame import Look, Stacks, paint_frame
from primus_studio.widgets.memory_layout import ROW_LEAST, MemoryLayout, layout_of
from primus_studio.widgets.memory_words import Segment, memory_table, segment_card, segments
from projectors.results import MemoryBreakdown, MemoryComponent

_STEPS = {
    Qt.Key.Key_Left: (-1, 0),
    Qt.Key.Key_Right: (1, 0),
    Qt.Key.Key_Up: (0, -1),
    Qt.Key.Key_Down: (0, 1),
    Qt.Key.Key_PageUp: (0, -8),
    Qt.Key.Key_PageDown: (0, 8),
}
"""Key -> segments along the bar, ranks down."""

EASY_TO_HIT = 4
"""Pixels above and below a bar that still count as it."""


class MemoryBars(QAbstractScrollArea):
    """Bars of all ranks under one axis. Segments are reached with the arrow keys."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.viewport().setMouseTracking(True)
        self.setAccessibleName("Memory per pipeline rank")
        self._memory: MemoryBreakdown | None = None
        self._stacks: Stacks = ()
        self._brought_out: MemoryComponent | None = None
        self._focused: tuple[int, MemoryComponent] | None = None
        self._card = HoverCard(self)
        self._small, self._bold = sized(self.font(), Size.SMALL), sized(self.font(), Size.SMALL, bold=True)
        self._metrics, self._bold_metrics = QFontMetricsF(self._small), QFontMetricsF(self._bold)

    def show_memory(self, memory: MemoryBreakdown) -> None:
        """Draw another breakdown; the scroll position stays unless another rank is the peak, the focus where it can."""
        before = self._memory
        moved = before is None or (before.peak_rank, len(before.ranks)) != (memory.peak_rank, len(memory.ranks))
        self._memory = memory
        self._stacks = tuple(segments(rank) for rank in memory.ranks)
        self.setAccessibleDescription(memory_table(memory))
        if self.focused_segment() is None:
            self._focused = None
        self._card.dismiss()
        self._scrolling()
        if moved:
            self._bring_into_view(memory.peak_rank)
        self.viewport().update()

    def bring_out(self, component: MemoryComponent | None) -> None:
        """Fade all but one component, or none."""
        self._brought_out = component
        self.viewport().update()

    def layout_now(self) -> MemoryLayout:
        """Where everything lies. Raises ValueError before there is anything."""
        if self._memory is None:
            raise ValueError("no memory is shown yet")
        size = self.viewport().width(), self.viewport().height()
        return layout_of(self._memory, size, self.verticalScrollBar().value(), self._metrics, self._bold_metrics)

    def segment_at(self, place: QPoint) -> Segment | None:
        """What lies under a place of the viewport."""
        if self._memory is None:
            return None
        layout = self.layout_now()
        row = layout.row_at(place.y())
        if row is None:
            return None
        hit = QPointF(place)
        return next(
            (one for one in self._stacks[row] if layout.segment(one).adjusted(0, -EASY_TO_HIT, 0, EASY_TO_HIT).contains(hit)),
            None,
        )

    def focused_segment(self) -> Segment | None:
        """The segment that has the keyboard."""
        if self._focused is None or self._focused[0] >= len(self._stacks):
            return None
        rank, component = self._focused
        return next((segment for segment in self._stacks[rank] if segment.component is component), None)

    def sizeHint(self) -> QSize:
        return QSize(360, int(self._metrics.height()) + SPACE + 24 * max(2, min(8, len(self._stacks))))

    def minimumSizeHint(self) -> QSize:
        return QSize(200, int(self._metrics.height()) + SPACE + ROW_LEAST * max(2, min(4, len(self._stacks))))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._memory is not None:
            self._scrolling()
            if self._focused is None:
                self._bring_into_view(self._memory.peak_rank)

    def scrollContentsBy(self, _dx: int, _dy: int) -> None:
        self._card.dismiss()
        self.viewport().update()

    def _scrolling(self) -> None:
        layout, bar = self.layout_now(), self.verticalScrollBar()
        bar.setPageStep(max(1, layout.room))
        bar.setSingleStep(layout.row_height)
        bar.setRange(0, max(0, layout.row_height * layout.rows - layout.room))

    def _bring_into_view(self, rank: int) -> None:
        layout, bar = self.layout_now(), self.verticalScrollBar()
        row = layout.row(rank)
        if row.top() < layout.axis_height:
            bar.setValue(bar.value() - int(layout.axis_height - row.top()))
        elif row.bottom() > layout.height:
            bar.setValue(bar.value() + int(row.bottom() - layout.height))

    def paintEvent(self, _event: QPaintEvent) -> None:
        colors = tokens()
        with QPainter(self.viewport()) as painter:
            if self._memory is None:
                painter.fillRect(self.viewport().rect(), QColor(colors.panel))
                return
            focused = self.focused_segment() if self.hasFocus() else None
            look = Look(colors, self._small, self._bold, self._brought_out, focused)
            paint_frame(painter, self._memory, self._stacks, self.layout_now(), look)

    # Pointer and keyboard.

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        segment = self.segment_at(event.position().toPoint())
        if segment is None:
            self._card.dismiss()
        else:
            self._explain(segment)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        segment = self.segment_at(event.position().toPoint())
        if segment is not None:
            self._focus(segment)

    def leaveEvent(self, _event: object) -> None:
        self._card.dismiss()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = _STEPS.get(Qt.Key(event.key()))
        if event.key() == Qt.Key.Key_Escape and self._card.isVisible():
            self._card.dismiss()
        elif step is not None and self._memory is not None:
            self._walk(self._memory, *step)
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        if self._focused is None and self._memory is not None:
            first = self._stacks[self._memory.peak_rank][0]
            self._focused = (first.rank, first.component)
        self.viewport().update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._card.dismiss()
        self.viewport().update()

    def _walk(self, memory: MemoryBreakdown, across: int, down: int) -> None:
        """Move the focus by segments along a bar or by ranks, staying on the component where the rank has it."""
        now = self.focused_segment() or self._stacks[memory.peak_rank][0]
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

    def _explain(self, segment: Segment) -> None:
        if self._memory is None:
            return
        area = self.layout_now().segment(segment).toRect()
        beside = QRect(self.viewport().mapToGlobal(area.topLeft()), area.size())
        color = mark(MEMORY_HUES[segment.component], tokens().scheme)
        self._card.show_card(segment_card(self._memory, segment, color), beside)
