"""Projections for the drawings: made by the engine from shipped studies, once per session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from PySide6.QtCore import QObject, Signal

from primus_studio.services.projection_state import ProjectionState, Status
from projectors.inputs.loading import load_study
from projectors.inputs.recipe import Schedule
from projectors.legality import Violation
from projectors.pipeline.timeline import Timeline
from projectors.projection import project_study
from projectors.results import MemoryBreakdown, Projection


class Engine(QObject):
    """Stands in for the engine service: answers what a test puts."""

    state_changed = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.state = ProjectionState()

    def put(self, state: ProjectionState) -> None:
        self.state = state
        self.state_changed.emit(state)


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def context(engine: Engine) -> SimpleNamespace:
    """What panels are made from."""
    return SimpleNamespace(engine=engine, turns=SimpleNamespace(later=lambda _owner, piece: piece()))


@pytest.fixture(scope="session")
def done() -> ProjectionState:
    """The shipped Mixtral 8x22B study, projected: 4 ranks, 1F1B."""
    study = load_study("mixtral-8x22b-mi355x-4x8")
    return ProjectionState(study, project_study(study), Status.DONE, "", 0.003)


@pytest.fixture(scope="session")
def projection(done: ProjectionState) -> Projection:
    assert done.projection is not None
    return done.projection


@pytest.fixture(scope="session")
def memory(projection: Projection) -> MemoryBreakdown:
    assert projection.memory is not None
    return projection.memory


@pytest.fixture(scope="session")
def timeline(projection: Projection) -> Timeline:
    assert projection.timeline is not None
    return projection.timeline


@pytest.fixture(scope="session")
def illegal(done: ProjectionState) -> ProjectionState:
    """tp 7, with two broken rules."""
    broken = (
        Violation("tp-divides-heads", ("recipe.tp",), "tp is 7, which does not divide the 48 attention heads", 6),
        Violation("gpus-divisible", ("recipe.tp",), "tp x pp = 28 does not divide 32 GPUs", 8),
    )
    return replace(done, projection=Projection(broken, (), 32, 1, 0), status=Status.ILLEGAL)


@pytest.fixture(scope="session")
def hand_made() -> Timeline:
    """Two ranks, two microbatches, 1F1B with forward 1 s and backward 2 s, by hand: rank 1 starts a second later."""
    rows = [  # rank, microbatch, kind, start, end
        (0, 0, 0, 0, 1), (0, 1, 0, 1, 2), (0, 0, 1, 4, 6), (0, 1, 1, 7, 9),
        (1, 0, 0, 1, 2), (1, 0, 1, 2, 4), (1, 1, 0, 4, 5), (1, 1, 1, 5, 7),
    ]  # fmt: skip
    rank, microbatch, kind, start, end = np.array(rows).T
    chunk, start, end = np.zeros(len(rows), np.int32), start.astype(float), end.astype(float)
    rank, microbatch, kind = rank.astype(np.int32), microbatch.astype(np.int32), kind.astype(np.uint8)
    return Timeline(Schedule.ONE_F_ONE_B, 2, 1, 2, rank, chunk, microbatch, kind, start, end)


@pytest.fixture(scope="session")
def stretched(memory: MemoryBreakdown) -> Callable[[int, float], MemoryBreakdown]:
    """The memory over more ranks, and on a device with a share of its capacity."""

    def made(ranks: int, capacity: float) -> MemoryBreakdown:
        copies = tuple(replace(memory.ranks[rank % len(memory.ranks)], rank=rank) for rank in range(ranks))
        return replace(memory, ranks=copies, capacity_bytes=int(memory.peak_bytes * capacity))

    return made
