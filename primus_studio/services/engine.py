"""Asks the engine in a process of its own, so that the window never waits: one request runs, the newest one follows."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from typing import Any

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from primus_studio.services import worker
from primus_studio.services.pools import end_pool, start_pool
from primus_studio.services.projection_state import ProjectionState, Status
from projectors.inputs.cluster import ClusterSpec
from projectors.inputs.model_card import ModelCard
from projectors.inputs.study import Study

MOST_SECONDS = 30.0
"""A projection takes milliseconds; one that takes this long hangs, and its process is ended."""

ATTEMPTS = 2
"""Times a request is sent when its process dies under it."""


@dataclass(frozen=True, slots=True)
class _Job:
    """One call to the engine process and what becomes of its answer, back in the window's thread."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    done: Callable[[Any], None]
    failed: Callable[[str], None]
    attempt: int = 1


class EngineService(QObject):
    """Projects studies. `state` is the newest answer; while a request runs it keeps the last good projection."""

    state_changed = Signal(object)  # ProjectionState
    _answered = Signal(object, object)  # job and its future, from the pool's thread to the window's

    def __init__(self, parent: QObject | None = None, *, most_seconds: float = MOST_SECONDS) -> None:
        super().__init__(parent)
        self.state = ProjectionState()
        self._pool: ProcessPoolExecutor | None = None
        self._running: _Job | None = None
        self._waiting: list[_Job] = []   # jobs beside projections, in turn
        self._newest: Study | None = None  # the study to project next
        self._warm = False
        self._ended = False
        self._answered.connect(self._take_answer, Qt.ConnectionType.QueuedConnection)
        self._watch = QTimer(self, singleShot=True, interval=int(most_seconds * 1000))
        self._watch.timeout.connect(self._give_up)

    def start(self) -> None:
        """Start the engine process: about half a second of imports, in the background."""
        if self._pool is None and not self._ended:
            self._pool = start_pool()
            self._next()

    def request(self, study: Study) -> None:
        """Project `study`; a request that still waits is forgotten."""
        self._newest = study
        self._set_state(replace(self.state, study=study, status=Status.BUSY, message=""))
        self._next()

    def start_study(self, card: ModelCard, cluster: ClusterSpec, done: Callable[[Study], None]) -> None:
        """Find a recipe for a model on a cluster; `done` gets the study."""
        self._waiting.append(_Job(worker.started, (card, cluster), done, self._fail))
        self._next()

    def forget(self) -> None:
        """No study is open any more."""
        self._newest = None
        self._set_state(ProjectionState())

    def shutdown(self) -> None:
        """End the engine process; nothing is answered afterwards."""
        self._ended = True
        self._watch.stop()
        self._running, self._newest, self._waiting = None, None, []
        self._end_pool()

    # -- one job at a time -----------------------------------------------------------------------------------------

    def _next(self) -> None:
        """Send the next job: what was asked for beside projections, then the newest study, then the warm-up."""
        if self._pool is None or self._running is not None:
            return
        if self._waiting:
            self._send(self._waiting.pop(0))
        elif self._newest is not None:
            study, self._newest = self._newest, None
            self._send(_Job(worker.projected, (study,), lambda answer: self._show(study, *answer), self._fail))
        elif not self._warm:
            self._warm = True
            self._send(_Job(worker.warmed, (), lambda _none: None, lambda _words: None))

    def _send(self, job: _Job) -> None:
        assert self._pool is not None
        self._running = job
        self._watch.start()
        try:
            future = self._pool.submit(job.function, *job.arguments)
        except BrokenProcessPool as error:
            self._settle(job, error)
            return
        future.add_done_callback(lambda answer: self._answered.emit(job, answer))

    def _take_answer(self, job: _Job, future: Future[Any]) -> None:
        if job is not self._running:
            return  # given up on, or shut down
        try:
            answer = future.result()
        except (Exception, CancelledError) as error:  # noqa: BLE001 - whatever the engine raised becomes words
            self._settle(job, error)
            return
        self._watch.stop()
        self._running = None
        job.done(answer)
        self._next()

    def _settle(self, job: _Job, error: BaseException) -> None:
        """A job ended without an answer: a process that died is replaced and asked once more."""
        self._watch.stop()
        self._running = None
        if isinstance(error, BrokenProcessPool):
            self._renew_pool()
            if job.attempt < ATTEMPTS:
                self._waiting.insert(0, replace(job, attempt=job.attempt + 1))
            else:
                job.failed("The engine process ended twice on this study; it was started anew.")
        else:
            job.failed(f"The engine could not answer: {str(error) or type(error).__name__}")
        self._next()

    def _give_up(self) -> None:
        job, self._running = self._running, None
        self._renew_pool()
        if job is not None:
            job.failed(f"The engine did not answer within {self._watch.interval() / 1000:g} s; it was started anew.")
        self._next()

    def _renew_pool(self) -> None:
        self._end_pool()
        self._warm = False
        self._pool = start_pool()

    def _end_pool(self) -> None:
        pool, self._pool = self._pool, None
        end_pool(pool)

    # -- states ------------------------------------------------------------------------------------------------------

    def _show(self, study: Study, projection: Any, seconds: float) -> None:
        if self._newest is None and self.state.study is not None:  # else a newer answer follows at once, or nothing is open
            status = Status.DONE if projection.legal else Status.ILLEGAL
            self._set_state(ProjectionState(study, projection, status, "", seconds))

    def _fail(self, words: str) -> None:
        self._set_state(replace(self.state, status=Status.FAILED, message=words))

    def _set_state(self, state: ProjectionState) -> None:
        self.state = state
        self.state_changed.emit(state)
