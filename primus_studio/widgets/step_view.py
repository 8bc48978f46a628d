"""The step panel's content: total, stacked bar, parts by size, slowest operators."""

from __future__ import annotations

from PySide6.QtWidgets import QVBoxLayout, QWidget

from primus_studio.theme.fonts import Size
from primus_studio.theme.tokens import SPACE
from primus_studio.widgets.labels import ElidedLabel
from primus_studio.widgets.pages import Pages
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
        pages = Pages(self.total, self.bar)
        pages.add_page("Parts", "Where the step's time goes", breakdown)
        pages.add_page("Operators", "Slowest operators of one microbatch", self.operators_table)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(pages)

    def show_step(self, step: StepBreakdown, operators: tuple[OperatorTime, ...]) -> None:
        """Draw another breakdown."""
        self.total.setText(f"{seconds_text(step.seconds)} per step")
        self.bar.show_step(step)
        self.parts.show_step(step)
        self.operators.show_operators(operators)
        _, none = parts(step)
        self.none.setText(f"No time: {', '.join(none)}")
        self.none.setVisible(bool(none))
