"""Quantities as people read them. Inside everything is bytes, seconds and plain counts; this is the edge."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

KIB, MIB, GIB, TIB = 1024, 1024**2, 1024**3, 1024**4

UNKNOWN = "–"
"""Shown where there is no value."""

_BYTE_UNITS = ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"))
_SHORT_SECONDS = ((1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_LONG_SECONDS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))
_COUNT_UNITS = ((1e15, "P"), (1e12, "T"), (1e9, "B"), (1e6, "M"))

MINUTES_FROM = 120.0
"""Seconds from which a duration is given in minutes or more."""

GROUPED_BELOW = 1_000_000
"""Counts below this are written out, with separators."""


def bytes_text(nbytes: float) -> str:
    """Bytes in binary units: 253188702208 -> 235.8 GiB. TiB from 10 TiB on, so that memories of devices compare."""
    size = abs(nbytes)
    for unit, name in _BYTE_UNITS:
        if size >= (10 * unit if unit == TIB else unit):
            return f"{nbytes / unit:,.1f} {name}"
    return f"{nbytes:,.0f} B"


def gib_text(nbytes: float) -> str:
    """Bytes in GiB without the unit, for a column that names it: 253188702208 -> 235.80."""
    return f"{nbytes / GIB:,.2f}"


def seconds_text(seconds: float) -> str:
    """Seconds in the unit that fits: 1.4824 -> 1.482 s, 0.041 -> 41 ms, 1.2e-5 -> 12 µs, 7200 -> 2 h."""
    size = abs(seconds)
    if size >= MINUTES_FROM:
        unit, name = next((unit, name) for unit, name in _LONG_SECONDS if size >= unit)
        return f"{seconds / unit:.3g} {name}" if size / unit < 1000 else f"{seconds / unit:,.0f} {name}"
    if round_significant(size) >= 1:
        return f"{seconds:.4g} s"
    if size == 0:
        return "0 s"
    unit, name = next(((unit, name) for unit, name in _SHORT_SECONDS if round_significant(size / unit) >= 1), _SHORT_SECONDS[-1])
    return f"{round_significant(seconds / unit):g} {name}"


def round_significant(number: float, digits: int = 3) -> float:
    """Rounded to significant digits."""
    return float(f"{number:.{digits}g}")


def count_text(count: float) -> str:
    """Parameters and tokens: 140630071296 -> 140.6 B, 8030261248 -> 8.03 B, 32000 -> 32,000."""
    if abs(count) < GROUPED_BELOW:
        return f"{count:,.0f}"
    unit, name = next((unit, name) for unit, name in _COUNT_UNITS if abs(count) >= unit)
    return f"{round_significant(count / unit, 4):,g} {name}"


def number_text(number: float) -> str:
    """A plain number: separators and no decimals from 100 on, three significant digits below."""
    return f"{number:,.0f}" if abs(number) >= 100 else f"{round_significant(number):g}"


def rate_text(rate: float, unit: str = "tok/s/GPU") -> str:
    """Tokens per second: 4402.3 -> 4,402 tok/s/GPU; from a million on in M."""
    return f"{number_text(rate) if abs(rate) < GROUPED_BELOW else count_text(rate)} {unit}"


def tflops_text(tflops: float) -> str:
    """TFLOP/s per GPU: 612.44 -> 612.4 TFLOP/s."""
    return f"{tflops:,.1f} TFLOP/s"


def percent_text(fraction: float | None) -> str:
    """A fraction in percent: 0.4231 -> 42.3%; a dash where there is none."""
    return UNKNOWN if fraction is None or not isfinite(fraction) else f"{fraction:.1%}"


def table_text(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns, two blanks between: numbers to the right, words (and the first column) to the left.

    A header may have line breaks; it is set at the bottom.
    """
    heads = [cell.split("\n") for cell in header]
    height = max(len(head) for head in heads)
    titles = zip(*([""] * (height - len(head)) + head for head in heads), strict=True)
    lines = [*titles, *(tuple(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    right = [column > 0 and all(_is_number(row[column]) for row in rows) for column in range(len(header))]

    def aligned(line: Sequence[str]) -> str:
        cells = zip(line, widths, right, strict=True)
        return "  ".join(cell.rjust(width) if to_right else cell.ljust(width) for cell, width, to_right in cells)

    return "\n".join(aligned(line).rstrip() for line in lines)


def _is_number(cell: str) -> bool:
    return cell == UNKNOWN or cell.lstrip("-")[:1].isdigit()
