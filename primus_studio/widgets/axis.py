"""Round steps of an axis, and its labels in time."""

from __future__ import annotations

from math import ceil, floor, log10

ROUND_STEPS = (1.0, 2.0, 5.0, 10.0)
"""Steps within a decade."""


def round_step(span: float, most: int) -> float:
    """Smallest step of 1, 2 or 5 times a power of ten that cuts `span` into at most `most` parts. Both above 0."""
    coarse = span / most
    decade = 10.0 ** floor(log10(coarse))
    return next((step * decade for step in ROUND_STEPS if step * decade >= coarse * (1 - 1e-9)), 10 * decade)


def ticks(low: float, high: float, step: float) -> tuple[float, ...]:
    """Multiples of `step` from `low` to `high`, both included."""
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    return tuple(number * step for number in range(first, last + 1))


_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def time_labels(values: tuple[float, ...], step: float) -> tuple[str, ...]:
    """Labels of ticks in one unit, with the decimals that tell neighbors apart: 0 ms, 2.5 ms, 5 ms. `step` in seconds."""
    largest = max((abs(value) for value in values), default=step)
    unit, name = next(((unit, name) for unit, name in _UNITS if largest >= unit), _UNITS[-1])
    decimals = max(0, -floor(log10(step / unit) + 1e-9))
    return tuple(f"{value / unit:,.{decimals}f} {name}" for value in values)
