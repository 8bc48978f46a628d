"""Timelines for other programs."""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Callable

import pytest

from projectors.inputs.recipe import Schedule
from projectors.pipeline import Timeline, chrome_trace, events, events_csv

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


REQUIRED = {
    "M": {"name", "ph", "pid", "args"},
    "X": {"name", "cat", "ph", "ts", "dur", "pid", "tid"},
    "s": {"name", "cat", "ph", "ts", "id", "pid", "tid"},
    "f": {"name", "cat", "ph", "ts", "id", "pid", "tid", "bp"},
    "C": {"name", "ph", "ts", "pid", "args"},
}
"""Keys of each phase: Trace Event Format (Google, document of the catapult project), event descriptions."""


@pytest.mark.parametrize("schedule", [Schedule.ZBV, Schedule.DUALPIPE, Schedule.DUALPIPE_V, Schedule.INTERLEAVED])
def test_every_event_is_what_the_trace_event_format_says(uniform: Uniform, schedule: Schedule) -> None:
    timeline = uniform(schedule, 4, 2, 8, (0.012, 0.012, 0.012), 0.001)
    trace = json.loads(json.dumps(chrome_trace(timeline, [[3.0, 5.0]] * 4)))
    assert trace["displayTimeUnit"] == "ms"
    slices: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in trace["traceEvents"]:
        assert set(event) >= REQUIRED[event["ph"]]
        assert all(isinstance(event[key], int) for key in {"pid", "tid"} & set(event))
        if event["ph"] != "M":
            assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0
            slices.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    for spans in slices.values():  # complete events of a thread may nest, never overlap in part
        spans.sort()
        assert all(later >= earlier_end - 1e-3 for (_, earlier_end), (later, _) in itertools.pairwise(spans))
    for rank in range(4):
        values = [event["args"]["bytes"] for event in trace["traceEvents"] if event["ph"] == "C" and event["pid"] == rank]
        assert values[-1] == 0
        assert min(values) >= 0


def test_an_arrow_leads_from_each_send_to_where_it_arrives(uniform: Uniform) -> None:
    """2m(2p - 2) sends in a V: its turn stays on one rank (facts/pipeline.md, 5)."""
    timeline = uniform(Schedule.ZBV, 4, 2, 8, (0.012, 0.012, 0.012), 0.001)
    arrows: dict[int, dict[str, dict[str, float]]] = {}
    for event in chrome_trace(timeline)["traceEvents"]:
        if event["ph"] in "sf":
            arrows.setdefault(event["id"], {})[event["ph"]] = event
    assert len(arrows) == 2 * 8 * (2 * 4 - 2)
    starts = {(row["rank"], row["start"] * 1e6) for row in events(timeline)}
    for ends in arrows.values():
        assert ends["s"]["pid"] != ends["f"]["pid"]
        assert ends["f"]["ts"] >= ends["s"]["ts"] + 0.001 * 1e6
        assert {(ends[phase]["pid"], ends[phase]["ts"]) for phase in "sf"} <= starts


def test_csv_has_a_line_for_every_pass(timeline: Timeline) -> None:
    rows = list(csv.DictReader(io.StringIO(events_csv(timeline))))
    assert len(rows) == len(timeline.start)
    assert rows[0] == {
        "rank": "0", "chunk": "0", "virtual_stage": "0", "microbatch": "0", "kind": "forward", "start_s": "0.0", "end_s": "0.006"
    }
    assert [float(row["end_s"]) for row in rows] == timeline.end.tolist()
