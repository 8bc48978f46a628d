"""Medians without interruptions, and the line through a sweep."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from projectors.benchmark.sweeps import fitted
from projectors.benchmark.timing import sample_of


def test_interruptions_are_left_out_and_counted() -> None:
    sample = sample_of([1.0, 1.01, 0.99, 1.0, 1.02, 5.0, 9.0])
    assert sample.seconds == pytest.approx(1.0)
    assert (sample.count, sample.outliers) == (5, 2)
    assert sample.spread < 0.02


def test_a_wide_spread_is_no_interruption() -> None:
    sample = sample_of([1.0, 1.4, 0.7, 1.2, 0.9])
    assert (sample.count, sample.outliers) == (5, 0)
    assert sample.spread == pytest.approx((1.2 - 0.9) / 2 / 1.0)


def test_latency_and_bandwidth_are_found_in_noise() -> None:
    sizes = [1 << exponent for exponent in range(10, 31, 2)]
    seconds = [(20e-6 + size / 50e9) * (1.05 if index % 2 else 0.95) for index, size in enumerate(sizes)]
    latency, bandwidth = fitted(sizes, seconds)
    assert latency == pytest.approx(20e-6, rel=0.1)
    assert bandwidth == pytest.approx(50e9, rel=0.1)


def test_a_line_never_falls_below_zero() -> None:
    latency, bandwidth = fitted([1 << 20, 1 << 22], [1e-3, 5e-3])  # steeper than a line through zero
    assert latency == 0 and bandwidth > 0
    latency, bandwidth = fitted([1 << 10, 1 << 12], [2e-5, 1e-5])
    assert latency > 0 and bandwidth > 0
