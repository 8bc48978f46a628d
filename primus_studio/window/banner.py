"""A message across the window that blocks nothing: what went wrong with a file, what could be restored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QSizePolicy, QToolButton, QWidget

from primus_studio.theme.icons import icon
from primus_studio.theme.tokens import SPACE

MOST_LINES = 6
"""Problems written out; the tooltip has all of them."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A button of a message."""

    title: str
    run: Callable[[], object]


class Banner(QFrame):
    """Shows one message at a time; Escape or its button closes it."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("banner")
        self.setAccessibleName("Message")
        self.setFrameShape(QFrame.Shape.StyledPanel)
        self._glyph = QLabel(self)
        self._words = QLabel(self, wordWrap=True)
        flags = Qt.TextInteractionFlag
        self._words.setTextInteractionFlags(flags.TextSelectableByMouse | flags.TextSelectableByKeyboard)
        self._words.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self._buttons = QHBoxLayout()
        self._offers: list[QPushButton] = []
        close = QToolButton(self, autoRaise=True)
        close.setIcon(icon("close"))
        close.setToolTip("Close this message")
        close.setAccessibleName("Close this message")
        close.clicked.connect(self.hide)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(2 * SPACE, SPACE, SPACE, SPACE)
        layout.setSpacing(SPACE)
        layout.addWidget(self._glyph, 0, Qt.AlignmentFlag.AlignTop)
        layout.addWidget(self._words, 1)
        layout.addLayout(self._buttons)
        layout.addWidget(close, 0, Qt.AlignmentFlag.AlignTop)
        self.hide()

    def say(self, title: str, lines: Sequence[str] = (), offers: Sequence[Offer] = (), *, symbol: str = "error") -> None:
        """Show a title, a few lines and buttons in place of the last message."""
        side = self.fontMetrics().height()
        self._glyph.setPixmap(icon(symbol).pixmap(side, side))
        shown = [*lines[:MOST_LINES], *([f"… and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else [])]
        self._words.setTextFormat(Qt.TextFormat.PlainText)
        self._words.setText("\n".join([title, *shown]))
        self._words.setToolTip("\n".join(lines))
        self.setAccessibleDescription(self._words.text())
        for old in self._offers:
            old.deleteLater()
        self._offers = [self._button(offer) for offer in offers]
        self.show()

    def _button(self, offer: Offer) -> QPushButton:
        button = QPushButton(offer.title, self)
        button.clicked.connect(self.hide)
        button.clicked.connect(lambda _checked=False: offer.run())
        self._buttons.addWidget(button, 0, Qt.AlignmentFlag.AlignTop)
        return button

    @property
    def text(self) -> str:
        """What is shown, empty when nothing is."""
        return "" if self.isHidden() else self._words.text()
