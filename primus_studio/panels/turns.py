"""Drawing work in turns: one piece per turn of the event loop, so that no answer holds the window longer than a frame."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer
from shiboken6 import isValid


class Turns(QObject):
    """A queue with one piece per owner: a newer piece takes the older one's place, an owner that is gone loses its piece."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._waiting: dict[QObject, Callable[[], object]] = {}
        self._timer = QTimer(self, singleShot=True, interval=0)
        self._timer.timeout.connect(self._run_one)

    def later(self, owner: QObject, piece: Callable[[], object]) -> None:
        """Run `piece` in a turn of its own, after those that wait already."""
        self._waiting[owner] = piece
        self._timer.start()

    @property
    def idle(self) -> bool:
        """Whether everything asked for is done."""
        return not self._waiting

    def _run_one(self) -> None:
        owner = next(iter(self._waiting), None)
        if owner is None:
            return
        piece = self._waiting.pop(owner)
        if self._waiting:
            self._timer.start()  # what this piece changed is painted first: posted events come before timers
        if isValid(owner):
            piece()
