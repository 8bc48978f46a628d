"""Axes step in round numbers and label neighbors apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from primus_studio.widgets.axis import round_step, ticks, time_labels


@pytest.mark.parametrize(("span", "most", "step"), [(100, 5, 20), (1.0, 4, 0.5), (0.0314, 8, 0.005), (296.6, 6, 50), (10, 10, 1)])
def test_steps_are_one_two_or_five_times_a_power_of_ten(span: float, most: int, step: float) -> None:
    assert round_step(span, most) == pytest.approx(step)


@given(st.floats(1e-9, 1e9), st.integers(1, 50))
def test_never_more_parts_than_asked_for(span: float, most: int) -> None:
    assert span / round_step(span, most) <= most * (1 + 1e-6)


def test_ticks_include_both_ends() -> None:
    assert ticks(0, 1, 0.25) == (0, 0.25, 0.5, 0.75, 1.0)
    assert ticks(0.1, 0.9, 0.5) == (0.5,)


@given(st.floats(0, 100), st.floats(1e-7, 10))
def test_labels_of_neighboring_ticks_differ(begin: float, span: float) -> None:
    step = round_step(span, 8)
    values = ticks(begin, begin + span, step)
    labels = time_labels(values, step)
    assert len(set(labels)) == len(values)


def test_labels_share_one_unit() -> None:
    assert time_labels((0.0, 0.0005, 0.001), 0.0005) == ("0.0 ms", "0.5 ms", "1.0 ms")
    assert time_labels((0.0, 0.5, 1.0), 0.5) == ("0.0 s", "0.5 s", "1.0 s")
