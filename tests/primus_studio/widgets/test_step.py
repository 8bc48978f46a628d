"""The step breakdown shows every part of the step, longest first, and folds what takes no time."""

from __future__ import annotations

from itertools import pairwise

import pytest
from PySide6.QtCore import QPoint, Qt
from pytestqt.qtbot import QtBot

from primus_studio.widgets.step_tables import OperatorsModel, PartsModel
from primus_studio.widgets.step_view import StepView
from primus_studio.widgets.step_words import EXPLAINED, operator_seconds, parts, slowest_first
from projectors.results import ExposedCommunication, Projection, StepBreakdown
from projectors.text import seconds_text

STEP = StepBreakdown(
    compute=0.6, recompute=0.0, bubble=0.2, optimizer=0.05, other=0.0, exposed=ExposedCommunication(dp=0.05, ep=0.1)
)


def test_parts_cover_the_step_without_gaps_and_none_is_empty() -> None:
    taking, none = parts(STEP)
    assert [part.key for part in taking] == ["compute", "exposed.ep", "exposed.dp", "bubble", "optimizer"]
    assert sum(part.share for part in taking) == pytest.approx(1)
    for before, after in pairwise(taking):
        assert after.begin == pytest.approx(before.begin + before.seconds)
    assert none == ("Recompute", "Exposed TP", "Exposed CP", "Exposed PP", "Exposed FSDP", "Other")


def test_every_part_that_the_engine_reports_is_explained() -> None:
    assert {key for key, _, _ in STEP.parts()} == set(EXPLAINED)


def test_rows_come_longest_first_with_time_and_share(qtbot: QtBot) -> None:
    model = PartsModel()
    model.show_step(STEP)
    rows = [tuple(model.index(row, column).data() for column in range(3)) for row in range(model.rowCount())]
    assert rows[0] == ("Compute", seconds_text(0.6), "60.0%")
    assert rows[1] == ("Pipeline bubble", seconds_text(0.2), "20.0%")
    assert [part.seconds for part in model.rows] == sorted((part.seconds for part in model.rows), reverse=True)


def test_operators_come_slowest_first(projection: Projection) -> None:
    model = OperatorsModel()
    model.show_operators(projection.operators)
    assert model.rowCount() == len(projection.operators) > 5
    times = [operator_seconds(one) for one in model.rows]
    assert times == sorted(times, reverse=True)
    assert slowest_first(projection.operators)[0] == model.rows[0]
    assert model.index(0, 2).data() == seconds_text(times[0])


def test_the_bar_answers_pointer_and_keyboard_with_the_same_card(qtbot: QtBot) -> None:
    view = StepView()
    qtbot.addWidget(view)
    view.resize(600, 300)
    view.show_step(STEP, ())
    view.show()
    bar = view.bar
    at_bubble = QPoint(round(0.85 * bar.width()), 10)
    found = bar.part_at(at_bubble)
    assert found is not None
    assert found.key == "bubble"
    qtbot.mouseMove(bar, at_bubble)
    bar.setFocus()
    qtbot.waitUntil(bar.hasFocus)
    for _ in range(3):
        qtbot.keyClick(bar, Qt.Key.Key_Right)
    assert bar._card.card == found.card
    assert EXPLAINED["bubble"] in found.card.words


def test_the_view_says_the_total_the_folded_parts_and_names_all_controls(qtbot: QtBot, projection: Projection) -> None:
    view = StepView()
    qtbot.addWidget(view)
    view.show_step(STEP, projection.operators)
    assert view.total.text() == "1 s per step"
    assert view.none.text().startswith("No time: Recompute, Exposed TP")
    assert "Compute 600 ms, 60.0%." in view.bar.accessibleDescription()
    assert view.parts_table.accessibleName()
    assert view.operators_table.accessibleName()
