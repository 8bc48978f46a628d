"""Timelines for other programs."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from projectors.inputs.recipe import Schedule
from projectors.pipeline import Timeline, chrome_trace, events

Uniform = Callable[..., Timeline]


@pytest.fixture
def timeline(uniform: Uniform) -> Timeline:
    made: Timeline = uniform(Schedule.ZBV, 2, 2, 4, (0.012, 0.012, 0.012))
    return made


def test_events_are_every_pass_in_seconds_rank_by_rank(timeline: Timeline) -> None:
    rows = json.loads(json.dumps(events(timeline)))
    assert len(rows) == 2 * 2 * 4 * 3
    assert [(row["rank"], row["start"]) for row in rows] == sorted((row["rank"], row["start"]) for row in rows)
    assert rows[0] == {"rank": 0, "chunk": 0, "microbatch": 0, "kind": "forward", "start": 0.0, "end": 0.006}
    assert {row["kind"] for row in rows} == {"forward", "input_gradient", "weight_gradient"}
    assert max(row["end"] for row in rows) == timeline.makespan


def test_trace_has_a_process_for_each_rank_and_microseconds(timeline: Timeline) -> None:
    """Trace-event format: complete events (ph X) with ts and dur in microseconds; names as metadata (ph M)."""
    trace = json.loads(json.dumps(chrome_trace(timeline, model="Mixtral 8x22B")))
    named = {(event["pid"], event["name"]): event["args"] for event in trace["traceEvents"] if event["ph"] == "M"}
    assert named[1, "process_name"] == {"name": "Pipeline rank 1"}
    assert {event["ph"] for event in trace["traceEvents"]} == {"M", "X"}
    passes = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert len(passes) == len(timeline.start)
    assert max(event["ts"] + event["dur"] for event in passes) == pytest.approx(150_000)
    assert passes[0]["name"] == "F0"
    assert trace["otherData"]["model"] == "Mixtral 8x22B"
    assert trace["otherData"]["schedule"] == "zbv"


def test_the_up_leg_of_a_v_is_the_later_stage(timeline: Timeline) -> None:
    named = [event for event in chrome_trace(timeline)["traceEvents"] if event["name"] == "thread_name"]
    threads = {(event["pid"], event["tid"]): event["args"]["name"] for event in named}
    assert threads == {(0, 0): "Virtual stage 0", (1, 0): "Virtual stage 1", (1, 1): "Virtual stage 2", (0, 1): "Virtual stage 3"}
