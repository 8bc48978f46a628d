"""The step's parts and its operators as tables: sorted, read by screen readers like any table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QStyledItemDelegate, QStyleOptionViewItem, QTableView, QWidget

from primus_studio.theme import tokens
from primus_studio.theme.fonts import Size, sized
from primus_studio.theme.tokens import SPACE
from primus_studio.widgets.step_words import Part, operator_seconds, part_color, parts, slowest_first
from projectors.results import OperatorTime, StepBreakdown
from projectors.text import percent_text, seconds_text, tflops_text

Index = QModelIndex | QPersistentModelIndex

SHARE_ROLE = Qt.ItemDataRole.UserRole
"""(share 0 to 1, color) of a cell drawn as a bar."""

SWATCH_ROLE = Qt.ItemDataRole.UserRole + 1
"""Color of the sample before a cell's text."""

ROW_PADDING = 6
"""Height of a row over that of its text, in device-independent pixels."""


@dataclass(frozen=True, slots=True)
class Column:
    """How one column shows a row."""

    title: str
    text: Callable[[Any], str]
    says: str
    right: bool = True


class RowsModel(QAbstractTableModel):
    """Rows of values through columns. Subclasses add what a role needs besides text."""

    def __init__(self, columns: tuple[Column, ...], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.columns = columns
        self.rows: tuple[Any, ...] = ()

    def show_rows(self, rows: tuple[Any, ...]) -> None:
        """Replace all rows."""
        self.beginResetModel()
        self.rows = rows
        self.endResetModel()

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008  # Qt's own default
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self.columns)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if orientation is not Qt.Orientation.Horizontal:
            return None
        column = self.columns[section]
        if role == Qt.ItemDataRole.DisplayRole:
            return column.title
        if role == Qt.ItemDataRole.ToolTipRole:
            return column.says
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(column)
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row, column = self.rows[index.row()], self.columns[index.column()]
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return column.text(row)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(column)
        return None


class PartsModel(RowsModel):
    """Parts of the step, longest first."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(
            (
                Column("Part", lambda part: str(part.label), "Part of the step", right=False),
                Column("Time", lambda part: seconds_text(part.seconds), "Seconds per step"),
                Column("Share", lambda part: percent_text(part.share), "Part of the step's time"),
                Column("", lambda _part: "", "Part of the step's time as a bar", right=False),
            ),
            parent,
        )
        self._drawn: tuple[Part, ...] = ()

    def show_step(self, step: StepBreakdown) -> None:
        """Replace the breakdown."""
        self._drawn, _ = parts(step)
        self.show_rows(tuple(sorted(self._drawn, key=lambda part: -part.seconds)))

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        part: Part = self.rows[index.row()]
        if role == Qt.ItemDataRole.ToolTipRole:
            return part.card.words
        if role == SWATCH_ROLE and index.column() == 0:
            return part_color(part, self._drawn, tokens().scheme)
        if role == SHARE_ROLE and index.column() == len(self.columns) - 1:
            return part.share, part_color(part, self._drawn, tokens().scheme)
        return super().data(index, role)


class OperatorsModel(RowsModel):
    """Operators of one microbatch, slowest first."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(
            (
                Column("Operator", lambda one: str(one.operator), "Step of a layer", right=False),
                Column("Layer", lambda one: str(one.layer), "Kind of layer", right=False),
                Column(
                    "Total",
                    lambda one: seconds_text(operator_seconds(one)),
                    "Forward, backward, recompute and exposed communication of one microbatch",
                ),
                Column("Forward", lambda one: seconds_text(one.forward), "Seconds of one microbatch"),
                Column("Backward", lambda one: seconds_text(one.backward), "Seconds of one microbatch"),
                Column(
                    "Exposed", lambda one: seconds_text(one.exposed), "Communication that nothing hides, forward and backward"
                ),
                Column("Rate", _rate, "FLOPs of the forward pass over its time"),
                Column("Bound by", lambda one: str(one.bound), "What limits it", right=False),
                Column("Origin", lambda one: str(one.origin.value), "Where its time comes from", right=False),
            ),
            parent,
        )

    def show_operators(self, operators: tuple[OperatorTime, ...]) -> None:
        """Replace the operators."""
        self.show_rows(slowest_first(operators))


TERA = 1e12


def _rate(one: OperatorTime) -> str:
    return tflops_text(one.flops_forward / one.forward / TERA) if one.forward and one.flops_forward else ""


def _alignment(column: Column) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignRight if column.right else Qt.AlignmentFlag.AlignLeft
    return side | Qt.AlignmentFlag.AlignVCenter


class _MarkDelegate(QStyledItemDelegate):
    """Adds color samples and share bars to cells that have them."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        swatch, share = index.data(SWATCH_ROLE), index.data(SHARE_ROLE)
        shown = QStyleOptionViewItem(option)
        area = QRectF(option.rect)
        if swatch is not None:
            shown.rect = option.rect.adjusted(SPACE + 6, 0, 0, 0)
        super().paint(painter, shown, index)
        if swatch is not None:
            painter.fillRect(QRectF(area.left() + SPACE / 2, area.center().y() - 5, 10, 10), QColor(swatch))
        if share is not None:
            track = area.adjusted(SPACE, area.height() / 2 - 3, -SPACE, 3 - area.height() / 2)
            painter.fillRect(track, QColor(tokens().hover))
            painter.fillRect(
                QRectF(track.left(), track.top(), max(1.0, track.width() * share[0]), track.height()), QColor(share[1])
            )

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        hint = super().sizeHint(option, index)
        return hint + QSize(SPACE + 6, 0) if index.data(SWATCH_ROLE) is not None else hint


class RowsTable(QTableView):
    """A quiet table: no grid, whole rows, the keyboard walks them."""

    def __init__(self, model: RowsModel, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setModel(model)
        self.setFont(sized(self.font(), Size.SMALL))
        self.setAccessibleName(name)
        self.setItemDelegate(_MarkDelegate(self))
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        height = self.fontMetrics().height() + ROW_PADDING
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(height)
        header = self.horizontalHeader()
        header.setFont(self.font())
        header.setHighlightSections(False)
        header.setFixedHeight(height + 2)
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setResizeContentsPrecision(50)
        header.setStretchLastSection(True)

    def minimumSizeHint(self) -> QSize:
        return QSize(160, 3 * self.verticalHeader().defaultSectionSize())
