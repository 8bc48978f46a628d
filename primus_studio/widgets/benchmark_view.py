"""The benchmark panel's content: what can be measured here, the measurements, the kept records, the log."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QItemSelection, QItemSelectionModel, Signal
from PySide6.QtGui import QFontDatabase
from PySide6.QtWidgets import (
    QComboBox,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QProgressBar,
    QPushButton,
    QSpinBox,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from primus_studio.theme.fonts import Size, sized
from primus_studio.theme.tokens import SPACE
from primus_studio.widgets.benchmark_tables import ComparisonModel, KeptRecord, MeasurementsModel, PairDelegate, RecordsModel
from primus_studio.widgets.benchmark_words import Row
from primus_studio.widgets.labels import ElidedLabel
from primus_studio.widgets.pages import Pages
from primus_studio.widgets.step_tables import RowsTable

KINDS = (("Best device here", None), ("GPU (cuda)", "cuda"), ("CPU", "cpu"))

MOST_PROCESSES = 1024

LOG_LINES = 2000

STEPS = 1000
"""Of the progress bar."""


class BenchmarkView(QWidget):
    """Says what the user asks for; is told what to show."""

    find_asked = Signal(object, object)   # kind or None, processes or None
    run_asked = Signal()
    cancel_asked = Signal()
    use_asked = Signal(object)            # KeptRecord, or None for simulation
    export_asked = Signal(object)         # KeptRecord
    profile_asked = Signal(object)        # KeptRecord

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.device = QComboBox()
        for title, kind in KINDS:
            self.device.addItem(title, kind)
        self.device.setAccessibleName("Device to measure on")
        self.processes = QSpinBox(minimum=0, maximum=MOST_PROCESSES)
        self.processes.setSpecialValueText("all devices")
        self.processes.setSuffix(" devices")
        self.processes.setAccessibleName("Devices to use")
        self.processes.setToolTip("Devices to use together; on the CPU, processes that stand for devices")
        self.find_button = self._button("Find devices", "Ask PyTorch what can be measured on here")
        self.run_button = self._button("Measure", "Measure what is planned, and keep the record")
        self.cancel_button = self._button("Cancel", "End the measuring process; what was measured is kept")
        self.words = ElidedLabel(size=Size.TITLE, bold=True, least=8)
        self.details = ElidedLabel(role="muted", size=Size.SMALL, least=8)
        self.progress = QProgressBar(maximum=STEPS)
        self.progress.setTextVisible(True)
        self.progress.setAccessibleName("Progress of the benchmark")
        self.measurements = MeasurementsModel(self)
        self.table = RowsTable(self.measurements, "Measurements")
        self.table.setItemDelegateForColumn(7, PairDelegate(self.table))
        self.restored = QLabel()
        self.restored.setFont(sized(self.restored.font(), Size.SMALL))
        self.restored.setWordWrap(True)
        self.records = RecordsModel(self)
        self.records_table = RowsTable(self.records, "Kept records, newest first")
        self.compared = ComparisonModel((), self)
        self.compared_table = RowsTable(self.compared, "Chosen records side by side")
        self.use_button = self._button("Use in this study", "Layer times of this study come from the record")
        self.simulate_button = self._button("Simulate again", "Layer times of this study are simulated")
        self.export_button = self._button("Export…", "Write the record into a file")
        self.profile_button = self._button("Save as hardware…", "A hardware profile whose efficiencies meet the record")
        self.log = QPlainTextEdit(readOnly=True, maximumBlockCount=LOG_LINES)
        self.log.setFont(sized(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont), Size.SMALL))
        self.log.setAccessibleName("What the measuring process printed")
        self.log.setTabChangesFocus(True)
        self._lay_out()
        self._connect()
        self.show_busy(busy=False, measuring=False)
        self._choose_records()

    def show_plan(self, words: str, details: str, rows: Sequence[Row], restored: Sequence[str], *, can_run: bool) -> None:
        """Say what would be measured."""
        self.words.setText(words)
        self.details.setText(details)
        self.show_rows(rows)
        self.restored.setText("Restored afterwards: " + "; ".join(restored) if restored else "")
        self.restored.setVisible(bool(restored))
        self._can_run = can_run
        self.run_button.setEnabled(can_run and not self.cancel_button.isVisible())

    def show_rows(self, rows: Sequence[Row]) -> None:
        """Replace the measurements."""
        self.measurements.show_rows(tuple(rows))

    def show_busy(self, *, busy: bool, measuring: bool) -> None:
        """What can be pressed while something runs."""
        self.find_button.setEnabled(not busy)
        self.device.setEnabled(not busy)
        self.processes.setEnabled(not busy)
        self.run_button.setEnabled(not busy and self._can_run)
        self.cancel_button.setVisible(measuring)
        self.progress.setVisible(measuring)

    def show_progress(self, share: float, words: str) -> None:
        """How far a run is."""
        self.progress.setValue(round(share * STEPS))
        self.progress.setFormat(words.replace("%", "%%"))

    def show_records(self, kept: Sequence[KeptRecord], in_use: str | None) -> None:
        """Replace the list of records; `in_use` is the one that the study takes its times from."""
        before = {each.name for each in self.chosen_records()}
        self.records.show_rows(tuple(kept))
        rows = QItemSelection()
        for row, each in enumerate(kept):
            if each.name in before:
                rows.select(self.records.index(row, 0), self.records.index(row, len(self.records.columns) - 1))
        self.records_table.selectionModel().select(rows, QItemSelectionModel.SelectionFlag.ClearAndSelect)
        self.simulate_button.setEnabled(in_use is not None)
        self._choose_records()

    def chosen_records(self) -> list[KeptRecord]:
        """Records that are selected, in the order of the list."""
        rows = sorted(index.row() for index in self.records_table.selectionModel().selectedRows())
        return [self.records.rows[row] for row in rows]

    _can_run = False

    def _button(self, words: str, says: str) -> QPushButton:
        button = QPushButton(words, self)
        button.setToolTip(says)
        button.setAccessibleDescription(says)
        button.setAutoDefault(False)
        return button

    def _lay_out(self) -> None:
        head = QWidget()
        texts = QVBoxLayout(head)
        texts.setContentsMargins(0, 0, 0, 0)
        texts.setSpacing(0)
        texts.addWidget(self.words)
        texts.addWidget(self.details)
        controls = QWidget()
        line = QHBoxLayout(controls)
        line.setContentsMargins(0, 0, 0, 0)
        line.setSpacing(SPACE // 2)
        for control in (self.device, self.processes, self.find_button, self.run_button, self.cancel_button):
            line.addWidget(control)
        line.addWidget(self.progress, 1)
        line.addStretch(0)
        plan = QWidget()
        column = QVBoxLayout(plan)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(SPACE // 2)
        column.addWidget(self.table, 1)
        column.addWidget(self.restored)
        records = QWidget()
        beside = QVBoxLayout(records)
        beside.setContentsMargins(0, 0, 0, 0)
        beside.setSpacing(SPACE // 2)
        tables = QSplitter()
        tables.addWidget(self.records_table)
        tables.addWidget(self.compared_table)
        tables.setStretchFactor(0, 3)
        tables.setStretchFactor(1, 2)
        tables.setChildrenCollapsible(False)
        beside.addWidget(tables, 1)
        buttons = QHBoxLayout()
        for button in (self.use_button, self.simulate_button, self.export_button, self.profile_button):
            buttons.addWidget(button)
        buttons.addStretch(1)
        beside.addLayout(buttons)
        self.pages = Pages(head, controls)
        self.pages.add_page("Measurements", "What is planned and what was measured", plan)
        self.pages.add_page("Records", "What was measured before", records)
        self.pages.add_page("Log", "What the measuring process printed", self.log)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.pages)

    def _connect(self) -> None:
        self.find_button.clicked.connect(lambda: self.find_asked.emit(self.device.currentData(), self.processes.value() or None))
        self.run_button.clicked.connect(self.run_asked)
        self.cancel_button.clicked.connect(self.cancel_asked)
        self.records_table.selectionModel().selectionChanged.connect(lambda *_: self._choose_records())
        self.use_button.clicked.connect(lambda: self.use_asked.emit(self.chosen_records()[0]))
        self.simulate_button.clicked.connect(lambda: self.use_asked.emit(None))
        self.export_button.clicked.connect(lambda: self.export_asked.emit(self.chosen_records()[0]))
        self.profile_button.clicked.connect(lambda: self.profile_asked.emit(self.chosen_records()[0]))

    def _choose_records(self) -> None:
        chosen = [kept for kept in self.chosen_records() if kept.record is not None]
        fits = len(chosen) == 1 and not chosen[0].misfit
        self.use_button.setEnabled(fits)
        self.profile_button.setEnabled(fits)
        self.export_button.setEnabled(len(chosen) == 1)
        self.compared_table.setVisible(len(chosen) > 1)
        self.compared.show_records([kept.record for kept in chosen if kept.record is not None] if len(chosen) > 1 else [])
