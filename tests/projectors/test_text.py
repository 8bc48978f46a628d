"""Quantities as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projectors.text import (
    GIB,
    TIB,
    bytes_text,
    count_text,
    gib_text,
    number_text,
    percent_text,
    rate_text,
    seconds_text,
    table_text,
    tflops_text,
)


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"), (1023, "1,023 B"), (1024, "1.0 KiB"), (4 * 1024**2, "4.0 MiB"), (288 * GIB, "288.0 GiB"),
        (2 * TIB, "2,048.0 GiB"), (20 * TIB, "20.0 TiB"), (-3 * GIB, "-3.0 GiB"),
    ],
)
def test_bytes_are_binary(nbytes: int, text: str) -> None:
    assert bytes_text(nbytes) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1.4824, "1.482 s"), (14.824, "14.82 s"), (0.041, "41 ms"), (0.0412, "41.2 ms"), (1.2e-5, "12 µs"),
        (3e-9, "3 ns"), (0.0, "0 s"), (0.9999, "0.9999 s"), (0.99999999, "1 s"), (0.9994, "999 ms"),
        (150.0, "2.5 min"), (7200.0, "2 h"), (86_400.0 * 90, "90 d"), (1e-12, "0.001 ns"),
    ],
)
def test_seconds_take_the_unit_that_fits(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (140_630_071_296, "140.6 B"), (8_030_261_248, "8.03 B"), (32_000, "32,000"), (0, "0"), (7_200_000, "7.2 M"),
        (1.026e12, "1.026 T"),
    ],
)
def test_counts_of_parameters_are_short(count: float, text: str) -> None:
    assert count_text(count) == text


def test_rates_and_shares() -> None:
    assert rate_text(4402.3) == "4,402 tok/s/GPU"
    assert rate_text(2_500_000, "tok/s") == "2.5 M tok/s"
    assert tflops_text(612.44) == "612.4 TFLOP/s"
    assert percent_text(0.4231) == "42.3%"
    assert percent_text(None) == "–"
    assert gib_text(1.5 * GIB) == "1.50"
    assert number_text(8192) == "8,192"


def test_tables_put_numbers_to_the_right_and_words_to_the_left() -> None:
    assert table_text(("name", "size\nGiB", "kind"), [("a", "1", "x"), ("bb", "20", "yy")]) == (
        "      size\nname   GiB  kind\na        1  x\nbb      20  yy"
    )


@given(st.floats(1e-9, 1e9))
def test_seconds_keep_three_digits(seconds: float) -> None:
    number, unit = seconds_text(seconds).replace(",", "").split()
    factor = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}[unit]
    assert float(number) * factor == pytest.approx(seconds, rel=5.1e-3)
