"""What the engine last answered: the one value that every panel of results draws."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from projectors.inputs.study import Study
from projectors.results import Projection


class Status(StrEnum):
    """Where the engine stands with the newest request."""

    EMPTY = "empty"  # no study was projected yet
    BUSY = "busy"  # a request runs
    DONE = "done"
    ILLEGAL = "illegal"  # the recipe breaks rules; the projection lists them
    FAILED = "failed"  # the engine could not answer; the message says why


@dataclass(frozen=True, slots=True)
class ProjectionState:
    """One answer. While busy, `projection` is the last good one; when illegal, it carries the violations."""

    study: Study | None = None
    projection: Projection | None = None
    status: Status = Status.EMPTY
    message: str = ""  # words for the user: empty unless failed
    seconds: float = 0.0  # how long the engine took
