"""Faults that the reference tool is known for, each with its right value: facts/primus_projection.md, section 8, 22 to 26."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from projectors.inputs.recipe import Schedule
from projectors.pipeline import Timeline, busy_seconds, order, peak_in_flight, placement, simulate, stage_span

Uniform = Callable[..., Timeline]


def test_22_a_step_lasts_until_the_last_rank_is_done(uniform: Uniform) -> None:
    """The span of a rank is no step time: a barrier follows. ZB-H2 at F = B = W gains nothing over ZB-H1."""
    h1, h2 = (uniform(schedule, 8, 1, 32, (10, 10, 10)) for schedule in (Schedule.ZB_H1, Schedule.ZB_H2))
    assert (stage_span(h2), h2.makespan, h1.makespan) == (960, 1030, 1030)


def test_23_interleaved_with_as_many_microbatches_as_ranks(uniform: Uniform) -> None:
    """No deadlock and no makespan of 0: p4 m4 v2 takes 198."""
    assert uniform(Schedule.INTERLEAVED, 4, 2, 4, (12, 12, 12)).makespan == 198


@pytest.mark.parametrize(("ranks", "microbatches", "makespan"), [(8, 4, 33), (4, 2, 15), (16, 1, 48)])
def test_23_1f1b_with_fewer_microbatches_than_ranks(uniform: Uniform, ranks: int, microbatches: int, makespan: float) -> None:
    """33 units at p8 m4, not 27; 15 at p4 m2, not 13."""
    assert uniform(Schedule.ONE_F_ONE_B, ranks, 1, microbatches, (1, 1, 1)).makespan == makespan


def test_24_zbv_runs_the_microbatches_there_are(uniform: Uniform) -> None:
    """p4 m3 takes 156, not the 270 of the seven microbatches that fill the pattern."""
    timeline = uniform(Schedule.ZBV, 4, 2, 3, (12, 12, 12))
    assert timeline.makespan == 156
    assert timeline.microbatch.max() == 2


@pytest.mark.parametrize("schedule", [Schedule.ZBV, Schedule.V_HALF, Schedule.V_MIN, Schedule.DUALPIPE_V])
def test_25_embedding_and_loss_of_a_v_are_on_rank_0(schedule: Schedule) -> None:
    """Five more seconds for each pass of the last stage burden rank 0, and no other."""
    rank_of = placement(schedule, 4, 2)
    assert rank_of.tolist() == [0, 1, 2, 3, 3, 2, 1, 0]
    times = np.full(8, 6.0)
    with_loss = times + 5.0 * (np.arange(8) == 7)
    busy = busy_seconds(simulate(order(schedule, 4, 2, 16), with_loss, with_loss, with_loss, np.zeros(7)))
    assert busy.tolist() == [16 * (36 + 15), *[16 * 36] * 3]


def test_25_where_the_loss_is_matters() -> None:
    """p4 m16, F = B = W = 20, +5 on each pass of the loss: ZBV 1215 and V-Half 1225; with the loss on the second chunk of the
    last rank, where the reference puts it, 1230 and 1250."""
    for schedule, on_rank_0, on_last_rank in ((Schedule.ZBV, 1215, 1230), (Schedule.V_HALF, 1225, 1250)):
        for stage, expected in ((7, on_rank_0), (4, on_last_rank)):
            times = 10.0 + 5.0 * (np.arange(8) == stage)
            assert simulate(order(schedule, 4, 2, 16), times, times, times, np.zeros(7)).makespan == expected


def test_26_sends_are_not_free_and_not_all_exposed(uniform: Uniform) -> None:
    """p8 m32: 68 c, neither 0 nor the fallback's 2(p - 1) m c = 448 c."""
    free, sent = (uniform(Schedule.ONE_F_ONE_B, 8, 1, 32, (12, 12, 12), c).makespan for c in (0.0, 1.0))
    assert sent - free == 68


def test_26_an_interleaved_send_leaves_when_its_forward_ends() -> None:
    """On uneven stages the next stage starts then, not after the backward that is paired with it."""
    rng = np.random.default_rng(5)
    forward, backward, weight = rng.integers(1, 9, (3, 8)).astype(float)
    passes = order(Schedule.INTERLEAVED, 4, 2, 8)
    timeline = simulate(passes, forward, backward, weight, np.zeros(7))
    waits = passes.need < len(passes.kind)
    ready = np.zeros(len(passes.kind))
    ready[waits] = timeline.end[passes.need[waits]]
    first = np.append(True, passes.rank[1:] != passes.rank[:-1])
    free = np.where(first, 0.0, np.append(0.0, timeline.end[:-1]))
    assert timeline.start.tolist() == np.maximum(ready, free).tolist()


def test_v_schedules_hold_less_than_the_factor_p_that_the_reference_charges() -> None:
    """11.5 for every V schedule at p8 v2 against 8, 5 and 4 microbatches."""
    peaks = [peak_in_flight(schedule, 8, 2, 32).max() for schedule in (Schedule.ZBV, Schedule.V_HALF, Schedule.V_MIN)]
    assert peaks == [8, 5, 4]
    assert peak_in_flight(Schedule.INTERLEAVED, 8, 2, 32)[0] == 11.5
