"""A panel's content with its states: empty, busy, done, illegal, failed. The last good content stays, dimmed."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, QRectF, Qt, QTimer
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QSizePolicy, QStackedWidget, QVBoxLayout, QWidget

from primus_studio.services.projection_state import ProjectionState, Status
from primus_studio.theme import tokens
from primus_studio.theme.tokens import SPACE
from primus_studio.widgets.labels import Glyph

BUSY_AFTER_MS = 150
"""An answer that comes sooner changes nothing on the way: no flicker."""

FRAME_MS = 33
"""Time between two frames of the progress line."""

SWEEP_FRAMES = 45
"""Frames in which the progress line runs once over the panel."""

DIMMED = 0.55
"""Opacity of the ground over content that is not the answer to what is set."""

LINE_HEIGHT = 2
"""Of the progress line, in device-independent pixels."""

MOST_REASONS = 4
"""Reasons written out over dimmed content; the tooltip has all."""


class Veil(QWidget):
    """Dims what lies under it; with a running line on its top edge while work goes on. Lets the pointer through."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._frame = 0
        self._timer = QTimer(self, interval=FRAME_MS)
        self._timer.timeout.connect(self._advance)
        self.hide()

    def cover(self, *, running: bool) -> None:
        """Dim, with or without the running line."""
        if running and not self._timer.isActive():
            self._frame = 0
            self._timer.start()
        elif not running:
            self._timer.stop()
        self.show()
        self.raise_()
        self.update()

    def lift(self) -> None:
        """Show the content as it is."""
        self._timer.stop()
        self.hide()

    def _advance(self) -> None:
        self._frame += 1
        self.update(0, 0, self.width(), LINE_HEIGHT)

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = tokens()
        ground = QColor(colors.panel)
        ground.setAlphaF(DIMMED)
        with QPainter(self) as painter:
            painter.fillRect(event.rect(), ground)
            if self._timer.isActive():
                share = (self._frame % SWEEP_FRAMES) / SWEEP_FRAMES
                width = self.width() / 4
                painter.fillRect(QRectF(-width + share * (self.width() + width), 0, width, LINE_HEIGHT), QColor(colors.accent))


class Notice(QFrame):
    """Icon and words: why there is nothing, or nothing new, to see."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.glyph = Glyph("info", "muted", parent=self)
        self.words = QLabel(self)
        self.words.setWordWrap(True)
        self.words.setTextFormat(Qt.TextFormat.PlainText)
        self.words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(SPACE, SPACE // 2, SPACE, SPACE // 2)
        layout.setSpacing(SPACE)
        layout.addWidget(self.glyph, 0, Qt.AlignmentFlag.AlignTop)
        layout.addWidget(self.words, 1)

    def say(self, icon: str, role: str, words: str) -> None:
        """Show an icon in a token's color and the words."""
        self.glyph.show_icon(icon, role)
        self.words.setText(words)
        self.setAccessibleName(words)


class StatePane(QWidget):
    """Holds `content` and draws a `ProjectionState` around it.

    `draw` puts a good projection into the content, `empty` says what to do when there is none yet. With `explains` the
    reasons stand over the dimmed content; otherwise one line says that it is old, and its tooltip why.
    """

    def __init__(
        self,
        content: QWidget,
        draw: Callable[[ProjectionState], None],
        empty: str,
        *,
        explains: bool = False,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._draw = draw
        self._explains = explains
        self._empty = empty
        self._drawn = False
        self._content = content
        self.notice = Notice(self)
        self.banner = Notice(self)
        self.banner.hide()
        self._stack = QStackedWidget(self)
        self._stack.addWidget(content)
        page = QWidget(self._stack)
        page_layout = QVBoxLayout(page)
        page_layout.setContentsMargins(2 * SPACE, SPACE, 2 * SPACE, SPACE)
        page_layout.addStretch(1)
        page_layout.addWidget(self.notice)
        page_layout.addStretch(1)
        self._page = page
        self._stack.addWidget(page)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        if explains:
            layout.addWidget(self.banner)
        else:
            self.banner.words.setWordWrap(False)
            self.banner.setProperty("card", True)
        layout.addWidget(self._stack, 1)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.veil = Veil(self._stack)
        self._stack.installEventFilter(self)
        self._soon = QTimer(self, singleShot=True, interval=BUSY_AFTER_MS)
        self._soon.timeout.connect(self._still_busy)
        self._say(empty, "info", "muted")

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self._stack and event.type() is QEvent.Type.Resize:
            self.veil.setGeometry(self._stack.rect())
            self._place_banner()
        return super().eventFilter(watched, event)

    def show_state(self, state: ProjectionState) -> None:
        """Draw what the engine answered."""
        if state.status is Status.BUSY:
            if not self._soon.isActive():
                self._soon.start()
            return
        self._soon.stop()
        if state.status is Status.DONE:
            self.banner.hide()
            self.veil.lift()
            self._draw(state)
            self._drawn = True
            self._stack.setCurrentWidget(self._content)
        elif state.status is Status.EMPTY:
            self._drawn = False
            self.banner.hide()
            self.veil.lift()
            self._say(self._empty, "info", "muted")
        else:
            self._trouble(state)

    def _trouble(self, state: ProjectionState) -> None:
        icon, role = ("warning", "warn") if state.status is Status.ILLEGAL else ("error", "bad")
        if not self._drawn:
            self.veil.lift()
            self._say(trouble_words(state), icon, role)
            return
        words = trouble_words(state)
        what = "The recipe is illegal" if state.status is Status.ILLEGAL else "The projection failed"
        lines = words.splitlines()
        first, more = lines[:MOST_REASONS], len(lines) - MOST_REASONS
        reasons = "\n".join(first) + (f"\nand {more} more" if more > 0 else "")
        self.banner.say(icon, role, f"{what}: {reasons}" if self._explains else f"{what}. Dimmed: the last answer.")
        self.banner.setToolTip(words)
        self.banner.show()
        self.veil.cover(running=False)
        self._place_banner()

    def _place_banner(self) -> None:
        """A banner of one line lies over the foot of the dimmed content, so that nothing moves when it comes and goes."""
        if not self._explains:
            self.banner.adjustSize()
            room = self._stack.geometry()
            left = room.left() + max(0, (room.width() - self.banner.width()) // 2)
            self.banner.move(left, room.bottom() - self.banner.height() - SPACE)
            self.banner.raise_()

    def _still_busy(self) -> None:
        if self._drawn:
            self.veil.cover(running=True)
        else:
            self._say("Projecting…", "wait", "muted")
            self.veil.cover(running=True)

    def _say(self, words: str, icon: str, role: str) -> None:
        self.notice.say(icon, role, words)
        self._stack.setCurrentWidget(self._page)


def trouble_words(state: ProjectionState) -> str:
    """Why there is no answer: the broken rules one a line, or what failed."""
    broken = state.projection.violations if state.projection is not None else ()
    return "\n".join(violation.reason for violation in broken) or state.message or "The engine gave no reason."
