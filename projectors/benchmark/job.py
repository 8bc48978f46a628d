"""What the measuring process is asked and what it says: plain data over a pipe, so that it can crash without harm."""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import Field

from projectors.benchmark.plan import StepKind
from projectors.inputs.benchmark_record import DeviceKind
from projectors.inputs.describe import Frozen
from projectors.inputs.model_card import ModelCard
from projectors.inputs.recipe import Recipe

MARK = "@measured "
"""Start of a line that says something; all else that libraries print is log."""


class JobStep(Frozen):
    """One thing to measure."""

    kind: StepKind
    what: str


class Job(Frozen):
    """The reduced run and what to measure in it."""

    device: DeviceKind
    threads: int | None = None
    model: ModelCard
    recipe: Recipe
    processes: int
    vocabulary_multiple: int
    steps: tuple[JobStep, ...]
    warm_up: int
    repeats: int


class Said(Frozen):
    """A line from the measuring process."""

    event: Literal["started", "measuring", "measured", "failed", "conditions"]
    what: str = ""
    reason: str = ""
    data: dict[str, Any] = Field(default_factory=dict)


def say(said: Said) -> None:
    """Print a line for the parent."""
    print(MARK + json.dumps(said.model_dump(mode="json"), allow_nan=False), flush=True)


def heard(line: str) -> Said | None:
    """The message of a line; None for log."""
    if not line.startswith(MARK):
        return None
    try:
        return Said.model_validate_json(line.removeprefix(MARK))
    except ValueError:
        return None
