"""The benchmark panel: what is here, the plan, a real run on the CPU, its record in use, and every failure in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog, QInputDialog
from pytestqt.qtbot import QtBot

from primus_studio.document.state import StudyDocument
from primus_studio.panels import benchmark
from primus_studio.panels.benchmark import BenchmarkPanel
from primus_studio.panels.panel import PanelContext
from primus_studio.services.engine import EngineService
from primus_studio.widgets.benchmark_words import Row, RowState
from projectors.benchmark import lock, runner
from projectors.benchmark.plan import plan_benchmark
from projectors.benchmark.runner import Progress
from projectors.inputs import library
from projectors.inputs.benchmark_record import DeviceKind
from projectors.inputs.study import ComputeMode
from projectors.restoring.records import records_folder
from tests.projectors.benchmark.tiny import cpus, tiny

PATIENCE_MS = 60_000


@pytest.fixture
def context(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[PanelContext]:
    monkeypatch.setattr(lock.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(runner, "REPEATS", dict.fromkeys(DeviceKind, 3))
    for path in records_folder().glob("*"):
        path.unlink()
    made = PanelContext(StudyDocument(), EngineService())
    made.document.new(tiny("moe", "pp: 2", per_node=2))
    yield made
    made.benchmark.shutdown()
    made.aside.shutdown()
    made.document.close()


@pytest.fixture
def panel(context: PanelContext, qtbot: QtBot) -> BenchmarkPanel:
    made = benchmark.create(context)
    assert isinstance(made, BenchmarkPanel)
    qtbot.addWidget(made)
    made.resize(928, 300)
    made.show()
    return made


def planned(panel: BenchmarkPanel, context: PanelContext, qtbot: QtBot) -> None:
    """Devices found and a plan shown."""
    context.benchmark.devices_found.emit(cpus(1))
    qtbot.waitUntil(panel.run_button.isEnabled, timeout=PATIENCE_MS)


def test_nothing_is_asked_of_torch_before_the_user_asks(panel: BenchmarkPanel, context: PanelContext) -> None:
    assert not context.benchmark.busy
    assert not panel.run_button.isEnabled()
    assert panel.measurements.rows == ()
    assert "here?" in panel.words.text()


def test_devices_are_found_by_a_click(panel: BenchmarkPanel, qtbot: QtBot) -> None:
    pytest.importorskip("torch")
    panel.device.setCurrentIndex(2)
    qtbot.mouseClick(panel.find_button, Qt.MouseButton.LeftButton)
    assert not panel.find_button.isEnabled()
    qtbot.waitUntil(panel.run_button.isEnabled, timeout=PATIENCE_MS)
    assert panel.words.text().startswith("1 × cpu")
    assert "about" in panel.details.text()


def test_a_plan_follows_the_study(panel: BenchmarkPanel, context: PanelContext, qtbot: QtBot) -> None:
    planned(panel, context, qtbot)
    assert [row.what for row in panel.measurements.rows] == [
        "Dense layer", "MoE layer", "Embedding", "Head and loss", "optimizer step",
    ]
    assert "pp 1 to 2" in panel.restored.text()
    context.document.edit("model.moe", None)
    qtbot.waitUntil(lambda: len(panel.measurements.rows) == 4, timeout=PATIENCE_MS)
    context.document.edit("recipe.pp", 1)
    context.document.edit("recipe.cp", 2)
    qtbot.waitUntil(lambda: "cannot be measured" in panel.words.text(), timeout=PATIENCE_MS)
    assert not panel.run_button.isEnabled()
    assert "cp = 2" in panel.details.text()


def test_a_run_is_shown_kept_used_and_undone(panel: BenchmarkPanel, context: PanelContext, qtbot: QtBot) -> None:
    pytest.importorskip("torch")
    planned(panel, context, qtbot)
    qtbot.mouseClick(panel.run_button, Qt.MouseButton.LeftButton)
    assert panel.cancel_button.isVisible()
    assert not panel.run_button.isEnabled()
    qtbot.waitUntil(lambda: any(row.ratio for row in panel.measurements.rows), timeout=PATIENCE_MS)
    assert not panel.cancel_button.isVisible()
    assert {row.state for row in panel.measurements.rows} == {RowState.MEASURED}
    assert "torch" in panel.details.text()
    (kept,) = panel.records.rows
    assert kept.misfit == ""
    panel.pages.show_page(1)
    panel.records_table.selectRow(0)
    qtbot.mouseClick(panel.use_button, Qt.MouseButton.LeftButton)
    study = context.document.study
    assert study is not None
    assert (study.compute.mode, study.compute.record) == (ComputeMode.BENCHMARK, kept.name)
    qtbot.waitUntil(panel.simulate_button.isEnabled, timeout=PATIENCE_MS)
    context.document.undo_stack.undo()
    assert context.document.study is not None
    assert context.document.study.compute.mode is ComputeMode.SIMULATE


def test_canceling_keeps_what_was_measured(panel: BenchmarkPanel, context: PanelContext, qtbot: QtBot) -> None:
    pytest.importorskip("torch")
    planned(panel, context, qtbot)
    panel.run_button.click()
    qtbot.waitUntil(lambda: any(row.state is RowState.MEASURED for row in panel.measurements.rows), timeout=PATIENCE_MS)
    panel.cancel_button.click()
    qtbot.waitUntil(lambda: not context.benchmark.busy, timeout=2_000)
    qtbot.waitUntil(lambda: len(panel.records.rows) == 1, timeout=PATIENCE_MS)
    assert "in part" in panel.words.text()
    assert any(row.state is RowState.FAILED and row.note == "cancelled" for row in panel.measurements.rows)
    assert panel.run_button.isEnabled()


def test_failures_are_said_and_harm_nothing(
    panel: BenchmarkPanel, context: PanelContext, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    from projectors.benchmark import devices

    monkeypatch.setattr(devices, "torch_is_installed", lambda: False)
    panel.find_button.click()
    qtbot.waitUntil(lambda: not context.benchmark.busy, timeout=PATIENCE_MS)
    qtbot.waitUntil(lambda: "primus-studio[benchmark]" in panel.details.text(), timeout=PATIENCE_MS)
    assert panel.find_button.isEnabled()


def test_progress_names_what_is_measured_and_what_is_left(panel: BenchmarkPanel, context: PanelContext, qtbot: QtBot) -> None:
    planned(panel, context, qtbot)
    context.benchmark.progressed.emit(Progress("MoE layer", 2.0, 8.0))
    states = {row.what: row.state for row in panel.measurements.rows}
    assert states["MoE layer"] is RowState.MEASURING
    assert panel.progress.value() == 250
    assert "6 s left" in panel.progress.text()
    context.benchmark.progressed.emit(Progress("MoE layer", 3.0, 8.0, failed="the device ran out of memory"))
    failed = next(row for row in panel.measurements.rows if row.what == "MoE layer")
    assert (failed.state, failed.note) == (RowState.FAILED, "the device ran out of memory")
    context.benchmark.progressed.emit(Progress("MoE layer", 3.0, 8.0, log="a warning of a library"))
    assert "a warning" in panel.log.toPlainText()


def test_records_are_compared_exported_and_made_a_profile(
    panel: BenchmarkPanel, context: PanelContext, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from projectors.restoring.records import keep, read_record
    from tests.projectors.restoring.records import record_of

    study = tiny("moe", "pp: 2", per_node=2)
    for name, scale in (("first", 1.0), ("second", 2.0)):
        keep(record_of(study, scale).model_copy(update={"name": name}))
    panel._read_records()
    qtbot.waitUntil(lambda: len(panel.records.rows) == 2, timeout=PATIENCE_MS)
    panel.pages.show_page(1)
    panel.records_table.selectAll()
    assert panel.compared_table.isVisible()
    texts = [panel.compared.index(0, column).data() for column in range(4)]
    assert "×)" in texts[3]
    assert not panel.use_button.isEnabled(), "one record at a time"
    panel.records_table.selectRow(0)
    target = tmp_path / "out.yaml"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_args, **_kwargs: (str(target), ""))
    panel.export_button.click()
    assert read_record(target).name == panel.records.rows[0].name
    monkeypatch.setattr(QInputDialog, "getText", lambda *_args, **_kwargs: ("../out", True))
    panel.profile_button.click()
    qtbot.waitUntil(lambda: "a name of letters" in panel.details.text(), timeout=PATIENCE_MS)
    monkeypatch.setattr(QInputDialog, "getText", lambda *_args, **_kwargs: ("cpu-measured", True))
    panel.profile_button.click()
    qtbot.waitUntil(lambda: "cpu-measured" in library.names("hardware"), timeout=PATIENCE_MS)
    qtbot.waitUntil(lambda: "cpu-measured" in panel.words.text(), timeout=PATIENCE_MS)
    profile = library.hardware("cpu-measured")
    assert "benchmark record" in profile.sources["efficiency.gemm_bf16"]


def test_rows_compare_only_what_has_both_figures() -> None:
    row = Row("x", simulated=2.0)
    assert row.ratio is None
    assert replace(row, simulated=None).ratio is None
    assert plan_benchmark(tiny(), cpus(1)).problems == ()


def test_without_a_study_nothing_can_be_measured(panel: BenchmarkPanel, context: PanelContext) -> None:
    context.document.close()
    assert panel.words.text() == "No study is open"
    assert not panel.run_button.isEnabled()
