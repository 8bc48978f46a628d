"""What the pipeline's tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from projectors.inputs.recipe import Schedule
from projectors.pipeline import Timeline, compile_kernel, order, simulate
from projectors.pipeline.kernels import COMPILED

Uniform = Callable[..., Timeline]


def simulate_uniform(
    schedule: Schedule, ranks: int, chunks: int, microbatches: int, times: tuple[float, float, float], send: float = 0.0,
    **options: float,
) -> Timeline:
    """Even stages: `times` are seconds of forward, input gradient and weight gradient of one microbatch on a whole rank."""
    per_stage = [np.full(ranks * chunks, each / chunks) for each in times]
    passes = order(schedule, ranks, chunks, microbatches)
    return simulate(passes, *per_stage, np.full(ranks * chunks - 1, send), **options)


@pytest.fixture
def uniform() -> Uniform:
    return simulate_uniform


@pytest.fixture
def one_slot() -> Uniform:
    """Forward, input gradient and weight gradient of one chunk take one second each."""

    def chunk_seconds(schedule: Schedule, ranks: int, chunks: int, microbatches: int, send: float = 0.0) -> Timeline:
        return simulate_uniform(schedule, ranks, chunks, microbatches, (chunks, chunks, chunks), send)

    return chunk_seconds


@pytest.fixture
def compiled() -> Iterator[None]:
    """Machine code for one test; the others run on the interpreter."""
    compile_kernel()
    order.cache_clear()
    yield
    COMPILED.clear()
    order.cache_clear()


