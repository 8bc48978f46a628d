"""Every schedule against orders of the libraries that define it and times of two independent evaluators.

vectors.json: shared/data/pipeline_vectors.json, those of the schedules built here (torch 2.13.0, sail-sg 39f2c186, Primus
fd1eeabb, DeepSeek DualPipe 3da1bbea; each names its source). Left out: links that carry one message at a time, where that
matters, and V-Min in the order of sail-sg, which differs from Primus' in ties. primus.json: the reference tool's own simulator.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from projectors.inputs.recipe import Schedule
from projectors.pipeline import (
    Order,
    applicable,
    assemble,
    bubble_fraction,
    busy_seconds,
    live_chunks,
    order,
    peak_in_flight,
    placement,
    rank_windows,
    simulate,
    stage_span,
)
from projectors.pipeline.loop_schedules import interleaved
from projectors.pipeline.timeline import PassKind, Timeline

HERE = Path(__file__).parent
VECTORS: list[dict[str, Any]] = json.loads((HERE / "vectors.json").read_text())
PRIMUS: list[Any] = json.loads((HERE / "primus.json").read_text())["rows"]
TOLERANCE = 1e-6
LETTERS = {PassKind.FORWARD: "F", PassKind.BACKWARD: "BW", PassKind.INPUT_GRADIENT: "B", PassKind.WEIGHT_GRADIENT: "W"}


def sizes_of(vector: dict[str, Any]) -> tuple[Schedule, int, int, int, int | None]:
    return Schedule(vector["schedule"]), vector["pp"], vector["vpp"], vector["microbatches"], vector["group"]


def order_of(vector: dict[str, Any]) -> Order:
    schedule, ranks, chunks, microbatches, group = sizes_of(vector)
    if applicable(schedule, ranks, chunks, microbatches, group) is None:
        return order(schedule, ranks, chunks, microbatches, group)
    assert group is not None  # PyTorch takes fewer microbatches than ranks
    every = [interleaved(rank, ranks, chunks, microbatches, group) for rank in range(ranks)]
    return assemble(schedule, ranks, chunks, microbatches, every)


def tokens(passes: Order, timeline: Timeline | None = None) -> list[list[Any]]:
    """F3.0 or F3.0&BW1.1 for each pass or block of each rank; with its start and end where there is a timeline. The vectors
    count the microbatches of each of DualPipe's directions from 0."""
    found: list[list[Any]] = [[] for _ in range(passes.ranks)]
    of_each = passes.microbatches // passes.schedule.copies
    names = [
        f"{LETTERS[PassKind(kind)]}{microbatch}.{chunk}"
        for kind, microbatch, chunk in zip(passes.kind, passes.microbatch % of_each, passes.chunk, strict=True)
    ]
    for index, name in enumerate(names):
        if index and passes.joined[index - 1]:
            continue
        last = index + 1 if passes.joined[index] else index
        token = name if last == index else f"{name}&{names[last]}"
        found[passes.rank[index]].append([token, timeline.start[index], timeline.end[last]] if timeline else token)
    return found


