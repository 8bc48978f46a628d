"""The part of time in view, how it is moved, and its history. No Qt."""

from __future__ import annotations

from dataclasses import dataclass, field

EDGE = 0.01
"""Room shown before the step's begin and after its end, over the makespan."""

DEEPEST = 1e-6
"""Least part of the makespan that fills the view."""


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """Seconds in view."""

    begin: float
    end: float

    @property
    def span(self) -> float:
        return self.end - self.begin


def whole(makespan: float) -> TimeWindow:
    """All of the step with a little room."""
    room = makespan * EDGE or 1.0
    return TimeWindow(-room, makespan + room)


def kept(window: TimeWindow, makespan: float) -> TimeWindow:
    """The window moved and sized so that it stays over the step."""
    most = whole(makespan)
    span = min(max(window.span, makespan * DEEPEST), most.span)
    begin = min(max(window.begin, most.begin), most.end - span)
    return TimeWindow(begin, begin + span)


def zoomed(window: TimeWindow, factor: float, at: float, makespan: float) -> TimeWindow:
    """`factor` times nearer, the time `at` staying where it is on the screen."""
    span = min(max(window.span / factor, makespan * DEEPEST), whole(makespan).span)
    share = (at - window.begin) / window.span
    return kept(TimeWindow(at - share * span, at + (1 - share) * span), makespan)


def panned(window: TimeWindow, share: float, makespan: float) -> TimeWindow:
    """Moved by a share of what is in view; later for positive ones."""
    by = share * window.span
    return kept(TimeWindow(window.begin + by, window.end + by), makespan)


@dataclass(slots=True)
class History:
    """Windows that were looked at, with back and forward."""

    past: list[TimeWindow] = field(default_factory=list)
    future: list[TimeWindow] = field(default_factory=list)

    def leave(self, window: TimeWindow) -> None:
        """Remember a window before moving on from it."""
        if not self.past or self.past[-1] != window:
            self.past.append(window)
        self.future.clear()

    def back(self, now: TimeWindow) -> TimeWindow | None:
        """The window before."""
        if not self.past:
            return None
        self.future.append(now)
        return self.past.pop()

    def forward(self, now: TimeWindow) -> TimeWindow | None:
        """The window that was left by going back."""
        if not self.future:
            return None
        self.past.append(now)
        return self.future.pop()
