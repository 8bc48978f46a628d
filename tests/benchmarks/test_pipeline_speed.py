"""How fast pipelines are ordered and simulated: pp 16, 256 microbatches. Asserted only when timed (`make benchmarks`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from projectors.inputs.recipe import Schedule
from projectors.pipeline import Order, automatic, compile_kernel, live_chunks, order, simulate, simulate_many
from projectors.pipeline.kernels import COMPILED
from projectors.pipeline.live import SATURATION

RANKS, MICROBATCHES = 16, 256
MILLISECOND = 1e-3
CHUNKS = {schedule: 2 if schedule.ends_meet or schedule is Schedule.INTERLEAVED else 1 for schedule in SATURATION}


@pytest.fixture
def compiled() -> Iterator[None]:
    compile_kernel()
    yield
    COMPILED.clear()


def within(benchmark: Any, milliseconds: float) -> None:
    if benchmark.stats:
        assert benchmark.stats.stats.median <= milliseconds * MILLISECOND


def inputs(chunks: int) -> tuple[Any, ...]:
    stages = RANKS * chunks
    return order(Schedule.INTERLEAVED, RANKS, chunks, MICROBATCHES), *np.full((3, stages), 0.01), np.full(stages - 1, 0.001)


def test_interpreted_vpp2(benchmark: Any) -> None:
    """A command that runs once: it must not pay for importing a compiler."""
    timeline = benchmark(simulate, *inputs(2))
    assert len(timeline.start) == 16_384
    within(benchmark, 10)


def test_compiled_vpp2(benchmark: Any, compiled: None) -> None:
    benchmark(simulate, *inputs(2))
    within(benchmark, 1)


def test_compiled_vpp4(benchmark: Any, compiled: None) -> None:
    timeline = benchmark(simulate, *inputs(4))
    assert len(timeline.start) == 32_768
    within(benchmark, 2)


@pytest.mark.parametrize("schedule", CHUNKS)
def test_order(benchmark: Any, schedule: Schedule) -> None:
    """Made once for each schedule and size, interpreted."""
    made: Order = benchmark.pedantic(
        order.__wrapped__, (schedule, RANKS, CHUNKS[schedule], MICROBATCHES), rounds=5, warmup_rounds=1
    )
    assert len(made.run) == len(made.kind)
    within(benchmark, 100)


def test_live_sets_of_many_recipes(benchmark: Any) -> None:
    """A thousand counts of microbatches of every schedule, after the first of each."""

    def ask() -> int:
        sizes = [(schedule, chunks, RANKS * more) for schedule, chunks in CHUNKS.items() for more in range(4, 1004)]
        return sum(len(live_chunks(schedule, RANKS, chunks, microbatches)) for schedule, chunks, microbatches in sizes)

    assert benchmark(ask) == RANKS * len(CHUNKS) * 1000
    within(benchmark, 50)


def test_many_candidates_compiled(benchmark: Any, compiled: None) -> None:
    """A search's batch: 64 candidates of pp 16, vpp 4, 256 microbatches that share an order."""
    number, stages = 64, RANKS * 4
    times, send = np.full((3, stages, number), 0.01), np.full((stages - 1, number), 0.001)
    found = benchmark(simulate_many, order(Schedule.INTERLEAVED, RANKS, 4, MICROBATCHES), *times, send)
    assert found.shape == (number,)
    within(benchmark, 64 * 2)


@pytest.mark.parametrize("limit", [RANKS, 2 * RANKS])
def test_automatic_order(benchmark: Any, compiled: None, limit: int) -> None:
    """All variants of the greedy rules, in machine code."""
    times, send = np.repeat([[0.010], [0.012], [0.008]], RANKS, axis=1), np.full(RANKS - 1, 0.0001)
    counter = iter(range(1_000_000))

    def search() -> Order:  # other times each round: orders are kept
        return automatic(RANKS, MICROBATCHES, *(times + 1e-9 * next(counter)), send, limit=limit)

    made = benchmark.pedantic(search, rounds=5, warmup_rounds=1)
    assert len(made.run) == 3 * RANKS * MICROBATCHES
    within(benchmark, 300)
