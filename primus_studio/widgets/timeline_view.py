"""The pipeline timeline: one lane per rank, moved with the keys and gestures of trace viewers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from PySide6.QtCore import QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QFontMetricsF,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QWidget

from primus_studio.theme import tokens
from primus_studio.theme.fonts import Size, sized
from primus_studio.theme.tokens import SPACE, Tokens
from primus_studio.widgets.announce import announce
from primus_studio.widgets.cards import HoverCard
from primus_studio.widgets.timeline_frame import Look, paint_frame
from primus_studio.widgets.timeline_gestures import DRAG_FROM, KEY_PAN, KEY_ZOOM, SCROLL_STEPS, WHEEL_NOTCH, WHEEL_ZOOM
from primus_studio.widgets.timeline_lanes import ColorSums, Lanes, color_sums, lanes_of
from primus_studio.widgets.timeline_layout import LANE_LEAST, TimelineLayout, layout_of
from primus_studio.widgets.timeline_paint import class_colors, palette_array
from primus_studio.widgets.timeline_window import History, TimeWindow, kept, panned, whole, zoomed
from primus_studio.widgets.timeline_words import event_card, gap_card, timeline_table
from projectors.pipeline.timeline import Timeline


class TimelineView(QAbstractScrollArea):
    """Draws a `Timeline`. `selected` carries a microbatch or None."""

    selected = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.viewport().setMouseTracking(True)
        self.setAccessibleName("Pipeline timeline")
        self._lanes: Lanes | None = None
        self._sums: tuple[Tokens, object, ColorSums] | None = None
        self._window = TimeWindow(0.0, 1.0)
        self._history = History()
        self._kind: object = None
        self._microbatch: int | None = None
        self._event: int | None = None  # has the keyboard
        self._press: tuple[QPointF, TimeWindow] | None = None
        self._dragging = False
        self._following_bar = False
        self._pointer: float | None = None
        self._card = HoverCard(self)
        self._small = sized(self.font(), Size.SMALL)
        self._metrics = QFontMetricsF(self._small)
        self.horizontalScrollBar().valueChanged.connect(self._scrolled)
        self._keys: dict[tuple[int, bool, bool], Callable[[], None]] = {  # (key, shift, alt)
            (Qt.Key.Key_W, False, False): lambda: self.zoom(KEY_ZOOM, self._at()),
            (Qt.Key.Key_S, False, False): lambda: self.zoom(1 / KEY_ZOOM, self._at()),
            (Qt.Key.Key_Plus, False, False): lambda: self.zoom(KEY_ZOOM, self._at()),
            (Qt.Key.Key_Minus, False, False): lambda: self.zoom(1 / KEY_ZOOM, self._at()),
            (Qt.Key.Key_A, False, False): lambda: self.pan(-KEY_PAN),
            (Qt.Key.Key_D, False, False): lambda: self.pan(KEY_PAN),
            (Qt.Key.Key_Left, False, False): lambda: self.pan(-KEY_PAN),
            (Qt.Key.Key_Right, False, False): lambda: self.pan(KEY_PAN),
            (Qt.Key.Key_Up, False, False): lambda: self._scroll_lanes(-1),
            (Qt.Key.Key_Down, False, False): lambda: self._scroll_lanes(1),
            (Qt.Key.Key_Left, False, True): self.back,
            (Qt.Key.Key_Right, False, True): self.forward,
            (Qt.Key.Key_F, False, False): self.fit,
            (Qt.Key.Key_F, True, False): self.frame_selection,
            (Qt.Key.Key_Home, False, False): self.fit,
            (Qt.Key.Key_Period, False, False): lambda: self._walk_lane(1),
            (Qt.Key.Key_Comma, False, False): lambda: self._walk_lane(-1),
            (Qt.Key.Key_BracketRight, False, False): lambda: self._walk_flow(1),
            (Qt.Key.Key_BracketLeft, False, False): lambda: self._walk_flow(-1),
            (Qt.Key.Key_Return, False, False): self._select_focused,
            (Qt.Key.Key_Escape, False, False): lambda: self.select(None),
        }

    # What is shown.

    def show_timeline(self, timeline: Timeline) -> None:
        """Draw another timeline. The part of the step in view stays the same share of it."""
        before = self._lanes
        share = None
        if before is not None and self._window != whole(before.makespan):
            share = self._window.begin / before.makespan, self._window.end / before.makespan
        self._lanes = lanes_of(timeline)
        self._sums = None
        self._event = None
        self._card.dismiss()
        if self._microbatch is not None and self._microbatch >= timeline.microbatches:
            self.select(None)
        span = self._lanes.makespan
        self._window = whole(span) if share is None else kept(TimeWindow(share[0] * span, share[1] * span), span)
        self._history = History()
        self.setAccessibleDescription(timeline_table(self._lanes))
        self._scrolling()
        self.viewport().update()

    def bring_out(self, kind: object) -> None:
        """Fade all passes but those of a `PassKind`; every pass for any other key; none for None."""
        self._kind = kind
        self.viewport().update()

    def select(self, microbatch: int | None) -> None:
        """Follow one microbatch through all ranks, or none."""
        if microbatch != self._microbatch:
            self._microbatch = microbatch
            self.selected.emit(microbatch)
            self.viewport().update()
        if microbatch is None:
            self._card.dismiss()

    @property
    def in_view(self) -> TimeWindow:
        """Seconds in view."""
        return self._window

    @property
    def microbatch(self) -> int | None:
        """The microbatch that is followed."""
        return self._microbatch

    # Moving.

    def zoom(self, factor: float, at: float) -> None:
        """`factor` times nearer; the time `at` stays in its place."""
        if self._lanes is not None:
            self._move(zoomed(self._window, factor, at, self._lanes.makespan))

    def pan(self, share: float) -> None:
        """Move by a share of the view, later for positive ones."""
        if self._lanes is not None:
            self._move(panned(self._window, share, self._lanes.makespan))

    def fit(self) -> None:
        """Show the whole step; a step back returns."""
        if self._lanes is not None:
            self._jump(whole(self._lanes.makespan))

    def frame_selection(self) -> None:
        """Show the followed microbatch from its first pass to its last."""
        if self._lanes is not None and self._microbatch is not None:
            passes = self._lanes.of_microbatch(self._microbatch)
            begin, end = float(self._lanes.timeline.start[passes].min()), float(self._lanes.timeline.end[passes].max())
            room = (end - begin) * 0.05
            self._jump(kept(TimeWindow(begin - room, end + room), self._lanes.makespan))

    def back(self) -> None:
        """The view before the last jump or gesture."""
        window = self._history.back(self._window)
        if window is not None:
            self._move(window)

    def forward(self) -> None:
        """Undo a step back."""
        window = self._history.forward(self._window)
        if window is not None:
            self._move(window)

    def remember(self) -> None:
        """Put the present view on the history before a gesture changes it."""
        self._history.leave(self._window)

    def _jump(self, window: TimeWindow) -> None:
        if window != self._window:
            self.remember()
            self._move(window)

    def _move(self, window: TimeWindow) -> None:
        if window != self._window:
            self._window = window
            self._card.dismiss()
            self._scrolling()
            self.viewport().update()

    def _at(self) -> float:
        """The time under the pointer, or the middle of the view."""
        return self._pointer if self._pointer is not None else (self._window.begin + self._window.end) / 2

    # Geometry, in viewport coordinates.

    @property
    def _layout(self) -> TimelineLayout:
        ranks = self._lanes.ranks if self._lanes is not None else 1
        view = self.viewport()
        size = view.width(), view.height()
        return layout_of(size, ranks, self.verticalScrollBar().value(), self._window, self._metrics, view.devicePixelRatioF())

    def event_at(self, place: QPointF) -> int | None:
        """The event under a place of the viewport."""
        layout = self._layout
        rank = layout.rank_at(place)
        return None if self._lanes is None or rank is None else self._lanes.event_at(rank, layout.seconds(place.x()))

    def sizeHint(self) -> QSize:
        ranks = self._lanes.ranks if self._lanes is not None else 4
        return QSize(640, self._layout.axis_height + 2 * LANE_LEAST * min(8, ranks))

    def minimumSizeHint(self) -> QSize:
        return QSize(240, self._layout.axis_height + 3 * LANE_LEAST)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._scrolling()

    def scrollContentsBy(self, _dx: int, _dy: int) -> None:
        self.viewport().update()

    def _scrolling(self) -> None:
        """Both scroll bars after the view, the lanes or the size changed."""
        if self._lanes is None:
            return
        layout = self._layout
        vertical, horizontal = self.verticalScrollBar(), self.horizontalScrollBar()
        vertical.setPageStep(max(1, layout.room))
        vertical.setSingleStep(layout.lane_height)
        vertical.setRange(0, max(0, layout.lane_height * layout.ranks - layout.room))
        most = whole(self._lanes.makespan)
        page = round(SCROLL_STEPS * self._window.span / most.span)
        self._following_bar = True
        horizontal.setPageStep(max(1, page))
        horizontal.setSingleStep(max(1, page // 10))
        horizontal.setRange(0, max(0, SCROLL_STEPS - page))
        horizontal.setValue(round(SCROLL_STEPS * (self._window.begin - most.begin) / most.span))
        self._following_bar = False

    def _scrolled(self, value: int) -> None:
        if not self._following_bar and self._lanes is not None:
            most = whole(self._lanes.makespan)
            begin = most.begin + value / SCROLL_STEPS * most.span
            self._window = kept(TimeWindow(begin, begin + self._window.span), self._lanes.makespan)
            self._card.dismiss()
            self.viewport().update()

    # Drawing.

    def paintEvent(self, _event: QPaintEvent) -> None:
        colors = tokens()
        with QPainter(self.viewport()) as painter:
            if self._lanes is None:
                painter.fillRect(self.viewport().rect(), QColor(colors.panel))
                return
            palette = class_colors(self._lanes.timeline.chunks, colors, self._kind)
            if self._sums is None or self._sums[:2] != (colors, self._kind):
                self._sums = colors, self._kind, color_sums(self._lanes, palette_array(palette))
            event = self._event if self.hasFocus() else None
            paint_frame(
                painter, self._lanes, self._layout, Look(colors, palette, self._sums[2], self._small, self._microbatch, event)
            )

    # Pointer.

    def wheelEvent(self, event: QWheelEvent) -> None:
        turn, keys = event.angleDelta(), event.modifiers()
        zooming = bool(keys & Qt.KeyboardModifier.ControlModifier)
        across = turn.x() or (turn.y() if keys & Qt.KeyboardModifier.ShiftModifier else 0)
        if across and not zooming:
            self.pan(-across / WHEEL_NOTCH * KEY_PAN)
        elif zooming or self.verticalScrollBar().maximum() == 0:
            self.zoom(WHEEL_ZOOM ** (turn.y() / WHEEL_NOTCH), self._layout.seconds(event.position().x()))
        else:
            super().wheelEvent(event)
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() is Qt.MouseButton.LeftButton:
            self._press = event.position(), self._window
            self._dragging = False

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        place = event.position()
        self._pointer = self._layout.seconds(place.x())
        if self._press is None:
            self._hover(place)
            return
        start, window = self._press
        if not self._dragging and abs(place.x() - start.x()) >= DRAG_FROM:
            self._dragging = True
            self.remember()
            self.viewport().setCursor(Qt.CursorShape.ClosedHandCursor)
        if self._dragging and self._lanes is not None:
            self._move(panned(window, (start.x() - place.x()) / self._layout.track.width(), self._lanes.makespan))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if self._press is not None and not self._dragging and self._lanes is not None:
            found = self.event_at(event.position())
            self._event = found
            self.select(None if found is None else int(self._lanes.timeline.microbatch[found]))
            self.viewport().update()
        self._press = None
        self._dragging = False
        self.viewport().unsetCursor()

    def mouseDoubleClickEvent(self, _event: QMouseEvent) -> None:
        self.fit()

    def leaveEvent(self, _event: object) -> None:
        self._pointer = None
        self._card.dismiss()

    def _hover(self, place: QPointF) -> None:
        layout = self._layout
        rank = layout.rank_at(place)
        if self._lanes is None or rank is None:
            self._card.dismiss()
            return
        found = self._lanes.event_at(rank, layout.seconds(place.x()))
        if found is not None:
            self._explain(found)
            return
        gap = self._lanes.gap_at(rank, layout.seconds(place.x()))
        if gap is None:
            self._card.dismiss()
        else:
            beside = QRect(self.viewport().mapToGlobal(place.toPoint()), QSize(1, SPACE))
            self._card.show_card(gap_card(self._lanes, rank, gap), beside)

    def _explain(self, event: int) -> None:
        assert self._lanes is not None
        area = self._layout.event_rect(self._lanes, event).intersected(QRectF(self.viewport().rect())).toRect()
        beside = QRect(self.viewport().mapToGlobal(area.topLeft()), area.size())
        self._card.show_card(event_card(self._lanes, event, tokens().scheme), beside)

    # Keyboard.

    def keyPressEvent(self, event: QKeyEvent) -> None:
        keys = event.modifiers()
        if keys & Qt.KeyboardModifier.ControlModifier:
            super().keyPressEvent(event)
            return
        key = Qt.Key.Key_Plus if event.key() == Qt.Key.Key_Equal else event.key()
        shift, alt = bool(keys & Qt.KeyboardModifier.ShiftModifier), bool(keys & Qt.KeyboardModifier.AltModifier)
        action = self._keys.get((key, shift and key != Qt.Key.Key_Plus, alt))
        if action is not None and self._lanes is not None:
            action()
        else:
            super().keyPressEvent(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._card.dismiss()
        self.viewport().update()

    def _scroll_lanes(self, lanes: int) -> None:
        bar = self.verticalScrollBar()
        bar.setValue(bar.value() + lanes * self._layout.lane_height)

    def _walk_lane(self, by: int) -> None:
        """Next or previous event of the lane."""
        assert self._lanes is not None
        if self._event is None:
            first = self._layout.area.first
            seen = self._lanes.visible(first, self._window.begin, self._window.end)
            self._focus(seen.start if seen.stop > seen.start else self._lanes.span(first).start)
            return
        lane = self._lanes.span(int(self._lanes.timeline.rank[self._event]))
        self._focus(max(lane.start, min(lane.stop - 1, self._event + by)))

    def _walk_flow(self, by: int) -> None:
        """Next or previous pass of the same microbatch."""
        assert self._lanes is not None
        if self._event is None:
            self._walk_lane(0)
            return
        flow = self._lanes.flow(self._event)
        at = int(np.flatnonzero(flow == self._event)[0]) + by
        self._focus(int(flow[max(0, min(len(flow) - 1, at))]))

    def _focus(self, event: int) -> None:
        """Give an event the keyboard, and bring it into view."""
        assert self._lanes is not None
        self._event = event
        timeline = self._lanes.timeline
        begin, end = float(timeline.start[event]), float(timeline.end[event])
        if begin < self._window.begin or end > self._window.end:
            middle = (begin + end - self._window.span) / 2
            self._move(kept(TimeWindow(middle, middle + self._window.span), self._lanes.makespan))
        layout, bar = self._layout, self.verticalScrollBar()
        top = layout.lane_top(int(timeline.rank[event]))
        if top < layout.axis_height:
            bar.setValue(bar.value() - (layout.axis_height - top))
        elif top + layout.lane_height > layout.height:
            bar.setValue(bar.value() + top + layout.lane_height - layout.height)
        self._explain(event)
        if self._card.card is not None:
            announce(self, self._card.card.words)
        self.viewport().update()

    def _select_focused(self) -> None:
        if self._lanes is not None and self._event is not None:
            self.select(int(self._lanes.timeline.microbatch[self._event]))
