"""What holds for every pipeline: facts/pipeline.md, section 5."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from projectors.inputs.recipe import Schedule
from projectors.pipeline import (
    Order,
    Timeline,
    activation_curves,
    applicable,
    automatic,
    bubble_fraction,
    busy_seconds,
    legal_groups,
    live_chunks,
    order,
    simulate,
)
from projectors.pipeline.controllable import controllable, laid_out
from projectors.pipeline.kernels import COMPILED
from projectors.pipeline.live import SATURATION, _live
from projectors.pipeline.timeline import PassKind

EVERY = [schedule for schedule in Schedule if schedule is not Schedule.AUTO]
Floats = NDArray[np.float64]
Results = dict[tuple[str, int, int], float]

# Sixteenths of seconds: exact in binary, so that sums can be compared without tolerance.
SECONDS = st.integers(0, 160).map(lambda sixteenths: sixteenths / 16)


@st.composite
def pipelines(draw: st.DrawFn) -> tuple[Order, Floats, Floats]:
    """An order, [3, V] seconds of its passes, [V - 1] seconds of its sends."""
    schedule = draw(st.sampled_from(EVERY))
    ranks = draw(st.integers(1, 6))
    chunks = 2 if schedule.ends_meet else draw(st.integers(2, 4)) if schedule is Schedule.INTERLEAVED else 1
    microbatches, group = draw(st.integers(1, 14)), None
    if schedule is Schedule.INTERLEAVED:
        group = ranks + draw(st.integers(0, 5))
        left = draw(st.sampled_from([0, *range(ranks, group)]))
        microbatches = group * draw(st.integers(1, 3)) + left
    if schedule is Schedule.DUALPIPE:
        ranks += ranks % 2
        microbatches = 2 * (ranks + microbatches // 2)
    if schedule is Schedule.DUALPIPE_V:
        microbatches += 2 * ranks - 1
    stages = ranks * chunks
    times = np.array(draw(st.lists(SECONDS, min_size=3 * stages, max_size=3 * stages))).reshape(3, stages)
    sends = np.array(draw(st.lists(SECONDS, min_size=stages - 1, max_size=stages - 1)))
    if schedule is Schedule.ZB_AUTO:
        limit, barrier = draw(st.integers(1, 2 * ranks)), draw(st.booleans())
        return automatic(ranks, microbatches, *times, sends, limit=limit, barrier=barrier), times, sends
    return order(schedule, ranks, chunks, microbatches, group), times, sends


ENDS = (lambda ranks: (0, ranks - 1), lambda ranks: (ranks, 2 * ranks - 1))
"""First and last stage of DualPipe's two directions."""


def naive(passes: Order, times: Floats, sends: Floats) -> list[tuple[float, float]]:
    """Start and end of every pass by looking, again and again, for a rank whose next pass or block has its input.

    Written apart from the engine: results by name, no indices computed beforehand.
    """
    kinds = [PassKind(kind) for kind in passes.kind.tolist()]
    cells = list(zip(passes.stage.tolist(), passes.microbatch.tolist(), strict=True))
    rank_of = dict(zip(passes.stage.tolist(), passes.rank.tolist(), strict=True))
    results: Results = {}
    found: list[tuple[float, float]] = [(0.0, 0.0)] * len(kinds)
    at, clock = passes.offsets[:-1].tolist(), [0.0] * passes.ranks
    while at != passes.offsets[1:].tolist():
        for rank in range(passes.ranks):
            block = [at[rank], at[rank] + 1][: 1 + int(passes.joined[at[rank] : at[rank] + 1].sum())]
            if at[rank] == passes.offsets[rank + 1]:
                continue
            inputs = [arrival(passes, kinds[index], *cells[index], results, rank_of, sends) for index in block]
            if None in inputs:
                continue
            now = max(clock[rank], *(come for come in inputs if come is not None))
            for index in block:
                f, b, w = times[:, cells[index][0]]
                begun, now = now, now + float([f, b + w, b, w][kinds[index]])
                found[index] = begun, now
            results.update({(result_of(kinds[index]), *cells[index]): now for index in block})
            clock[rank], at[rank] = now, at[rank] + len(block)
    return found


