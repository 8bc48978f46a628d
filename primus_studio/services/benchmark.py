"""Measures on the local devices for the window: threads that only wait for the measuring process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Qt, Signal

from projectors.inputs.errors import InputError

if TYPE_CHECKING:
    from projectors.benchmark.plan import BenchmarkPlan


END_SECONDS = 2.0
"""Longest wait for a benchmark to end with the window."""


class BenchmarkService(QObject):
    """One task at a time: finding devices, or a benchmark. Signals come in the window's thread."""

    devices_found = Signal(object)   # tuple of MeasuredDevice
    progressed = Signal(object)      # Progress
    measured = Signal(object)        # BenchmarkRecord, complete or not
    failed = Signal(str)             # words
    busy_changed = Signal(bool)
    _said = Signal(object)           # Progress, from the thread
    _over = Signal(object, object)   # signal to emit and its value, from the thread

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._thread: threading.Thread | None = None
        self._cancel = threading.Event()
        self._ended = False
        self._said.connect(self.progressed, Qt.ConnectionType.QueuedConnection)
        self._over.connect(self._finish, Qt.ConnectionType.QueuedConnection)

    @property
    def busy(self) -> bool:
        """Whether a task runs."""
        return self._thread is not None

    def find(self, kind: str | None, processes: int | None) -> None:
        """Ask PyTorch for devices: of a kind, or GPUs where there are any and else the CPU."""

        def task() -> tuple[object, object]:
            from projectors.benchmark.devices import choose_devices
            from projectors.inputs.benchmark_record import DeviceKind

            return self.devices_found, choose_devices(DeviceKind(kind) if kind else None, processes, None)

        self._run(task)

    def run(self, plan: BenchmarkPlan) -> None:
        """Measure a plan and keep the record."""

        def task() -> tuple[object, object]:
            from projectors.benchmark.runner import run_benchmark
            from projectors.restoring.records import keep

            record = run_benchmark(plan, tell=self._said.emit, cancelled=self._cancel.is_set)
            keep(record)
            return self.measured, record

        self._run(task)

    def cancel(self) -> None:
        """End a benchmark; its record keeps what was measured."""
        self._cancel.set()

    def shutdown(self) -> None:
        """End the task. A benchmark ends within a second; a driver that is asked for its devices is left to answer nobody."""
        self._ended = True
        self.cancel()
        thread = self._thread
        if thread is not None:
            thread.join(END_SECONDS)

    def _run(self, task: Callable[[], tuple[object, object]]) -> None:
        if self._thread is not None:
            return
        self._cancel.clear()
        self._thread = threading.Thread(target=self._work, args=(task,), daemon=True)
        self.busy_changed.emit(True)
        self._thread.start()

    def _work(self, task: Callable[[], tuple[object, object]]) -> None:
        try:
            signal, value = task()
        except InputError as error:
            signal, value = self.failed, "\n".join(problem.brief for problem in error.problems)
        except Exception as error:  # noqa: BLE001 - a thread that dies silently would leave the panel busy for good
            signal, value = self.failed, f"{type(error).__name__}: {error}"
        if not self._ended:
            self._over.emit(signal, value)

    def _finish(self, signal: Any, value: object) -> None:
        self._thread = None
        self.busy_changed.emit(False)
        signal.emit(value)
