"""The whole window, offscreen: what a user does, and that nothing bad that is opened harms the open study."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QGuiApplication, QImage
from PySide6.QtWidgets import QPushButton, QTabBar, QWidget
from pytestqt.qtbot import QtBot

from primus_studio import app
from primus_studio.actions.palette import Palette
from primus_studio.actions.table import ACTIONS
from primus_studio.document.state import StudyDocument
from primus_studio.panels.editor import Editor
from primus_studio.panels.panel import PanelContext
from primus_studio.panels.table import PANELS
from primus_studio.services.engine import EngineService
from primus_studio.services.projection_state import Status
from primus_studio.services.settings import Settings
from primus_studio.widgets.form_number import NumberBox
from primus_studio.window.docks import EDITOR_WIDTH
from primus_studio.window.main_window import MainWindow
from projectors.inputs.errors import InputError
from projectors.inputs.loading import load_study

SHIPPED = "mixtral-8x22b-mi355x-4x8"
PATIENCE_MS = 20_000


@pytest.fixture
def window(qtbot: QtBot, tmp_path: Path) -> Iterator[MainWindow]:
    """The window with the shipped Mixtral study projected, settings of its own."""
    opened = MainWindow(PanelContext(StudyDocument(), EngineService()), Settings(tmp_path / "window.ini"))
    opened.resize(1280, 800)
    opened.show()
    opened.engine.start()
    opened.open(SHIPPED)
    settled(opened, qtbot)
    yield opened
    opened.leave()
    opened.deleteLater()
    qtbot.wait(1)


def settled(window: MainWindow, qtbot: QtBot) -> None:
    qtbot.waitUntil(lambda: window.engine.state.status not in (Status.BUSY, Status.EMPTY), timeout=PATIENCE_MS)


def test_it_opens_on_the_study_with_every_panel(window: MainWindow) -> None:
    assert window.engine.state.status is Status.DONE
    assert set(window.docks) == {panel.id for panel in PANELS}
    assert SHIPPED in window.windowTitle()
    assert all(dock.isVisibleTo(window) or window.tabifiedDockWidgets(dock) for dock in window.docks.values())


def test_an_edit_is_projected_and_undone(window: MainWindow, qtbot: QtBot) -> None:
    before = window.engine.state.projection
    assert before is not None
    assert before.memory is not None
    window.document.edit("recipe.mbs", 1)
    settled(window, qtbot)
    after = window.engine.state.projection
    assert after is not None
    assert after.memory is not None
    assert after.memory.peak_bytes < before.memory.peak_bytes
    window.actions_by_id["edit.undo"].trigger()
    settled(window, qtbot)
    assert window.engine.state.projection is not None
    assert window.engine.state.projection.memory == before.memory


def test_undo_is_named_and_only_there_when_it_can_be_done(window: MainWindow) -> None:
    undo = window.actions_by_id["edit.undo"]
    assert not undo.isEnabled()
    window.document.edit("recipe.mbs", 1)
    assert undo.isEnabled()
    assert "microbatch" in undo.text()


def test_every_action_is_in_a_menu_and_runs_something(window: MainWindow) -> None:
    shown = {action for menu in window.menuBar().actions() for action in (menu.menu().actions() if menu.menu() else [])}
    assert {window.actions_by_id[row.id] for row in ACTIONS} <= shown


@pytest.mark.parametrize(
    "content",
    [b"recipe: [", b"\xff\xfe\x00binary", b"version: 1\nmodell: x\n", b""],
    ids=["truncated", "binary", "unknown key", "empty"],
)
def test_a_bad_file_is_a_message_and_the_study_stays(window: MainWindow, tmp_path: Path, content: bytes) -> None:
    before = window.document.study
    file = tmp_path / "bad.study.yaml"
    file.write_bytes(content)
    window.open(str(file))
    assert "could not be opened" in window.banner.text
    assert file.name in window.banner.text
    assert window.document.study == before


def test_a_save_that_fails_is_a_message_and_the_study_stays_unsaved(window: MainWindow, tmp_path: Path) -> None:
    target = tmp_path / "kept.study.yaml"
    assert window.document.save(target) is None
    window.document.edit("recipe.mbs", 1)
    target.unlink()
    target.mkdir()
    assert not window.save()
    assert "could not be saved" in window.banner.text
    assert window.document.dirty


def test_an_illegal_recipe_shows_its_reasons_and_keeps_the_window_usable(window: MainWindow, qtbot: QtBot) -> None:
    window.document.edit("recipe.tp", 5)
    settled(window, qtbot)
    assert window.engine.state.status is Status.ILLEGAL
    window.document.edit("recipe.tp", 1)
    settled(window, qtbot)
    assert window.engine.state.status is Status.DONE


def test_a_new_study_starts_from_a_recipe_that_fits(window: MainWindow, qtbot: QtBot) -> None:
    window.new("llama3.1-8b", "h200-2x8")
    qtbot.waitUntil(lambda: "llama3.1-8b" in window.document.title, timeout=PATIENCE_MS)
    settled(window, qtbot)
    assert window.engine.state.projection is not None
    assert window.engine.state.projection.feasible


def test_a_new_study_of_an_unknown_model_is_a_message(window: MainWindow) -> None:
    before = window.document.study
    window.new("llama3.1-9b", "h200-2x8")
    assert "llama3.1-8b" in window.banner.text
    assert window.document.study == before


def test_closing_the_study_empties_the_panels(window: MainWindow) -> None:
    window.document.close()
    assert window.engine.state.status is Status.EMPTY
    assert not window.actions_by_id["file.save"].isEnabled()


def test_the_palette_runs_what_is_typed(window: MainWindow, qtbot: QtBot) -> None:
    window.actions_by_id["view.palette"].trigger()
    palette = window.findChild(Palette)
    assert palette is not None
    qtbot.keyClicks(palette._typed, "about")
    qtbot.keyClick(palette._typed, Qt.Key.Key_Return)
    boxes = [box for box in window.findChildren(QWidget) if box.windowTitle() == "About Primus Studio"]
    assert boxes
    for box in boxes:
        box.close()


def test_the_layout_is_kept_between_windows_and_can_be_reset(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    window.docks["step"].hide()
    window.actions_by_id["view.theme-dark"].trigger()
    window.close()
    again = MainWindow(PanelContext(StudyDocument(), EngineService()), Settings(tmp_path / "window.ini"))
    try:
        assert again.docks["step"].isHidden()
        assert again.actions_by_id["view.theme-dark"].isChecked()
        again.rearrange()
        assert not again.docks["step"].isHidden()
    finally:
        again.leave()
        again.deleteLater()
        qtbot.wait(1)


def test_the_editors_have_room_for_their_fields(window: MainWindow) -> None:
    assert abs(window.docks["recipe"].width() - EDITOR_WIDTH) < EDITOR_WIDTH // 4


def test_a_panel_behind_a_tab_follows_the_study_once_it_is_in_front(window: MainWindow) -> None:
    editor = window.docks["model"].widget()
    assert isinstance(editor, Editor)
    assert not editor.form.rows
    window.document.edit("model.num_layers", 48)
    window.show_panel("model")
    control = editor.form.rows["model.num_layers"].control
    assert isinstance(control, NumberBox)
    assert control.value == 48
    window.show_panel("recipe")
    window.document.edit("model.num_layers", 52)
    assert control.value == 48
    window.show_panel("model")
    assert control.value == 52


def test_a_dropped_file_is_opened(window: MainWindow, tmp_path: Path, qtbot: QtBot) -> None:
    file = tmp_path / "dropped.study.yaml"
    assert window.document.save(file) is None
    window.document.close()
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(file))])
    copy, button, keys = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    entered = QDragEnterEvent(QPoint(9, 9), copy, data, button, keys)
    window.dragEnterEvent(entered)
    assert entered.isAccepted()
    window.dropEvent(QDropEvent(QPointF(9, 9), copy, data, button, keys))
    qtbot.waitUntil(lambda: window.document.path == file.resolve())


def test_a_file_changed_outside_is_offered_and_reloaded_by_a_click(window: MainWindow, tmp_path: Path, qtbot: QtBot) -> None:
    file = tmp_path / "mine.study.yaml"
    assert window.document.save(file) is None
    file.write_text(file.read_text().replace("mbs: 2", "mbs: 1"))
    qtbot.waitUntil(lambda: "changed by another program" in window.banner.text)
    assert window.document.study is not None
    assert window.document.study.recipe.mbs == 2
    next(button for button in window.banner.findChildren(QPushButton) if button.text() == "Reload").click()
    assert window.document.study.recipe.mbs == 1
    assert not window.banner.text


def test_every_control_that_takes_the_keyboard_has_a_name(window: MainWindow) -> None:
    for name in window.docks:
        window.show_panel(name)
    nameless = [
        f"{type(widget).__name__} {widget.objectName()}"
        for widget in window.findChildren(QWidget)
        if widget.focusPolicy() & Qt.FocusPolicy.TabFocus
        and not widget.objectName().startswith("qt_")
        and not (widget.accessibleName() or getattr(widget, "text", str)())
        and type(widget).__module__.startswith("primus_studio")
    ]
    assert not nameless


def test_the_result_can_be_copied_as_the_command_line_prints_it(window: MainWindow) -> None:
    window.actions_by_id["edit.copy-result"].trigger()
    assert "Fits with" in QGuiApplication.clipboard().text()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_picture_of_the_window_and_of_one_panel(qtbot: QtBot, tmp_path: Path, theme: str) -> None:
    study = load_study(SHIPPED)
    for panel in (None, "memory"):
        out = tmp_path / f"{panel}.png"
        app.screenshot(study, out, panel, theme, (1280, 800), 1.0)
        assert out.read_bytes().startswith(b"\x89PNG")
    qtbot.wait(1)


def test_without_a_display_a_study_that_cannot_be_read_promises_no_picture(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InputError, match="missing"):
        app.run_window(str(tmp_path / "missing.study.yaml"))
    assert capsys.readouterr().out == ""


def test_a_picture_says_nothing_of_what_the_offscreen_plugin_cannot_do(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "primus_studio", "screenshot", SHIPPED, str(tmp_path / "x.png"), "--panel", "memory"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout + answer.stderr == ""


@pytest.mark.parametrize(("size", "drawn"), [(None, (200, 600)), ((700, 300), (700, 700))])
def test_a_picture_of_a_panel_is_as_large_as_the_panel_or_as_asked_for(
    tmp_path: Path, size: tuple[int, int] | None, drawn: tuple[int, int], qtbot: QtBot
) -> None:
    out = tmp_path / "panel.png"
    app.screenshot(load_study(SHIPPED), out, "model", "light", size, 1.0)
    assert drawn[0] <= QImage(str(out)).width() <= drawn[1]
    qtbot.wait(1)


def test_a_picture_of_an_unknown_panel_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="timeline"):
        app.screenshot(load_study(SHIPPED), tmp_path / "x.png", "timelin", "light", (800, 600), 1.0)


def test_without_a_display_the_window_is_drawn_into_a_picture(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], qtbot: QtBot
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("QT_SCALE_FACTOR", "1")
    monkeypatch.chdir(tmp_path)
    assert app.run_window(None) == 0
    assert "no display" in capsys.readouterr().out
    assert (tmp_path / "primus-studio.png").stat().st_size > 10_000
    qtbot.wait(1)


@pytest.mark.parametrize("size", [(1280, 800), (1920, 1080)])
def test_resetting_the_layout_shows_every_tab_and_nothing_else(window: MainWindow, qtbot: QtBot, size: tuple[int, int]) -> None:
    window.resize(*size)
    window.rearrange()
    qtbot.wait(100)
    assert _tabs(window) == [["Benchmark", "Pipeline timeline"], ["Cluster", "Model", "Recipe"]]
    window.addDockWidget(Qt.DockWidgetArea.BottomDockWidgetArea, window.docks["recipe"])
    window.tabifyDockWidget(window.docks["memory"], window.docks["headline"])
    window.docks["step"].close()
    window.docks["model"].setFloating(True)
    qtbot.wait(100)
    window.rearrange()
    qtbot.wait(100)
    assert _tabs(window) == [["Benchmark", "Pipeline timeline"], ["Cluster", "Model", "Recipe"]]
    assert not any(dock.isFloating() or dock.isHidden() for dock in window.docks.values())


def _tabs(window: MainWindow) -> list[list[str]]:
    """Titles on every bar of tabs that can be seen."""
    bars = [bar for bar in window.findChildren(QTabBar) if bar.isVisible() and bar.count()]
    return sorted(sorted(bar.tabText(tab) for tab in range(bar.count())) for bar in bars)