def result_of(kind: PassKind) -> str:
    return {PassKind.FORWARD: "activation", PassKind.WEIGHT_GRADIENT: "weight gradient"}.get(kind, "gradient")


def arrival(
    passes: Order, kind: PassKind, stage: int, microbatch: int, results: Results, rank_of: dict[int, int], sends: Floats
) -> float | None:
    """When the input of a pass is there; None while it is not made yet."""
    first, last = (0, passes.stages - 1) if passes.schedule.copies == 1 else ENDS[stage >= passes.ranks](passes.ranks)
    if kind is PassKind.FORWARD and stage == first:
        return 0.0
    if kind is PassKind.WEIGHT_GRADIENT:
        return results.get(("gradient", stage, microbatch))
    if kind is not PassKind.FORWARD and stage == last:
        return results.get(("activation", stage, microbatch))
    origin = stage - 1 if kind is PassKind.FORWARD else stage + 1
    made = results.get((result_of(kind), origin, microbatch))
    return made if made is None or rank_of[origin] == rank_of[stage] else made + float(sends[min(origin, stage)])


def run(pipeline: tuple[Order, Floats, Floats], **options: Any) -> Timeline:
    passes, times, sends = pipeline
    return simulate(passes, *times, sends, **options)


@given(pipelines())
@settings(max_examples=200, deadline=None)
def test_a_second_simulator_finds_the_same_times(pipeline: tuple[Order, Floats, Floats]) -> None:
    timeline = run(pipeline)
    assert list(zip(timeline.start.tolist(), timeline.end.tolist(), strict=True)) == naive(*pipeline)


@given(pipelines())
@settings(max_examples=100, deadline=None)
def test_every_microbatch_passes_every_stage_once_forward_and_back(pipeline: tuple[Order, Floats, Floats]) -> None:
    passes, _, _ = pipeline
    timeline = run(pipeline)
    length = passes.stages // passes.schedule.copies
    cells = length * passes.microbatches

    def by_cell(kinds: list[PassKind], values: Floats) -> Floats:
        chosen = np.isin(passes.kind, kinds)
        assert chosen.sum() == cells
        table = np.full((passes.microbatches, length), np.nan)
        table[passes.microbatch[chosen], passes.stage[chosen] % length] = values[chosen]
        assert not np.isnan(table).any()
        return table

    backward = [PassKind.BACKWARD, PassKind.INPUT_GRADIENT]
    ended, started = by_cell([PassKind.FORWARD], timeline.end), by_cell([PassKind.FORWARD], timeline.start)
    assert (started[:, 1:] >= ended[:, :-1]).all()
    back_started, back_ended = by_cell(backward, timeline.start), by_cell(backward, timeline.end)
    assert (back_started[:, -1] >= ended[:, -1]).all()
    assert (back_started[:, :-1] >= back_ended[:, 1:]).all()


@given(pipelines())
@settings(max_examples=100, deadline=None)
def test_no_rank_does_two_things_at_once_and_none_is_busy_beyond_the_makespan(pipeline: tuple[Order, Floats, Floats]) -> None:
    timeline = run(pipeline)
    same_rank = timeline.rank[1:] == timeline.rank[:-1]
    assert (timeline.start[1:] >= timeline.end[:-1])[same_rank].all()
    assert timeline.makespan >= busy_seconds(timeline).max()
    assert 0 <= bubble_fraction(timeline) < 1


@given(pipelines(), st.data())
@settings(max_examples=100, deadline=None)
def test_longer_passes_and_sends_never_shorten_the_step(pipeline: tuple[Order, Floats, Floats], data: st.DataObject) -> None:
    passes, times, sends = pipeline
    before = run(pipeline).makespan
    longer = times.copy()
    longer[data.draw(st.integers(0, 2)), data.draw(st.integers(0, passes.stages - 1))] += data.draw(SECONDS)
    assert run((passes, longer, sends)).makespan >= before
    assert run((passes, times, sends + data.draw(SECONDS))).makespan >= before
    assert run(pipeline, blocking_send=True).makespan >= before