def timed(vector: dict[str, Any]) -> Timeline:
    forward, backward, weight = np.array(vector["seconds"]).T
    send = np.full(len(forward) - 1, vector["send"])
    return simulate(
        order_of(vector), forward, backward, weight, send, blocking_send=vector["blocking"], overlap=vector["overlap"]
    )


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_order_is_that_of_the_defining_library(vector: dict[str, Any]) -> None:
    text = "\n".join(" ".join(of_rank) for of_rank in tokens(order_of(vector)))
    assert sha256(text.encode()).hexdigest() == vector["order_sha256"], vector["order_source"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_times_are_exact(vector: dict[str, Any]) -> None:
    timeline, expect = timed(vector), vector["expect"]
    starts, ends = rank_windows(timeline)
    assert timeline.makespan == pytest.approx(expect["makespan"], abs=TOLERANCE)
    assert bubble_fraction(timeline) == pytest.approx(expect["bubble_ratio"], abs=TOLERANCE)
    assert busy_seconds(timeline) == pytest.approx(expect["busy_per_stage"], abs=TOLERANCE)
    assert starts == pytest.approx(expect["start_per_stage"], abs=TOLERANCE)
    assert ends == pytest.approx(expect["end_per_stage"], abs=TOLERANCE)
    assert stage_span(timeline) == pytest.approx(expect["max_stage_span"], abs=TOLERANCE)
    if expect["steady_period_no_barrier"] is not None:
        assert stage_span(timeline) == pytest.approx(expect["steady_period_no_barrier"], abs=TOLERANCE)


@pytest.mark.parametrize("vector", [vector for vector in VECTORS if "timeline" in vector], ids=lambda vector: vector["id"])
def test_every_pass_starts_and_ends_when_it_should(vector: dict[str, Any]) -> None:
    for found, expected in zip(tokens(order_of(vector), timed(vector)), vector["timeline"], strict=True):
        assert [token for token, _, _ in found] == [token for token, _, _ in expected]
        assert np.array([row[1:] for row in found]) == pytest.approx(np.array([row[1:] for row in expected]), abs=TOLERANCE)


@pytest.mark.parametrize("vector", [vector for vector in VECTORS if applicable(*sizes_of(vector)) is None], ids=lambda v: v["id"])
def test_peak_of_live_chunks(vector: dict[str, Any]) -> None:
    sizes = sizes_of(vector)
    for freed_by, key in ((PassKind.WEIGHT_GRADIENT, "until_W"), (PassKind.INPUT_GRADIENT, "until_B")):
        peaks = [int(rows.sum(axis=1).max()) for rows in live_chunks(*sizes, freed_by=freed_by)]
        assert peaks == vector["expect"][f"peak_inflight_chunks_{key}"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_messages_between_ranks(vector: dict[str, Any]) -> None:
    """2m(pv - 1) in all where stages go round, 2m(2p - 2) in a V: its turn is on one rank; 2m(p - 1) in DualPipe, whose
    microbatches pass p stages each (facts/pipeline.md, 2 and 5)."""
    passes = order_of(vector)
    crosses = passes.edge < passes.stages - 1
    sends = np.bincount(passes.rank[passes.need[crosses]], minlength=passes.ranks)
    assert sends.tolist() == vector["expect"]["p2p_sends_per_rank"]
    boundaries = passes.stages // passes.schedule.copies - (2 if passes.schedule.v_shaped else 1)
    assert sends.sum() == 2 * passes.microbatches * boundaries
    rank_of = placement(passes.schedule, passes.ranks, passes.chunks)
    assert (rank_of[passes.stage] == passes.rank).all()


def valid(row: list[Any]) -> bool:
    """facts/primus_projection.md, 9: rows that did not abort, and ZBV with 2p - 1 microbatches or more."""
    schedule, ranks, chunks, microbatches = Schedule(row[0]), *row[1:4]
    aborted = row[-1] or row[7] == 0 or (schedule is Schedule.ZBV and microbatches < 2 * ranks - 1)
    return not aborted and applicable(schedule, ranks, chunks, microbatches) is None


@pytest.mark.parametrize("schedule", sorted({row[0] for row in PRIMUS}))
def test_agrees_with_the_reference_simulator_where_that_is_right(schedule: str) -> None:
    """Except ZB-H1 with fewer microbatches than ranks, where the reference takes another, slower order."""
    rows = [row for row in PRIMUS if row[0] == schedule and valid(row)]
    assert len(rows) >= 20
    for _, ranks, chunks, microbatches, *times, makespan, peaks, _ in rows:
        seconds = [np.full(ranks * chunks, each / chunks) for each in times]
        passes = order(Schedule(schedule), ranks, chunks, microbatches)
        found = simulate(passes, *seconds, np.zeros(ranks * chunks - 1)).makespan
        if schedule == Schedule.ZB_H1 and microbatches < ranks:
            assert found <= makespan + TOLERANCE
        else:
            assert found == pytest.approx(makespan, abs=TOLERANCE)
        assert peak_in_flight(Schedule(schedule), ranks, chunks, microbatches) == pytest.approx(peaks)
