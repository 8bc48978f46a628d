"""Crowded timelines tell the truth: a pixel's color is the time-weighted mean of what runs in it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from primus_studio.widgets.timeline_lanes import color_sums, lanes_of, pixel_colors
from primus_studio.widgets.timeline_window import History, TimeWindow, kept, panned, whole, zoomed
from projectors.inputs.recipe import Schedule
from projectors.pipeline.timeline import Timeline, bubble_fraction

BLACK = np.zeros(3)


def one_rank(edges: list[float], kinds: list[int]) -> Timeline:
    """A rank that works between edges 0-1, 2-3, 4-5, ..."""
    start, end = np.array(edges[::2]), np.array(edges[1::2])
    none = np.zeros(len(start), np.int32)
    return Timeline(
        Schedule.ONE_F_ONE_B,
        1,
        1,
        len(start),
        none,
        none,
        np.arange(len(start), dtype=np.int32),
        np.array(kinds, np.uint8),
        start,
        end,
    )


def brute_force(timeline: Timeline, palette: np.ndarray, begin: float, end: float) -> np.ndarray:
    """Mean color over begin to end by summing overlaps."""
    overlap = np.clip(np.minimum(timeline.end, end) - np.maximum(timeline.start, begin), 0, None)
    return (overlap[:, None] * palette[timeline.kind]).sum(axis=0) / (end - begin)


@given(
    st.lists(st.floats(0.01, 3), min_size=2, max_size=60),
    st.floats(0, 20), st.floats(0.05, 30), st.integers(1, 40),
)  # fmt: skip
def test_pixels_are_the_exact_mean_of_what_they_cover(steps: list[float], begin: float, span: float, width: int) -> None:
    edges = list(np.cumsum(steps[: len(steps) // 2 * 2]))
    timeline = one_rank(edges, [index % 4 for index in range(len(edges) // 2)])
    palette = np.array([[250.0, 0, 0], [0, 250, 0], [0, 0, 250], [120, 120, 120]])
    lanes = lanes_of(timeline)
    at = np.linspace(begin, begin + span, width + 1)
    seen = pixel_colors(lanes, color_sums(lanes, palette), 0, at, BLACK)
    for pixel in range(width):
        assert seen[pixel] == pytest.approx(brute_force(timeline, palette, at[pixel], at[pixel + 1]), abs=1)


def test_a_bubble_of_a_fifth_of_a_pixel_still_darkens_its_pixel() -> None:
    timeline = one_rank([0, 4.0, 4.2, 10.0], [0, 0])
    lanes = lanes_of(timeline)
    seen = pixel_colors(lanes, color_sums(lanes, np.full((4, 3), 200.0)), 0, np.arange(11.0), BLACK)
    assert seen[4, 0] == 160
    assert all(seen[pixel, 0] == 200 for pixel in range(10) if pixel != 4)


def test_idle_time_takes_the_grounds_color() -> None:
    lanes = lanes_of(one_rank([2, 3], [0]))
    ground = np.array([10.0, 20, 30])
    seen = pixel_colors(lanes, color_sums(lanes, np.full((4, 3), 200.0)), 0, np.array([0.0, 1, 2, 3]), ground)
    assert seen.tolist() == [[10, 20, 30], [10, 20, 30], [200, 200, 200]]


def test_the_idle_share_of_lanes_averages_to_the_pipelines_bubble(timeline: Timeline) -> None:
    assert lanes_of(timeline).idle.mean() == pytest.approx(bubble_fraction(timeline))


def test_hits_and_gaps_in_a_hand_made_pipeline(hand_made: Timeline) -> None:
    lanes = lanes_of(hand_made)
    assert lanes.event_at(0, 0.5) == 0
    assert lanes.event_at(0, 3.0) is None
    assert lanes.gap_at(0, 3.0) == (2.0, 4.0)
    assert lanes.gap_at(1, 0.5) == (0.0, 1.0)
    assert lanes.gap_at(1, 8.0) == (7.0, 9.0)
    assert lanes.gap_at(0, 9.5) is None, "after the step there is no bubble"
    assert lanes.idle.tolist() == pytest.approx([1 - 6 / 9, 1 - 6 / 9])


def test_what_is_in_view_is_a_slice_of_the_lane(hand_made: Timeline) -> None:
    lanes = lanes_of(hand_made)
    assert lanes.visible(0, 1.5, 4.5) == slice(1, 3)
    assert lanes.visible(1, 0, 0.5) == slice(4, 4)
    assert lanes.visible(1, 0, 100) == slice(4, 8)


def test_a_microbatch_flows_forward_through_the_ranks_and_back(hand_made: Timeline) -> None:
    lanes = lanes_of(hand_made)
    flow = lanes.flow(0)
    assert [(int(hand_made.rank[event]), int(hand_made.kind[event])) for event in flow] == [(0, 0), (1, 0), (1, 1), (0, 1)]


def test_zoom_keeps_the_time_under_the_cursor_in_its_place() -> None:
    window = zoomed(TimeWindow(0, 10), 2.0, at=7.5, makespan=10)
    assert window.span == pytest.approx(5)
    assert (7.5 - window.begin) / window.span == pytest.approx(0.75)


@given(st.floats(1e-4, 1e4), st.lists(st.tuples(st.floats(0.01, 100), st.floats(0, 1), st.floats(-3, 3)), max_size=30))
def test_no_gesture_leaves_the_step(makespan: float, gestures: list[tuple[float, float, float]]) -> None:
    most = whole(makespan)
    window = most
    for factor, share, pan in gestures:
        window = panned(zoomed(window, factor, window.begin + share * window.span, makespan), pan, makespan)
        assert most.begin - 1e-9 * makespan <= window.begin < window.end <= most.end + 1e-9 * makespan


def test_zooming_out_ends_at_the_whole_step() -> None:
    assert kept(TimeWindow(-50, 500), 10) == whole(10)
    window = zoomed(TimeWindow(4, 5), 1e-6, at=4.5, makespan=10)
    assert (window.begin, window.end) == pytest.approx((whole(10).begin, whole(10).end))


def test_history_goes_back_and_forward_and_forgets_the_future_on_a_new_step() -> None:
    history = History()
    first, second, third = (TimeWindow(0, end) for end in (1.0, 2.0, 3.0))
    history.leave(first)
    history.leave(second)
    assert history.back(third) == second
    assert history.back(second) == first
    assert history.back(first) is None
    assert history.forward(first) == second
    history.leave(second)
    assert history.forward(third) is None
