"""Panel: layers and collectives measured on this machine, and the records of earlier runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QFileDialog, QInputDialog, QWidget

from primus_studio.services import worker
from primus_studio.widgets.benchmark_tables import KeptRecord
from primus_studio.widgets.benchmark_view import BenchmarkView
from primus_studio.widgets.benchmark_words import (
    Row,
    RowState,
    conditions_words,
    devices_words,
    plan_words,
    planned_rows,
    record_rows,
)
from projectors.inputs.errors import InputError
from projectors.inputs.study import ComputeMode
from projectors.text import seconds_text

if TYPE_CHECKING:
    from primus_studio.panels.panel import PanelContext
    from projectors.benchmark.plan import BenchmarkPlan
    from projectors.benchmark.runner import Progress
    from projectors.compute.measured import MeasuredRun
    from projectors.inputs.benchmark_record import BenchmarkRecord, MeasuredDevice

UNKNOWN_DEVICES = "What can be measured here?"
NO_STUDY = "No study is open"

REST_MS = 300
"""Edits that follow each other faster are answered once."""

PLAN, RECORDS, PROFILE = "benchmark plan", "benchmark records", "hardware from record"
"""Kinds of question to the second process."""


def create(context: PanelContext) -> QWidget:
    """The panel, measuring for the study of `context`."""
    return BenchmarkPanel(context)


class BenchmarkPanel(BenchmarkView):
    """Keeps plan, run and records together; everything that takes time happens elsewhere."""

    def __init__(self, context: PanelContext) -> None:
        super().__init__()
        self._context = context
        self._devices: tuple[MeasuredDevice, ...] | None = None
        self._plan: BenchmarkPlan | None = None
        self._runs: dict[str, MeasuredRun | None] = {}
        self._just_measured: BenchmarkRecord | None = None
        self._stale = True
        self._rest = QTimer(self, singleShot=True, interval=REST_MS)
        self._rest.timeout.connect(self._catch_up)
        service = context.benchmark
        self.find_asked.connect(service.find)
        self.run_asked.connect(self._start)
        self.cancel_asked.connect(service.cancel)
        self.use_asked.connect(self._use)
        self.export_asked.connect(self._export)
        self.profile_asked.connect(self._save_profile)
        service.devices_found.connect(self._take_devices)
        service.progressed.connect(self._take_progress)
        service.measured.connect(self._take_record)
        service.failed.connect(self._say_failure)
        service.busy_changed.connect(lambda busy: self.show_busy(busy=busy, measuring=busy and self._devices is not None))
        context.document.study_changed.connect(lambda _study, _path: self._follow())
        self._follow()

    def showEvent(self, event: Any) -> None:
        """What changed while nobody looked is caught up with."""
        super().showEvent(event)
        if self._stale:
            self._rest.start()

    # -- the plan -----------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        """The study changed: plan and judge the records anew, once edits rest and somebody looks."""
        study = self._context.document.study
        self._plan, self._just_measured = None, None
        if study is None:
            self._context.aside.cancel(PLAN)
            self.show_plan(NO_STUDY, "Open one or make one with File → New.", (), (), can_run=False)
        elif self._devices is None:
            self.show_plan(UNKNOWN_DEVICES, "Find devices asks PyTorch; nothing is measured yet.", (), (), can_run=False)
        self._stale = True
        if self.isVisible():
            self._rest.start()

    def _catch_up(self) -> None:
        if not self.isVisible():
            return
        self._stale = False
        study = self._context.document.study
        if study is not None and self._devices is not None:
            self._context.aside.ask(PLAN, worker.planned_benchmark, (study, self._devices), self._take_plan, self._say_failure)
        self._read_records()

    def _take_devices(self, devices: tuple[MeasuredDevice, ...]) -> None:
        self._devices = devices
        self._follow()

    def _take_plan(self, plan: BenchmarkPlan) -> None:
        self._plan = plan
        title = devices_words(plan.devices)
        if plan.problems:
            self.show_plan(f"{title}: cannot be measured here", "; ".join(plan.problems), (), (), can_run=False)
            return
        details = f"{plan_words(plan)} · about {seconds_text(plan.seconds)}"
        self.show_plan(title, details, planned_rows(plan), plan.restored, can_run=True)

    # -- the run ------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._plan is not None:
            self.log.clear()
            self.show_rows(planned_rows(self._plan))
            self.show_progress(0, "starting")
            self.pages.show_page(0)
            self._context.benchmark.run(self._plan)

    def _take_progress(self, progress: Progress) -> None:
        if progress.log:
            self.log.appendPlainText(progress.log)
            return
        share = progress.done / progress.total if progress.total else 0.0
        left = seconds_text(max(progress.total - progress.done, 0.0))
        self.show_progress(share, f"{progress.what} · about {left} left")
        self.show_rows([self._advanced(row, progress) for row in self.measurements.rows])

    @staticmethod
    def _advanced(row: Row, progress: Progress) -> Row:
        if row.what != progress.what:
            return replace(row, state=RowState.MEASURED) if row.state is RowState.MEASURING else row
        if progress.failed:
            return replace(row, state=RowState.FAILED, note=progress.failed)
        return replace(row, state=RowState.MEASURING)

    def _take_record(self, record: BenchmarkRecord) -> None:
        self._just_measured = record
        self.words.setText(f"{record.name}: {'measured' if record.complete else 'measured in part'}")
        self.details.setText(conditions_words(record))
        self.show_rows(record_rows(record, None))
        self._read_records()

    def _say_failure(self, words: str) -> None:
        self.words.setText("That did not work")
        self.details.setText(words)
        self.log.appendPlainText(words)

    # -- the records --------------------------------------------------------------------------------------------------

    def _read_records(self) -> None:
        study = self._context.document.study
        self._context.aside.ask(RECORDS, worker.benchmark_records, (study,), self._take_records, self._say_failure)

    def _take_records(self, found: list[tuple[str, BenchmarkRecord | None, str, MeasuredRun | None]]) -> None:
        kept = []
        for path, record, misfit, run in found:
            name = record.name if record else Path(path).name
            kept.append(KeptRecord(Path(path), name, record, misfit))
            self._runs[name] = run
        self.show_records(kept, self._in_use())
        if self._just_measured is not None:
            self.show_rows(record_rows(self._just_measured, self._runs.get(self._just_measured.name)))

    def _in_use(self) -> str | None:
        study = self._context.document.study
        return (study.compute.record or "latest") if study and study.compute.mode is not ComputeMode.SIMULATE else None

    def _use(self, kept: KeptRecord | None) -> None:
        compute = {"mode": ComputeMode.BENCHMARK.value, "record": kept.name} if kept else {"mode": ComputeMode.SIMULATE.value}
        words = f"Take layer times from {kept.name}" if kept else "Simulate layer times"
        error = self._context.document.edit("compute", {"record": None, **compute}, words)
        if error is not None:
            self._say_failure(_words(error))

    def _export(self, kept: KeptRecord) -> None:
        target, _ = QFileDialog.getSaveFileName(self, "Export record", kept.path.name, "Records (*.yaml)")
        if target and kept.record is not None:
            from projectors.restoring.records import keep

            try:
                keep(kept.record, Path(target))
            except InputError as error:
                self._say_failure(_words(error))

    def _save_profile(self, kept: KeptRecord) -> None:
        study = self._context.document.study
        if study is None:
            return
        name, agreed = QInputDialog.getText(
            self, "Save as hardware profile", "Name of the profile:", text=f"{study.cluster.hardware.name}-measured"
        )
        if agreed and name.strip():
            self._context.aside.ask(
                PROFILE, worker.hardware_from_record, (study, str(kept.path), name.strip()), self._say_profile, self._say_failure
            )

    def _say_profile(self, path: str) -> None:
        self.words.setText(f"Saved as hardware profile {Path(path).stem}")
        self.details.setText(f"{path}: choose it as accelerator in the cluster editor")


def _words(error: InputError) -> str:
    return "\n".join(problem.brief for problem in error.problems)
