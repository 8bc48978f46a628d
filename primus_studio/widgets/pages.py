"""Pages of a panel under one line: what the panel is about on the left, a button for each page on the right."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QButtonGroup, QHBoxLayout, QStackedWidget, QToolButton, QVBoxLayout, QWidget

from primus_studio.theme.tokens import SPACE


class Pages(QWidget):
    """Shows one of several pages; `head` stands above all of them, beside the buttons."""

    def __init__(self, head: QWidget, between: QWidget | None = None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.stack = QStackedWidget()
        self._choice = QButtonGroup(self)
        self._choice.idToggled.connect(lambda number, on: self.stack.setCurrentIndex(number) if on else None)
        self._top = QHBoxLayout()
        self._top.setSpacing(SPACE // 2)
        self._top.addWidget(head, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(SPACE, SPACE, SPACE, SPACE)
        layout.setSpacing(SPACE)
        layout.addLayout(self._top)
        if between is not None:
            layout.addWidget(between)
        layout.addWidget(self.stack, 1)

    def add_page(self, title: str, says: str, page: QWidget) -> QToolButton:
        """One more page; the first one is shown. The button is answered for tests and for counts in its text."""
        button = QToolButton(self)
        button.setText(title)
        button.setToolTip(says)
        button.setAccessibleName(title)
        button.setAccessibleDescription(says)
        button.setCheckable(True)
        button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        number = self.stack.addWidget(page)
        self._choice.addButton(button, number)
        self._top.addWidget(button)
        button.setChecked(number == 0)
        return button

    def show_page(self, number: int) -> None:
        """Bring a page to the front."""
        self._choice.button(number).setChecked(True)
