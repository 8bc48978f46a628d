"""The step panel's content: total, stacked bar, parts by size, slowest operators."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QButtonGroup, QHBoxLayout, QStackedWidget, QToolButton, QVBoxLayout, QWidget

from primus_studio.theme.fonts import Size
from primus_studio.theme.tokens import SPACE
from primus_studio.widgets.labels import ElidedLabel
from primus_studio.widgets.step_bar import StepBar
from primus_studio.widgets.step_tables import OperatorsModel, PartsModel, RowsTable
from primus_studio.widgets.step_words import parts
from projectors.results import OperatorTime, StepBreakdown
from projectors.text import seconds_text


class StepView(QWidget):
    """Draws a `StepBreakdown` and the operators behind it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.total = ElidedLabel(size=Size.TITLE, bold=True, least=8)
        self.bar = StepBar()
        self.parts, self.operators = PartsModel(self), OperatorsModel(self)
        self.parts_table = RowsTable(self.parts, "Parts of the step, longest first")
        self.operators_table = RowsTable(self.operators, "Operators of one microbatch, slowest first")
        self.none = ElidedLabel(size=Size.SMALL, role="muted", least=12)
        breakdown = QWidget()
        inside = QVBoxLayout(breakdown)
        inside.setContentsMargins(0, 0, 0, 0)
        inside.setSpacing(SPACE // 2)
        inside.addWidget(self.parts_table, 1)
        inside.addWidget(self.none)
        self._pages = QStackedWidget()
        self._pages.addWidget(breakdown)
        self._pages.addWidget(self.operators_table)
        top = QHBoxLayout()
        top.setSpacing(SPACE // 2)
        top.addWidget(self.total, 1)
        self._choice = QButtonGroup(self)
        for number, (words, says) in enumerate(
            (("Parts", "Where the step's time goes"), ("Operators", "Slowest operators of one microbatch"))
        ):
            button = QToolButton(self)
            button.setText(words)
            button.setToolTip(says)
            button.setAccessibleName(words)
            button.setAccessibleDescription(says)
            button.setCheckable(True)
            button.setChecked(number == 0)
            button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
            self._choice.addButton(button, number)
            top.addWidget(button)
        self._choice.idToggled.connect(self._choose)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(SPACE, SPACE, SPACE, SPACE)
        layout.setSpacing(SPACE)
        layout.addLayout(top)
        layout.addWidget(self.bar)
        layout.addWidget(self._pages, 1)

    def show_step(self, step: StepBreakdown, operators: tuple[OperatorTime, ...]) -> None:
        """Draw another breakdown."""
        self.total.setText(f"{seconds_text(step.seconds)} per step")
        self.bar.show_step(step)
        self.parts.show_step(step)
        self.operators.show_operators(operators)
        _, none = parts(step)
        self.none.setText(f"No time: {', '.join(none)}")
        self.none.setVisible(bool(none))

    def _choose(self, number: int, on: bool) -> None:
        if on:
            self._pages.setCurrentIndex(number)
