"""What the literature knows in closed form. Formulas, their sources and ranges: facts/pipeline.md, section 2.

p ranks, m microbatches, v chunks per rank; F, B, W seconds of forward, input and weight gradient on a whole rank, f, b, w on one
chunk; c seconds of a send.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import ceil

import numpy as np
import pytest

from projectors.inputs.recipe import Schedule
from projectors.pipeline import (
    Timeline,
    assemble,
    bubble_fraction,
    busy_seconds,
    live_chunks,
    order,
    peak_in_flight,
    simulate,
    stage_span,
)
from projectors.pipeline.loop_schedules import interleaved
from projectors.pipeline.timeline import PassKind

Uniform = Callable[..., Timeline]

EXACT = 1e-9
SIZES = [(p, m) for p in (1, 2, 4, 7, 8) for m in (1, 2, 3, 8, 13, 32)]
TIMES = [(12.0, 12.0, 12.0), (10.0, 12.0, 8.0), (8.0, 10.0, 12.0), (7.0, 3.0, 5.0), (4.0, 9.0, 1.0)]


@pytest.mark.parametrize(("p", "m"), SIZES)
def test_gpipe_takes_m_plus_p_minus_1_microbatches_and_exposes_two_sends_per_boundary(uniform: Uniform, p: int, m: int) -> None:
    for times, c in product(TIMES, (0.0, 0.5, 20.0)):
        makespan = uniform(Schedule.GPIPE, p, 1, m, times, c).makespan
        assert makespan == pytest.approx((m + p - 1) * sum(times) + 2 * (p - 1) * c, rel=EXACT)


@pytest.mark.parametrize(("p", "m"), SIZES)
def test_bubble_of_1f1b_is_p_minus_1_over_m_plus_p_minus_1(uniform: Uniform, p: int, m: int) -> None:
    """Also with fewer microbatches than ranks."""
    for times in TIMES:
        timeline = uniform(Schedule.ONE_F_ONE_B, p, 1, m, times)
        assert timeline.makespan == pytest.approx((m + p - 1) * sum(times), rel=EXACT)
        assert bubble_fraction(timeline) == pytest.approx((p - 1) / (m + p - 1), abs=EXACT)


@pytest.mark.parametrize(("p", "m"), SIZES)
def test_1f1b_exposes_sends_in_every_microbatch(uniform: Uniform, p: int, m: int) -> None:
    """N T + 2c(N - ceil(N / p)) with N = m + p - 1."""
    for times, c in product(TIMES, (0.125, 1.0, 30.0)):
        passes = m + p - 1
        expected = passes * sum(times) + 2 * c * (passes - ceil(passes / p))
        assert uniform(Schedule.ONE_F_ONE_B, p, 1, m, times, c).makespan == pytest.approx(expected, rel=EXACT)


def test_sends_that_block_the_sender_cost_more(uniform: Uniform) -> None:
    """p = 8, m = 32, T = 36, c = 1: 1472 when sends overlap, 1479 when they block."""
    sizes = Schedule.ONE_F_ONE_B, 8, 1, 32, (12, 12, 12), 1.0
    assert uniform(*sizes).makespan == 1472
    assert uniform(*sizes, blocking_send=True).makespan == 1479


@pytest.mark.parametrize(("p", "v"), list(product((1, 2, 3, 4, 8), (2, 3, 4))))
def test_bubble_of_interleaved_1f1b_is_v_times_smaller(uniform: Uniform, p: int, v: int) -> None:
    """(p - 1) / (m v + p - 1), from m = p on."""
    for groups, times in product((1, 2, 3, 8), TIMES):
        m = groups * p
        timeline = uniform(Schedule.INTERLEAVED, p, v, m, times)
        assert timeline.makespan == pytest.approx((m * v + p - 1) * sum(times) / v, rel=EXACT)
        assert bubble_fraction(timeline) == pytest.approx((p - 1) / (m * v + p - 1), abs=EXACT)


def test_larger_groups_trade_memory_for_slack_in_sends() -> None:
    """p4 m16 v2, f = b = w = 1, c = 1: groups of 4, 8, 16 microbatches take 119, 111, 111; 11, 15, 23 chunks live on rank 0."""
    for group, makespan, peak in ((4, 119, 11), (8, 111, 15), (16, 111, 23)):
        passes = assemble(Schedule.INTERLEAVED, 4, 2, 16, [interleaved(rank, 4, 2, 16, group) for rank in range(4)])
        assert simulate(passes, np.ones(8), np.ones(8), np.ones(8), np.ones(7)).makespan == makespan
        live = np.cumsum(np.where(passes.kind[: passes.offsets[1]] == PassKind.FORWARD, 1, -1))
        assert live.max() == peak


@pytest.mark.parametrize(("p", "times"), list(product((2, 4, 8), TIMES)))
def test_bubble_of_zb_h1(uniform: Uniform, p: int, times: tuple[float, float, float]) -> None:
    """(p - 1) max(B, F + B - W) without a barrier, (p - 1) max(F, B, F + B - W) with one; m = 6p."""
    f, b, w = times
    m = 6 * p
    timeline = uniform(Schedule.ZB_H1, p, 1, m, times)
    assert stage_span(timeline) - m * sum(times) == pytest.approx((p - 1) * max(b, f + b - w), abs=1e-6)
    assert timeline.makespan - m * sum(times) == pytest.approx((p - 1) * max(f, b, f + b - w), abs=1e-6)


@pytest.mark.parametrize(("p", "times"), list(product((2, 4, 8), TIMES)))
def test_bubble_of_zb_h2(uniform: Uniform, p: int, times: tuple[float, float, float]) -> None:
    """(p - 1) max(0, B - F, F + B - 2W) without a barrier, (p - 1) max(F, B - F, F + B - 2W) with one; m = 6p."""
    f, b, w = times
    m = 6 * p
    timeline = uniform(Schedule.ZB_H2, p, 1, m, times)
    assert stage_span(timeline) - m * sum(times) == pytest.approx((p - 1) * max(0, b - f, f + b - 2 * w), abs=1e-6)
    assert timeline.makespan - m * sum(times) == pytest.approx((p - 1) * max(f, b - f, f + b - 2 * w), abs=1e-6)


def test_zb_h1_at_equal_times_is_exact_not_the_blogs_approximation(uniform: Uniform) -> None:
    """(p - 1) / (3m + p - 1): 6.80 % at p8 m32, where (p - 1) / (3(m + p - 1)) says 5.98 %."""
    assert bubble_fraction(uniform(Schedule.ZB_H1, 8, 1, 32, (1, 1, 1))) == pytest.approx(7 / 103)


@pytest.mark.parametrize("p", [2, 4, 8, 16])
def test_bubble_of_zbv_where_b_f_w_fall(uniform: Uniform, p: int) -> None:
    """b >= f >= w: 2(p - 1)(b - w) without a barrier, (p - 1) max(b, 2(b - w)) with one; m = 4p."""
    m = 4 * p
    for f, b, w in ((6, 6, 6), (5, 6, 4), (3, 5, 1), (4, 4, 2), (2, 7, 2)):
        timeline = uniform(Schedule.ZBV, p, 2, m, (2 * f, 2 * b, 2 * w))
        work = 2 * m * (f + b + w)
        assert stage_span(timeline) - work == pytest.approx(2 * (p - 1) * (b - w))
        assert timeline.makespan - work == pytest.approx((p - 1) * max(b, 2 * (b - w)))


@pytest.mark.parametrize(
    ("schedule", "slots"),
    [(Schedule.V_HALF, {4: 5, 6: 11, 8: 17, 12: 29, 16: 41}), (Schedule.V_MIN, {4: 11, 6: 17, 8: 26, 12: 41, 16: 59})],
)
def test_bubble_of_controllable_memory_at_equal_times_is_independent_of_m(
    one_slot: Uniform, schedule: Schedule, slots: dict[int, int]
) -> None:
    """Slots of one chunk's pass; within one slot between implementations."""
    for p, bubble in slots.items():
        for m in (4 * p, 8 * p):
            assert one_slot(schedule, p, 2, m).makespan - 6 * m == pytest.approx(bubble, abs=1)


