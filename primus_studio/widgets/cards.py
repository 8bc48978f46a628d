"""The card that explains what lies under the pointer or has the keyboard."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFrame, QLabel, QVBoxLayout, QWidget

from primus_studio.theme import tokens
from primus_studio.theme.tokens import SPACE

CARD_WIDTH = 360
"""Width at which the text of a card wraps, in device-independent pixels."""


@dataclass(frozen=True, slots=True)
class Card:
    """What a card says. `color` is the mark it belongs to."""

    title: str
    rows: tuple[tuple[str, str], ...] = ()
    note: str = ""
    color: str | None = None

    @property
    def words(self) -> str:
        """The card in one line, for screen readers."""
        facts = ", ".join(f"{label} {value}" for label, value in self.rows)
        return ". ".join(part for part in (self.title, facts, self.note) if part)

    def html(self) -> str:
        """The card as rich text in the colors in use."""
        colors = tokens()
        swatch = f'<span style="color:{self.color}">■</span>&nbsp;' if self.color else ""
        rows = "".join(
            f'<tr><td style="color:{colors.muted};padding-right:{2 * SPACE}px">{escape(label)}</td>'
            f'<td align="right">{escape(value)}</td></tr>'
            for label, value in self.rows
        )
        note = f'<div style="color:{colors.muted};margin-top:{SPACE // 2}px">{escape(self.note)}</div>' if self.note else ""
        return f"<div>{swatch}<b>{escape(self.title)}</b></div><table cellspacing=0 cellpadding=1>{rows}</table>{note}"


class HoverCard(QFrame):
    """Shows one `Card` beside a place on the screen. Never takes the keyboard or the pointer."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.ToolTip | Qt.WindowType.FramelessWindowHint)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAttribute(Qt.WidgetAttribute.WA_ShowWithoutActivating)
        self.setObjectName("hoverCard")
        self._text = QLabel(self)
        self._text.setTextFormat(Qt.TextFormat.RichText)
        self._text.setWordWrap(True)
        self._text.setMaximumWidth(CARD_WIDTH)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(SPACE, SPACE, SPACE, SPACE)
        layout.addWidget(self._text)
        self.card: Card | None = None
        parent.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.Hide, QEvent.Type.WindowDeactivate):
            self.dismiss()
        return super().eventFilter(watched, event)

    def show_card(self, card: Card, beside: QRect) -> None:
        """Show `card` under the global rect `beside`, or over it where the screen ends."""
        if card != self.card:
            colors = tokens()
            self.setStyleSheet(f"#hoverCard {{ background: {colors.raised}; border: 1px solid {colors.edge}; }}")
            self._text.setText(card.html())
            self.card = card
            self.adjustSize()
        screen = QGuiApplication.screenAt(beside.center()) or self.screen()
        room = screen.availableGeometry()
        left = min(beside.left(), room.right() - self.width())
        below = beside.bottom() + SPACE
        top = below if below + self.height() <= room.bottom() else beside.top() - SPACE - self.height()
        self.move(QPoint(max(room.left(), left), max(room.top(), top)))
        if not self.isVisible():
            self.show()

    def dismiss(self) -> None:
        """Hide the card."""
        self.card = None
        self.hide()
