"""The command palette: type a few letters, run an action."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, QPoint, Qt
from PySide6.QtGui import QAction, QKeyEvent
from PySide6.QtWidgets import QDialog, QLineEdit, QListWidget, QListWidgetItem, QVBoxLayout, QWidget

from primus_studio.actions.build import keys_text

WIDTH, HEIGHT = 560, 380

BELOW_TOP = 64
"""Distance from the top of the window, below menu and toolbar."""

ACTION_ROLE = Qt.ItemDataRole.UserRole


def match_score(typed: str, title: str) -> int | None:
    """How well letters match a title, lower is better; None when they do not appear in order.

    A run at the start of a word costs nothing; each skipped letter costs one.
    """
    wanted, place, score = typed.lower().replace(" ", ""), 0, 0
    text = title.lower()
    for letter in wanted:
        found = text.find(letter, place)
        if found < 0:
            return None
        starts_word = found == 0 or not text[found - 1].isalnum()
        score += 0 if found == place or starts_word else found - place
        place = found + 1
    return score


class Palette(QDialog):
    """Lists enabled actions that match what is typed; Enter runs the chosen one."""

    def __init__(self, parent: QWidget, actions: Sequence[QAction]) -> None:
        super().__init__(parent, Qt.WindowType.Dialog | Qt.WindowType.FramelessWindowHint)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setAccessibleName("Command palette")
        self.setFixedSize(WIDTH, HEIGHT)
        self._actions = [action for action in actions if action.isEnabled()]
        self._typed = QLineEdit(placeholderText="Type to find an action", clearButtonEnabled=True)
        self._typed.setAccessibleName("Find an action")
        self._list = QListWidget()
        self._list.setAccessibleName("Matching actions")
        layout = QVBoxLayout(self)
        layout.addWidget(self._typed)
        layout.addWidget(self._list)
        self._typed.textChanged.connect(self._show_matches)
        self._typed.installEventFilter(self)
        self._typed.returnPressed.connect(self._run)
        self._list.itemActivated.connect(lambda _item: self._run())
        self._list.itemClicked.connect(lambda _item: self._run())
        self._show_matches("")
        self.move(parent.mapToGlobal(QPoint((parent.width() - WIDTH) // 2, BELOW_TOP)))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Up and down move through the list while the cursor stays in the line."""
        moves = (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_PageUp, Qt.Key.Key_PageDown)
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress and event.key() in moves:
            self._list.event(event)
            return True
        return super().eventFilter(watched, event)

    def changeEvent(self, event: QEvent) -> None:
        """A click elsewhere closes the palette."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.ActivationChange and not self.isActiveWindow():
            self.close()

    def _show_matches(self, typed: str) -> None:
        scored = [(match_score(typed, plain_title(action)), plain_title(action), action) for action in self._actions]
        self._list.clear()
        for _, title, action in sorted((entry for entry in scored if entry[0] is not None), key=lambda entry: entry[:2]):
            keys = keys_text(action.shortcut())
            item = QListWidgetItem(action.icon(), f"{title}    {keys}" if keys else title)
            item.setToolTip(action.statusTip())
            item.setData(ACTION_ROLE, action)
            self._list.addItem(item)
        self._list.setCurrentRow(0)

    def _run(self) -> None:
        item = self._list.currentItem()
        self.close()
        if item is not None:
            item.data(ACTION_ROLE).trigger()


def plain_title(action: QAction) -> str:
    """A title without its mnemonic and ellipsis."""
    return action.text().replace("&", "").rstrip("…")
