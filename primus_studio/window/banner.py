"""A message across the window that blocks nothing: what went wrong with a file, what could be restored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication, QKeyEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QSizePolicy, QToolButton, QVBoxLayout, QWidget

from primus_studio.theme.icons import icon
from primus_studio.theme.tokens import SPACE
from primus_studio.widgets.labels import ElidedLabel, Glyph

MOST_LINES = 6
"""Lines written out; what is copied has all of them."""

ROLES = {"error": "bad", "info": "accent"}
"""Icons of messages and the tokens of their colors."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A button of a message."""

    title: str
    run: Callable[[], object]


class Banner(QFrame):
    """Shows one message at a time; Escape or its button closes it."""

    shown = Signal(bool)  # a message came or went

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("banner")
        self.setAccessibleName("Message")
        self.setProperty("card", True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._whole = ""
        self._glyph = Glyph("info", "accent", parent=self)
        self._title = ElidedLabel(bold=True, parent=self)
        self._lines = [ElidedLabel(parent=self) for _ in range(MOST_LINES + 1)]
        words = QVBoxLayout()
        words.setSpacing(SPACE // 4)
        words.addWidget(self._title)
        for line in self._lines:
            words.addWidget(line)
        self._buttons = QHBoxLayout()
        self._offers: list[QPushButton] = []
        self._copy = self._small_button("copy", "Copy this message", self._copy_whole)
        close = self._small_button("close", "Close this message", self.dismiss)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(SPACE, SPACE, SPACE, SPACE)
        layout.setSpacing(SPACE)
        layout.addWidget(self._glyph, 0, Qt.AlignmentFlag.AlignTop)
        layout.addLayout(words, 1)
        layout.addLayout(self._buttons)
        layout.addWidget(self._copy, 0, Qt.AlignmentFlag.AlignTop)
        layout.addWidget(close, 0, Qt.AlignmentFlag.AlignTop)
        self.hide()

    def say(
        self, title: str, lines: Sequence[str] = (), offers: Sequence[Offer] = (), *, symbol: str = "error", whole: str = ""
    ) -> None:
        """Show a title, a few lines and buttons in place of the last message.

        `symbol` is a key of `ROLES`; `whole` is what can be copied, where it says more than title and lines.
        """
        self._glyph.show_icon(symbol, ROLES[symbol])
        self._title.setText(title)
        more = len(lines) - MOST_LINES
        written = [*lines[:MOST_LINES], *([f"… and {more} more"] if more > 0 else [])]
        for number, label in enumerate(self._lines):
            label.setVisible(number < len(written))
            label.setText(written[number] if number < len(written) else "")
        self._whole = "\n".join([title, whole or "\n".join(lines)])
        self._copy.setVisible(bool(lines))
        self.setAccessibleDescription("\n".join([title, *written]))
        for old in self._offers:
            old.deleteLater()
        self._offers = [self._button(offer) for offer in offers]
        self.show()
        self.shown.emit(True)

    def dismiss(self) -> None:
        """Take the message away."""
        self.hide()
        self.shown.emit(False)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.dismiss()
        else:
            super().keyPressEvent(event)

    @property
    def text(self) -> str:
        """What is shown, empty when nothing is."""
        return "" if self.isHidden() else self.accessibleDescription()

    def _button(self, offer: Offer) -> QPushButton:
        button = QPushButton(offer.title, self)
        button.clicked.connect(self.dismiss)
        button.clicked.connect(lambda _checked=False: offer.run())
        self._buttons.addWidget(button, 0, Qt.AlignmentFlag.AlignTop)
        return button

    def _small_button(self, symbol: str, says: str, run: Callable[[], None]) -> QToolButton:
        button = QToolButton(self, autoRaise=True)
        button.setIcon(icon(symbol))
        button.setToolTip(says)
        button.setAccessibleName(says)
        button.clicked.connect(run)
        return button

    def _copy_whole(self) -> None:
        QGuiApplication.clipboard().setText(self._whole)
