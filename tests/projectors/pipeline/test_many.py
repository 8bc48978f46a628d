"""Many candidates at once: each as if it were simulated alone."""

from __future__ import annotations

import numpy as np
import pytest

from projectors.inputs.recipe import Schedule
from projectors.pipeline import assemble, order, simulate, simulate_many, stage_span
from projectors.pipeline.kernels import COMPILED
from projectors.pipeline.loop_schedules import interleaved
from projectors.pipeline.simulate import TOGETHER, PipelineDeadlock

SCHEDULES = (Schedule.GPIPE, Schedule.ONE_F_ONE_B, Schedule.INTERLEAVED, Schedule.ZB_H2, Schedule.V_MIN, Schedule.DUALPIPE,
             Schedule.DUALPIPE_V)


def check_every_candidate() -> None:
    rng = np.random.default_rng(2)
    number = TOGETHER + 3
    for schedule in SCHEDULES:
        chunks = 2 if schedule.ends_meet or schedule is Schedule.INTERLEAVED else 1
        stages, passes = 4 * chunks, order(schedule, 4, chunks, 12)
        times, send = rng.random((3, stages, number)), rng.random((stages - 1, number)) / 4
        for overlap, barrier in ((1.0, True), (0.7, True), (0.7, False)):
            found = simulate_many(passes, *times, send, overlap=overlap, barrier=barrier)
            for each in range(number):
                alone = simulate(passes, *times[:, :, each], send[:, each], overlap=overlap)
                assert found[each] == pytest.approx(alone.makespan if barrier else stage_span(alone), rel=1e-12)


def test_each_takes_as_long_as_alone() -> None:
    check_every_candidate()


@pytest.mark.usefixtures("compiled")
def test_each_takes_as_long_as_alone_in_machine_code() -> None:
    assert COMPILED
    check_every_candidate()


def test_makespans_are_the_same_to_the_last_bit() -> None:
    rng = np.random.default_rng(4)
    passes, times, send = order(Schedule.ZBV, 4, 2, 9), rng.random((3, 8, 5)), rng.random((7, 5))
    alone = [simulate(passes, *times[:, :, each], send[:, each]).makespan for each in range(5)]
    assert simulate_many(passes, *times, send).tolist() == alone


def test_a_deadlock_says_who_waits() -> None:
    passes = assemble(Schedule.INTERLEAVED, 8, 2, 10, [interleaved(rank, 8, 2, 10, 8) for rank in range(8)])
    with pytest.raises(PipelineDeadlock, match="waits for"):
        simulate_many(passes, *np.ones((3, 16, 2)), np.zeros((15, 2)))


def test_times_must_be_of_the_same_pipeline() -> None:
    with pytest.raises(ValueError, match="4 virtual stages, but times of 3"):
        simulate_many(order(Schedule.ONE_F_ONE_B, 4, 1, 4), *np.ones((3, 3, 2)), np.zeros((2, 2)))