@given(pipelines(), st.integers(-8, 8))
@settings(max_examples=50, deadline=None)
def test_time_has_no_scale(pipeline: tuple[Order, Floats, Floats], power: int) -> None:
    passes, times, sends = pipeline
    scaled = run((passes, times * 2.0**power, sends * 2.0**power))
    assert scaled.end.tolist() == (run(pipeline).end * 2.0**power).tolist()


@given(pipelines())
@settings(max_examples=100, deadline=None)
def test_memory_rises_from_zero_and_returns_to_zero(pipeline: tuple[Order, Floats, Floats]) -> None:
    passes, _, _ = pipeline
    assume(passes.schedule is not Schedule.ZB_AUTO)  # what it may hold is given: test_automatic
    change = np.where(passes.kind == PassKind.FORWARD, 1, np.where(passes.kind == PassKind.INPUT_GRADIENT, 0, -1))
    for rank, rows in enumerate(live_chunks(passes.schedule, passes.ranks, passes.chunks, passes.microbatches, passes.group)):
        mine = slice(passes.offsets[rank], passes.offsets[rank + 1])
        by_chunk = np.array([np.cumsum(np.where(passes.chunk[mine] == chunk, change[mine], 0)) for chunk in range(passes.chunks)])
        assert (by_chunk >= 0).all()
        assert (by_chunk[:, -1] == 0).all()
        for live in by_chunk.T:
            assert (rows >= live).all(axis=1).any()
        for row in rows:
            assert (row == by_chunk.T).all(axis=1).any()
            assert sum((other >= row).all() for other in rows) == 1


@given(pipelines(), st.data())
@settings(max_examples=100, deadline=None)
def test_activations_over_time_return_to_zero_and_peak_at_the_dearest_live_set(
    pipeline: tuple[Order, Floats, Floats], data: st.DataObject
) -> None:
    """However long the passes are, if none takes no time at all."""
    passes, times, sends = pipeline
    assume(passes.schedule is not Schedule.ZB_AUTO)
    kept = np.array(data.draw(st.lists(st.integers(0, 9), min_size=passes.stages, max_size=passes.stages)), dtype=float)
    kept = kept.reshape(passes.ranks, passes.chunks)
    curves = activation_curves(run((passes, times + 1, sends)), kept.tolist())
    sets = live_chunks(passes.schedule, passes.ranks, passes.chunks, passes.microbatches, passes.group)
    for curve, rows, each in zip(curves, sets, kept, strict=True):
        assert curve.nbytes[-1] == 0
        assert (np.diff(curve.seconds) >= 0).all()
        assert curve.peak == (rows * each).sum(axis=1).max()


def sizes(schedule: Schedule) -> list[tuple[int, int]]:
    chunks = [2] if schedule.ends_meet else [2, 3, 5] if schedule is Schedule.INTERLEAVED else [1]
    every = (2, 4, 6, 8, 12, 16) if schedule is Schedule.DUALPIPE else (1, 2, 3, 4, 5, 6, 7, 8, 12, 16)
    return [(ranks, each) for ranks in every for each in chunks]


