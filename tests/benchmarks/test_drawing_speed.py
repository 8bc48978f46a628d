"""How fast results are drawn. Run with `make benchmarks`; a frame has 16 ms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from primus_studio.widgets.headline_view import HeadlineView
from primus_studio.widgets.memory_view import MemoryView
from primus_studio.widgets.step_view import StepView
from primus_studio.widgets.timeline_view import TimelineView
from projectors.inputs.loading import load_study
from projectors.inputs.recipe import Schedule
from projectors.pipeline.timeline import Timeline
from projectors.projection import project_study

FRAME = 0.016
"""Seconds of a frame at 60 Hz."""

FRAME_OF_TWO_MILLION = 0.033
"""Seconds allowed for 2,000,000 events."""


def crowded(events: int, ranks: int = 16) -> Timeline:
    """Passes of uneven length with a tenth of them followed by a bubble, in two chunks."""
    per_rank = events // ranks
    random = np.random.default_rng(0)
    lasting = random.uniform(0.5e-3, 1.5e-3, (ranks, per_rank))
    waiting = np.where(random.random((ranks, per_rank)) < 0.1, random.uniform(0, 1e-3, (ranks, per_rank)), 0)
    end = np.cumsum(lasting + waiting, axis=1)
    number = np.tile(np.arange(per_rank), ranks)
    return Timeline(
        Schedule.INTERLEAVED, ranks, 2, per_rank // 4 + 1, np.repeat(np.arange(ranks, dtype=np.int32), per_rank),
        (number % 2).astype(np.int32), (number // 4).astype(np.int32), (number // 2 % 2).astype(np.uint8),
        (end - lasting).ravel(), end.ravel(),
    )  # fmt: skip


@pytest.mark.parametrize("zoom", [1, 10, 100, 1000])
@pytest.mark.parametrize(("events", "most"), [(10_000, FRAME), (500_000, FRAME), (2_000_000, FRAME_OF_TWO_MILLION)])
def test_a_frame_while_panning(benchmark: Any, qtbot: QtBot, events: int, most: float, zoom: int) -> None:
    timeline = crowded(events)
    view = TimelineView()
    qtbot.addWidget(view)
    view.resize(1600, 600)
    view.show_timeline(timeline)
    with qtbot.waitExposed(view):
        view.show()
    view.zoom(zoom, timeline.makespan * 0.4)
    view.viewport().repaint()
    steps = iter(np.tile([0.01, 0.01, -0.01, -0.01], 10_000).tolist())

    def frame() -> None:
        view.pan(next(steps))
        view.viewport().repaint()

    benchmark.pedantic(frame, rounds=20, warmup_rounds=2)
    if benchmark.enabled:
        assert benchmark.stats.stats.median <= most


def test_zooming_from_all_of_500_000_events_to_a_few(benchmark: Any, qtbot: QtBot) -> None:
    timeline = crowded(500_000)
    view = TimelineView()
    qtbot.addWidget(view)
    view.resize(1600, 600)
    view.show_timeline(timeline)
    with qtbot.waitExposed(view):
        view.show()
    view.viewport().repaint()

    def frame() -> None:
        view.zoom(1.25, timeline.makespan * 0.4)
        view.viewport().repaint()

    benchmark.pedantic(frame, rounds=40)
    if benchmark.enabled:
        assert benchmark.stats.stats.median <= FRAME


def repaints() -> dict[str, Callable[[], tuple[Any, Callable[[], None]]]]:
    """Panel -> its widget, and what puts the next projection of DeepSeek-V3 (16 ranks, 256 microbatches) into it."""
    study = load_study("deepseek-v3-h100-128x8")
    projection = project_study(study)
    assert projection.memory is not None
    assert projection.step is not None
    assert projection.timeline is not None
    memory, step, timeline = projection.memory, projection.step, projection.timeline

    def of_headline() -> tuple[Any, Callable[[], None]]:
        view = HeadlineView()
        return view, lambda: view.show_projection(study, projection)

    def of_memory() -> tuple[Any, Callable[[], None]]:
        view = MemoryView()
        return view, lambda: view.show_memory(memory)

    def of_step() -> tuple[Any, Callable[[], None]]:
        view = StepView()
        return view, lambda: view.show_step(step, projection.operators)

    def of_timeline() -> tuple[Any, Callable[[], None]]:
        view = TimelineView()
        return view, lambda: view.show_timeline(timeline)

    return {"headline": of_headline, "memory": of_memory, "step": of_step, "timeline": of_timeline}


@pytest.mark.parametrize("panel", ["headline", "memory", "step", "timeline"])
def test_a_new_projection_is_drawn_within_a_frame(benchmark: Any, qtbot: QtBot, panel: str) -> None:
    view, put = repaints()[panel]()
    qtbot.addWidget(view)
    view.resize(900, 300)
    put()
    with qtbot.waitExposed(view):
        view.show()

    def frame() -> None:
        put()
        view.grab()

    benchmark.pedantic(frame, rounds=20, warmup_rounds=2)
    if benchmark.enabled:
        assert benchmark.stats.stats.median <= FRAME