@pytest.mark.parametrize("p", [1, 2, 4, 8])
def test_bubble_of_dualpipe_v_at_equal_times(one_slot: Uniform, p: int) -> None:
    """(p - 1)(FB + B_full - 3W) in chunk times: FB = 3, B_full = 2, W = 1 without overlap."""
    for m in (2 * p, 4 * p, 4 * p + 1):
        assert one_slot(Schedule.DUALPIPE_V, p, 2, m).makespan == 6 * m + (p - 1) * (3 + 2 - 3)


@pytest.mark.parametrize("p", [2, 4, 6, 8, 12])
@pytest.mark.parametrize("overlap", [1.0, 0.8])
def test_bubble_of_dualpipe_at_equal_times(p: int, overlap: float) -> None:
    """Idle (p/2 - 1)(FB + B - 3W) on the worst rank with F = B = W, FB the overlapped block (DeepSeek-V3, table 2); every rank
    holds p + 1 chunks (a chunk is 1 / p of the model)."""
    for m in (2 * p, 2 * p + 6, 6 * p):
        passes = order(Schedule.DUALPIPE, p, 2, m)
        ones = np.ones(2 * p)
        timeline = simulate(passes, ones, ones, ones, np.zeros(2 * p - 1), overlap=overlap)
        idle = timeline.makespan - busy_seconds(timeline).min()
        assert idle == pytest.approx((p / 2 - 1) * (3 * overlap + 2 - 3), abs=EXACT)
        assert (peak_in_flight(Schedule.DUALPIPE, p, 2, m) * 2).tolist() == [p + 1] * p