@pytest.mark.parametrize("schedule", SATURATION)
@pytest.mark.parametrize("freed_by", [PassKind.WEIGHT_GRADIENT, PassKind.INPUT_GRADIENT])
def test_more_microbatches_than_saturate_change_no_live_set(schedule: Schedule, freed_by: PassKind) -> None:
    """Compared with every count up to one more pp, and with four times as many, none of them cut short."""
    for ranks, chunks in sizes(schedule):
        enough = SATURATION[schedule] * ranks
        every = {Schedule.INTERLEAVED: ranks, Schedule.DUALPIPE: 2}.get(schedule, 1)
        for more in {*range(every, ranks + 1, every * max(1, ranks // 3 // every)), 3 * enough}:
            far = _live(schedule, ranks, chunks, enough + more, None, freed_by)
            for cut, full in zip(live_chunks(schedule, ranks, chunks, enough + more, freed_by=freed_by), far, strict=True):
                assert cut.tolist() == full.tolist()


def test_live_sets_of_every_group_size_are_those_of_the_order() -> None:
    for ranks, chunks in itertools.product((1, 2, 3, 4, 6), (2, 3)):
        for group in {ranks, ranks + 1, 2 * ranks, 2 * ranks + 1}:
            for microbatches in range(ranks, 4 * group + ranks):
                if applicable(Schedule.INTERLEAVED, ranks, chunks, microbatches, group) is None:
                    cut = live_chunks(Schedule.INTERLEAVED, ranks, chunks, microbatches, group)
                    full = _live(Schedule.INTERLEAVED, ranks, chunks, microbatches, group, PassKind.WEIGHT_GRADIENT)
                    assert [rows.tolist() for rows in cut] == [rows.tolist() for rows in full]


def test_paired_passes_run_to_the_end_and_hold_one_chunk_more() -> None:
    """facts/pipeline.md, 2: one more forward warms up, with every group that Megatron takes."""
    for ranks, chunks in itertools.product((2, 3, 4, 8), (2, 3)):
        for microbatches in range(2 * ranks, 5 * ranks):
            for group in legal_groups(ranks, microbatches):
                passes = order(Schedule.INTERLEAVED, ranks, chunks, microbatches, group, paired=True)
                assert len(passes.run) == len(passes.kind)
                plain, paired = (
                    live_chunks(Schedule.INTERLEAVED, ranks, chunks, microbatches, group, paired=each) for each in (False, True)
                )
                full = _live(Schedule.INTERLEAVED, ranks, chunks, microbatches, group, PassKind.WEIGHT_GRADIENT, True)
                assert [rows.tolist() for rows in paired] == [rows.tolist() for rows in full]
                for before, after in zip(plain, paired, strict=True):
                    most = int(before.sum(axis=1).max())
                    assert int(after.sum(axis=1).max()) == min(most + 1, chunks * microbatches)


def test_recipes_that_differ_in_microbatches_share_their_live_sets() -> None:
    for schedule in SATURATION:
        chunks = 2 if schedule.ends_meet or schedule is Schedule.INTERLEAVED else 1
        assert live_chunks(schedule, 4, chunks, 64) is live_chunks(schedule, 4, chunks, 512)


def test_gpipe_holds_every_microbatch() -> None:
    for ranks, microbatches in ((1, 1), (4, 3), (4, 9)):
        passes = _live(Schedule.GPIPE, ranks, 1, microbatches, None, PassKind.WEIGHT_GRADIENT)
        closed = live_chunks(Schedule.GPIPE, ranks, 1, microbatches)
        assert [rows.tolist() for rows in passes] == [rows.tolist() for rows in closed]


@pytest.mark.parametrize("schedule", [Schedule.V_HALF, Schedule.V_MIN])
@pytest.mark.parametrize("ranks", [*range(1, 17), 24])
def test_a_settled_order_of_controllable_memory_is_the_full_one(schedule: Schedule, ranks: int) -> None:
    for microbatches in (4 * ranks + 1, 5 * ranks + 2, 7 * ranks):
        assert controllable(schedule, ranks, microbatches) == laid_out(schedule, ranks, microbatches)


def test_compiled_and_interpreted_give_the_same_bits(request: pytest.FixtureRequest) -> None:
    rng = np.random.default_rng(11)
    cases = []
    for schedule in set(EVERY) - {Schedule.ZB_AUTO}:
        chunks = 2 if schedule.ends_meet else 3 if schedule is Schedule.INTERLEAVED else 1
        times, sends = rng.random((3, 4 * chunks)), rng.random(4 * chunks - 1)
        cases.append((schedule, chunks, times, sends))

    def all_ends() -> list[list[float]]:
        return [
            [*passes.run.tolist(), *simulate(passes, *times, sends, **options).end.tolist()]
            for schedule, chunks, times, sends in cases
            for passes in [order(schedule, 4, chunks, 12)]
            for options in ({}, {"blocking_send": True}, {"overlap": 0.7})
        ]

    assert not COMPILED
    interpreted = all_ends()
    request.getfixturevalue("compiled")
    assert COMPILED
    assert all_ends() == interpreted
