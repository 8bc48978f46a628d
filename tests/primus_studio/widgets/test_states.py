"""Every panel of results shows what the engine says: nothing yet, working, done, illegal, failed. None loses a good answer."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from primus_studio.panels import headline, memory, step, timeline
from primus_studio.panels.state_pane import BUSY_AFTER_MS, StatePane
from primus_studio.services.projection_state import ProjectionState, Status
from primus_studio.widgets.headline_view import HeadlineView, study_title, tiles
from primus_studio.widgets.tiles import TileView
from projectors.results import Origin, Projection
from projectors.text import number_text, seconds_text

PANELS = {"headline": headline.create, "memory": memory.create, "step": step.create, "timeline": timeline.create}


@pytest.fixture(params=PANELS, ids=str)
def panel(request: pytest.FixtureRequest, qtbot: QtBot, context: SimpleNamespace) -> StatePane:
    pane = PANELS[request.param](context)  # type: ignore[arg-type]
    qtbot.addWidget(pane)
    assert isinstance(pane, StatePane)
    pane.resize(700, 240)
    pane.show()
    return pane


def content_shown(pane: StatePane) -> bool:
    return pane._stack.currentWidget() is pane._content


def test_an_empty_panel_says_what_to_do(panel: StatePane) -> None:
    assert not content_shown(panel)
    assert "Open a study" in panel.notice.words.text()


def test_a_panel_made_late_shows_the_present_answer(
    qtbot: QtBot, engine: Any, context: SimpleNamespace, done: ProjectionState
) -> None:
    engine.put(done)
    pane = memory.create(context)  # type: ignore[arg-type]
    qtbot.addWidget(pane)
    assert isinstance(pane, StatePane)
    assert content_shown(pane)


def test_a_quick_answer_never_flickers(qtbot: QtBot, panel: StatePane, engine: Any, done: ProjectionState) -> None:
    engine.put(done)
    engine.put(replace(done, status=Status.BUSY))
    assert not panel.veil.isVisible()
    engine.put(done)
    qtbot.wait(BUSY_AFTER_MS + 60)
    assert not panel.veil.isVisible()
    assert content_shown(panel)


def test_a_slow_answer_dims_the_last_one(qtbot: QtBot, panel: StatePane, engine: Any, done: ProjectionState) -> None:
    engine.put(done)
    engine.put(replace(done, status=Status.BUSY))
    qtbot.waitUntil(panel.veil.isVisible, timeout=1000)
    assert content_shown(panel)
    engine.put(done)
    assert not panel.veil.isVisible()


def test_work_after_an_illegal_recipe_shows_that_it_runs(
    qtbot: QtBot, panel: StatePane, engine: Any, done: ProjectionState, illegal: ProjectionState
) -> None:
    engine.put(done)
    engine.put(illegal)
    assert not panel.veil._timer.isActive()
    engine.put(replace(done, status=Status.BUSY))
    qtbot.waitUntil(panel.veil._timer.isActive, timeout=1000)
    engine.put(done)
    assert not panel.veil._timer.isActive()


def test_an_illegal_recipe_without_an_answer_lists_all_reasons(panel: StatePane, engine: Any, illegal: ProjectionState) -> None:
    engine.put(illegal)
    assert not content_shown(panel)
    assert illegal.projection is not None
    for violation in illegal.projection.violations:
        assert violation.reason in panel.notice.words.text()


def test_an_illegal_recipe_keeps_the_last_answer_dimmed(
    panel: StatePane, engine: Any, done: ProjectionState, illegal: ProjectionState
) -> None:
    engine.put(done)
    engine.put(illegal)
    assert content_shown(panel)
    assert panel.veil.isVisible()
    assert panel.banner.isVisible()
    assert "illegal" in panel.banner.words.text()
    assert "48 attention heads" in panel.banner.toolTip()
    engine.put(done)
    assert not panel.banner.isVisible()
    assert not panel.veil.isVisible()


def test_the_headline_lists_the_reasons_over_the_last_answer(
    qtbot: QtBot, engine: Any, context: SimpleNamespace, done: ProjectionState, illegal: ProjectionState
) -> None:
    pane = headline.create(context)  # type: ignore[arg-type]
    qtbot.addWidget(pane)
    assert isinstance(pane, StatePane)
    engine.put(done)
    engine.put(illegal)
    assert "48 attention heads" in pane.banner.words.text()
    assert "32 GPUs" in pane.banner.words.text()


def test_a_failure_is_told_in_the_engines_words(panel: StatePane, engine: Any, done: ProjectionState) -> None:
    engine.put(replace(done, projection=None, status=Status.FAILED, message="The worker ended; it was started again."))
    assert panel.notice.words.text() == "The worker ended; it was started again."
    engine.put(done)
    engine.put(replace(done, status=Status.FAILED, message="The worker ended; it was started again."))
    assert content_shown(panel)
    assert "failed" in panel.banner.words.text()


def test_the_tiles_quote_the_projection(done: ProjectionState, projection: Projection) -> None:
    assert done.study is not None
    shown = {tile.caption: tile for tile in tiles(done.study, projection)}
    assert projection.throughput is not None
    assert projection.step is not None
    assert shown["Tokens/s/GPU"].figure == number_text(projection.throughput.tokens_per_s_per_gpu)
    assert shown["Step"].figure == seconds_text(projection.step.seconds)
    assert shown["Memory"].icon is not None, "whether it fits is not told by color alone"
    assert shown["Memory"].figure in ("Fits", "Tight", "Too big")


def test_the_origin_of_the_figures_stands_beside_them(qtbot: QtBot, done: ProjectionState, projection: Projection) -> None:
    view = HeadlineView()
    qtbot.addWidget(view)
    assert done.study is not None
    view.show_projection(done.study, projection)
    assert view.origin.accessibleName() == "simulated"
    view.show_projection(done.study, replace(projection, origin_compute=Origin.MEASURED, warnings=("tp spans nodes", "other")))
    assert view.origin.accessibleName() == "compute measured, communication simulated"
    assert view.warnings.accessibleName() == "2 warnings"
    assert "tp spans nodes" in view.warnings.accessibleDescription()


def test_long_names_are_shortened_and_stand_in_the_tooltip(qtbot: QtBot, done: ProjectionState, projection: Projection) -> None:
    view = HeadlineView()
    qtbot.addWidget(view)
    assert done.study is not None
    named = done.study.model_copy(update={"model": done.study.model.model_copy(update={"name": "a-very-long-model-name-" * 6})})
    view.show_projection(named, projection)
    view.resize(500, 140)
    view.show()
    qtbot.waitExposed(view)
    assert view.width() == 500
    assert view.title.toolTip() == study_title(named)[0]


@pytest.mark.parametrize(("width", "columns"), [(1000, 6), (500, 3), (300, 2)])
def test_tiles_wrap_into_even_lines(
    qtbot: QtBot, done: ProjectionState, projection: Projection, width: int, columns: int
) -> None:
    view = HeadlineView()
    qtbot.addWidget(view)
    assert done.study is not None
    view.show_projection(done.study, projection)
    view.resize(width, 700)
    view.show()
    found = view.findChildren(TileView)
    lefts = {tile.x() for tile in found}
    assert len(lefts) == columns
    assert all(tile.geometry().right() < max(width, view.width()) for tile in found)
    assert len({tile.y() for tile in found}) == 6 // columns


@pytest.mark.parametrize("name", PANELS)
def test_everything_that_takes_the_keyboard_has_a_name(
    qtbot: QtBot, engine: Any, context: SimpleNamespace, done: ProjectionState, name: str
) -> None:
    from PySide6.QtCore import Qt

    pane = PANELS[name](context)  # type: ignore[arg-type]
    qtbot.addWidget(pane)
    engine.put(done)
    pane.show()
    for widget in pane.findChildren(QWidget):
        if widget.focusPolicy() & Qt.FocusPolicy.TabFocus and widget.isVisible() and not widget.focusProxy():
            assert widget.accessibleName() or getattr(widget, "text", str)(), widget
