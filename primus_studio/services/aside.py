"""Longer questions beside projections: in a second process, which starts when it is first needed.

Of each kind of question the newest counts: a new one takes the place of one that waits, and ends one that runs.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QObject, Qt, Signal

from primus_studio.services.pools import end_pool, start_pool


@dataclass(frozen=True, slots=True)
class _Question:
    kind: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    done: Callable[[Any], None]
    failed: Callable[[str], None]


class AsideService(QObject):
    """Answers one question at a time. `done` and `failed` are called in the window's thread, and not after a cancel."""

    _answered = Signal(object, object)  # question and its future, from the pool's thread to the window's

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._pool: ProcessPoolExecutor | None = None
        self._running: _Question | None = None
        self._waiting: list[_Question] = []
        self._ended = False
        self._answered.connect(self._take_answer, Qt.ConnectionType.QueuedConnection)

    def ask(
        self,
        kind: str,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        done: Callable[[Any], None],
        failed: Callable[[str], None],
    ) -> None:
        """Run `function`, which a fresh interpreter can import, on `arguments`; `failed` gets words."""
        self.cancel(kind)
        self._waiting.append(_Question(kind, function, arguments, done, failed))
        self._next()

    def cancel(self, kind: str) -> None:
        """Forget a question; where it runs already its process is ended, at once."""
        self._waiting = [question for question in self._waiting if question.kind != kind]
        if self._running is not None and self._running.kind == kind:
            self._running = None
            self._end_pool(wait=False)  # the window does not wait for what it no longer wants
            self._next()

    def is_busy(self, kind: str) -> bool:
        """Whether a question waits or runs."""
        asked = [*self._waiting, *([self._running] if self._running else [])]
        return any(question.kind == kind for question in asked)

    def shutdown(self) -> None:
        """End the process; nothing is answered afterwards."""
        self._ended = True
        self._running, self._waiting = None, []
        self._end_pool()

    def _next(self) -> None:
        if self._ended or self._running is not None or not self._waiting:
            return
        if self._pool is None:
            self._pool = start_pool()
        question = self._running = self._waiting.pop(0)
        try:
            future = self._pool.submit(question.function, *question.arguments)
        except BrokenProcessPool as error:
            self._settle(question, error)
            return
        future.add_done_callback(lambda answer: self._answered.emit(question, answer))

    def _take_answer(self, question: _Question, future: Future[Any]) -> None:
        if question is not self._running:
            return  # canceled, or shut down
        try:
            answer = future.result()
        except (Exception, CancelledError) as error:  # noqa: BLE001 - whatever the engine raised becomes words
            self._settle(question, error)
            return
        self._running = None
        question.done(answer)
        self._next()

    def _settle(self, question: _Question, error: BaseException) -> None:
        self._running = None
        if isinstance(error, BrokenProcessPool):
            self._end_pool()
            question.failed("The process that worked on this ended; asking again starts a new one.")
        else:
            question.failed(str(error) or type(error).__name__)
        self._next()

    def _end_pool(self, *, wait: bool = True) -> None:
        pool, self._pool = self._pool, None
        end_pool(pool, wait=wait)
