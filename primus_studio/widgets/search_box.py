"""A combo box over many names: any part of a name finds it."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QComboBox, QCompleter, QSizePolicy


class SearchBox(QComboBox):
    """Announces a name once it is chosen or typed and entered. Names that are not listed may be typed too."""

    committed = Signal(object)

    def __init__(self, names: Sequence[str], title: str) -> None:
        super().__init__()
        self.setEditable(True)
        self.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMinimumContentsLength(8)
        self.setAccessibleName(title)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.addItems(list(names))
        completer = QCompleter(list(names), self)
        completer.setFilterMode(Qt.MatchFlag.MatchContains)
        completer.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        self.setCompleter(completer)
        self._shown = ""
        self.activated.connect(lambda _index: self._commit())
        line = self.lineEdit()
        if line is not None:
            line.editingFinished.connect(self._commit)

    def show_value(self, name: str) -> None:
        """Show a name without announcing it."""
        self._shown = name
        self.setCurrentText(name)
        line = self.lineEdit()
        if line is not None:
            line.setCursorPosition(0)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Scrolling past must not change a value."""
        event.ignore()

    def _commit(self) -> None:
        name = self.currentText().strip()
        if name and name != self._shown:
            self._shown = name
            self.committed.emit(name)
