"""Tables of the benchmark panel: measurements with bars of simulated beside measured, and the kept records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem, QWidget

from primus_studio.theme import tokens
from primus_studio.theme.tokens import SPACE
from primus_studio.widgets.benchmark_words import Row, RowState, passes_of, sample_words, spread_words
from primus_studio.widgets.step_tables import Column, Index, RowsModel
from projectors.inputs.benchmark_record import BenchmarkRecord
from projectors.text import seconds_text

PAIR_ROLE = Qt.ItemDataRole.UserRole + 2
"""(simulated, measured) as parts of the longest of all rows, of a cell drawn as two bars."""

STATE_COLORS = {
    RowState.PLANNED: "muted", RowState.MEASURING: "accent", RowState.MEASURED: "ok", RowState.FAILED: "bad",
}

BAR_HEIGHT = 4
"""Of one of two bars in a cell, in device-independent pixels."""


class MeasurementsModel(RowsModel):
    """Measurements in the order in which they are made."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(
            (
                Column("Measurement", lambda row: str(row.what), "Part of the model, optimizer step or collective", right=False),
                Column("Pass", lambda row: str(row.name), "Pass of a part, or the largest size of a collective", right=False),
                Column("State", lambda row: str(row.state.value), "Where the measurement is", right=False),
                Column("Measured", lambda row: sample_words(row.sample), "Median of one microbatch"),
                Column("Spread", lambda row: spread_words(row.sample), "Half the range between the quartiles, over the median"),
                Column("Simulated", lambda row: seconds_text(row.simulated) if row.simulated else "",
                       "What the roofline says of the same pass"),
                Column("Ratio", lambda row: f"{row.ratio:.2f}" if row.ratio else "", "Measured over simulated"),
                Column("Simulated, measured", lambda _row: "", "Upper bar: simulated; lower bar: measured", right=False),
                Column("Note", lambda row: str(row.note) or _expected(row), "Fit, failure, or expected duration", right=False),
            ),
            parent,
        )

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row: Row = self.rows[index.row()]
        if role == Qt.ItemDataRole.ForegroundRole and index.column() == 2:
            return QColor(getattr(tokens(), STATE_COLORS[row.state]))
        if role == Qt.ItemDataRole.ToolTipRole:
            return row.note or None
        if role == PAIR_ROLE and index.column() == 7 and row.sample is not None and row.simulated:
            most = max(max(each.simulated, each.sample.seconds) for each in self.rows if each.simulated and each.sample)
            return row.simulated / most, row.sample.seconds / most
        return super().data(index, role)


def _expected(row: Row) -> str:
    return f"takes about {seconds_text(row.expected)}" if row.expected else ""


class PairDelegate(QStyledItemDelegate):
    """Draws two bars in cells that have them."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        super().paint(painter, option, index)
        pair = index.data(PAIR_ROLE)
        if pair is None:
            return
        colors, area = tokens(), QRectF(option.rect).adjusted(SPACE, 0, -SPACE, 0)
        top = area.center().y() - BAR_HEIGHT - 0.5
        for place, (share, color) in enumerate(zip(pair, (colors.muted, colors.accent), strict=True)):
            bar = QRectF(area.left(), top + place * (BAR_HEIGHT + 1), max(1.0, area.width() * share), BAR_HEIGHT)
            painter.fillRect(bar, QColor(color))


@dataclass(frozen=True, slots=True)
class KeptRecord:
    """A record in the user's folder. `record` is None where the file is faulty; `misfit` is why it cannot serve the study."""

    path: Path
    name: str
    record: BenchmarkRecord | None
    misfit: str


class RecordsModel(RowsModel):
    """Kept records, newest first."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(
            (
                Column("Record", lambda kept: str(kept.name), "Name of the record", right=False),
                Column("Device", _device, "What it was measured on", right=False),
                Column("Model", lambda kept: kept.record.model.name if kept.record else "", "Model whose layers were measured",
                       right=False),
                Column("Measured", lambda kept: kept.record.created[:16].replace("T", " ") if kept.record else "",
                       "When, in UTC", right=False),
                Column("Whole", _whole, "Whether everything planned was measured", right=False),
                Column("For this study", lambda kept: str(kept.misfit) or "fits",
                       "Whether the study's layers are the ones that were measured", right=False),
            ),
            parent,
        )

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        kept: KeptRecord = self.rows[index.row()]
        if role == Qt.ItemDataRole.ForegroundRole and index.column() == len(self.columns) - 1:
            return QColor(tokens().muted if kept.misfit else tokens().ok)
        if role == Qt.ItemDataRole.ToolTipRole:
            return f"{kept.path}\n{kept.misfit}".strip()
        return super().data(index, role)


def _device(kept: KeptRecord) -> str:
    device = kept.record.device if kept.record else None
    return f"{device.count} × {device.hardware or device.name}" if device else ""


def _whole(kept: KeptRecord) -> str:
    return "" if kept.record is None else "yes" if kept.record.complete else "in part"


class ComparisonModel(RowsModel):
    """The same measurements of several records side by side."""

    def show_records(self, records: Sequence[BenchmarkRecord]) -> None:
        """Compare records; the first is what the others are measured against."""
        found = [
            {(part.part, name): sample.seconds for part in record.parts for name, sample in passes_of(part)} for record in records
        ]
        names = list(dict.fromkeys(key for each in found for key in each))
        self.beginResetModel()
        self.columns = (
            Column("Measurement", lambda row: str(row[0][0]), "Part of the model", right=False),
            Column("Pass", lambda row: str(row[0][1]), "Pass of the part", right=False),
            *(
                Column(f"Record {place + 1}", partial(_compared, place), f"{record.name}: median; in brackets over record 1")
                for place, record in enumerate(records)
            ),
        )
        self.rows = tuple((key, tuple(each.get(key) for each in found)) for key in names)
        self.endResetModel()


def _compared(place: int, row: tuple[object, tuple[float | None, ...]]) -> str:
    own, first = row[1][place], row[1][0]
    if not own:
        return ""
    return seconds_text(own) + (f" ({own / first:.2f}×)" if place and first else "")