def test_dualpipe_v_pays_only_when_its_blocks_overlap(uniform: Uniform) -> None:
    """At F = B = W, p4 m8: 324 against ZBV's 306; the other way round once a block takes 3/4 of its parts."""
    zbv, dual = uniform(Schedule.ZBV, 4, 2, 8, (12, 12, 12)), uniform(Schedule.DUALPIPE_V, 4, 2, 8, (12, 12, 12))
    overlapped = uniform(Schedule.DUALPIPE_V, 4, 2, 8, (12, 12, 12), overlap=0.75)
    assert (zbv.makespan, dual.makespan) == (306, 324)
    assert overlapped.makespan < zbv.makespan
    assert busy_seconds(overlapped).max() < busy_seconds(dual).min()


@pytest.mark.parametrize(("p", "m"), SIZES)
def test_activations_in_flight_of_schedules_with_one_chunk(p: int, m: int) -> None:
    """GPipe m; 1F1B min(p - r, m), so p only on rank 0; ZB-H1 p and ZB-H2 2p - 1 on every rank."""
    assert peak_in_flight(Schedule.GPIPE, p, 1, m).tolist() == [m] * p
    assert peak_in_flight(Schedule.ONE_F_ONE_B, p, 1, m).tolist() == [min(p - rank, m) for rank in range(p)]
    assert peak_in_flight(Schedule.ZB_H1, p, 1, m).tolist() == [min(p, m)] * p
    assert peak_in_flight(Schedule.ZB_H2, p, 1, m).tolist() == [min(2 * p - 1, m)] * p


def test_zb_h1_frees_as_1f1b_does_where_input_gradients_free_activations() -> None:
    sets = live_chunks(Schedule.ZB_H1, 8, 1, 32, freed_by=PassKind.INPUT_GRADIENT)
    assert [int(rows.max()) for rows in sets] == [8 - rank for rank in range(8)]


@pytest.mark.parametrize(("p", "v"), list(product((2, 3, 4, 8), (2, 3, 4))))
def test_activations_in_flight_of_interleaved_1f1b(p: int, v: int) -> None:
    """min(2(p - 1 - r) + (v - 1)p + 1, m v) chunks; on rank 0 p(1 + (p - 1) / (p v)), arXiv:2205.05198, section 4.2.3."""
    for m in (p, 2 * p, 8 * p):
        chunks = [min(2 * (p - 1 - rank) + (v - 1) * p + 1, m * v) for rank in range(p)]
        assert (peak_in_flight(Schedule.INTERLEAVED, p, v, m) * v).tolist() == pytest.approx(chunks)
    assert peak_in_flight(Schedule.INTERLEAVED, p, v, 8 * p)[0] == pytest.approx(p * (1 + (p - 1) / (p * v)))


@pytest.mark.parametrize("p", range(2, 17))
def test_activations_in_flight_of_v_schedules(p: int) -> None:
    """ZBV p, V-Half floor((p + 2) / 2), V-Min floor((p + 4) / 3), DualPipeV p + 1/2 microbatches, on the worst rank."""
    peaks = {
        schedule: peak_in_flight(schedule, p, 2, 6 * p)
        for schedule in (Schedule.ZBV, Schedule.V_HALF, Schedule.V_MIN, Schedule.DUALPIPE_V)
    }
    assert peaks[Schedule.ZBV].tolist() == [p] * p
    assert peaks[Schedule.V_HALF].max() == (p + 2) // 2
    assert peaks[Schedule.V_MIN].max() == (p + 4) // 3
    assert peaks[Schedule.DUALPIPE_V].tolist() == [p + 0.5] * p
