"""A layout that wraps its items like words, so that narrow windows lose nothing."""

from __future__ import annotations

from PySide6.QtCore import QMargins, QRect, QSize, Qt
from PySide6.QtWidgets import QLayout, QLayoutItem, QWidget


class FlowLayout(QLayout):
    """Items in reading order, in columns of equal width, as few lines as they need, filled evenly.

    With `fill` the columns share the whole line; otherwise they are as wide as the widest item.
    """

    def __init__(self, parent: QWidget | None = None, *, gap: int, fill: bool = True) -> None:
        super().__init__(parent)
        self._items: list[QLayoutItem] = []
        self._gap = gap
        self._fill = fill
        self.setContentsMargins(QMargins())

    def addItem(self, item: QLayoutItem) -> None:
        self._items.append(item)
        self.invalidate()

    def count(self) -> int:
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def expandingDirections(self) -> Qt.Orientation:
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return self._arrange(QRect(0, 0, width, 0), move=False)

    def setGeometry(self, rect: QRect) -> None:
        super().setGeometry(rect)
        self._arrange(rect, move=True)

    def sizeHint(self) -> QSize:
        return self.minimumSize()

    def minimumSize(self) -> QSize:
        shown = [item.minimumSize() for item in self._items if not item.isEmpty()]
        size = QSize(max((one.width() for one in shown), default=0), max((one.height() for one in shown), default=0))
        margins = self.contentsMargins()
        return size + QSize(margins.left() + margins.right(), margins.top() + margins.bottom())

    def _columns(self, width: int, items: list[QLayoutItem]) -> int:
        """Columns in which the items take the fewest lines, and no more columns than those lines need."""
        widest = _widest(items)
        fit = max(1, min(len(items), (width + self._gap) // (widest + self._gap)))
        lines = -(-len(items) // fit)
        return -(-len(items) // lines)

    def _arrange(self, rect: QRect, *, move: bool) -> int:
        """Place the items in `rect` when `move`; the height they take."""
        margins = self.contentsMargins()
        inner = rect.marginsRemoved(margins)
        items = [item for item in self._items if not item.isEmpty()]
        if not items:
            return margins.top() + margins.bottom()
        columns = self._columns(inner.width(), items)
        width = (inner.width() - self._gap * (columns - 1)) // columns
        if not self._fill:
            width = min(width, _widest(items))
        height = max(item.sizeHint().height() for item in items)
        if move:
            for number, item in enumerate(items):
                line, column = divmod(number, columns)
                item.setGeometry(
                    QRect(inner.left() + column * (width + self._gap), inner.top() + line * (height + self._gap), width, height)
                )
        lines = -(-len(items) // columns)
        return lines * (height + self._gap) - self._gap + margins.top() + margins.bottom()


def _widest(items: list[QLayoutItem]) -> int:
    return max(item.sizeHint().width() for item in items)
