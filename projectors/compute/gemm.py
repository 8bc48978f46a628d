"""Seconds of a matrix product: output tiles in waves over the compute units, or its HBM traffic, whichever takes longer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from projectors.columns import Quantity, at_least, at_most, ceil_div
from projectors.inputs.hardware import HardwareProfile

TILES = ((256, 256), (256, 128), (128, 256), (128, 128), (256, 64), (64, 256), (128, 64), (64, 128), (64, 64))
"""Output tiles of library GEMMs, rows by columns (NVIDIA, Matrix Multiplication Background User's Guide, "Tile
quantization"; hipBLASLt's macro tiles reach 256 by 256). A device uses those no larger than its `gemm_tile`."""

OPERAND_TRAFFIC = 28.0
"""Slow-down of a tile per element loaded for each product: a tile of R by C loads (R + C) / (R C) elements per product, and
smaller tiles reuse less. 128 by 128 then runs at 0.90 and 64 by 64 at 0.65 of 128 by 256 (the guide's Figure "efficiency of
tiles" shows the same order; assumed between)."""

SPLIT_DEPTH = 512
"""Least depth of one part when the inner dimension is split over idle compute units (split-K), elements."""

PARTIAL_BYTES = 8
"""Bytes to write and read one fp32 partial sum of a split product."""


@dataclass(frozen=True, slots=True)
class MatrixUnits:
    """What a GEMM needs to know of a device and its format."""

    flops_per_s: float           # of a large GEMM on the whole device
    bytes_per_s: float           # streaming
    compute_units: int
    tile: tuple[int, int]        # largest


@lru_cache(maxsize=64)
def tiles_of(largest: tuple[int, int]) -> tuple[tuple[int, int, float], ...]:
    """(rows, columns, speed over the largest tile) of every tile that fits into the largest, either way round."""
    long, short = max(largest), min(largest)
    best = (long + short) / (long * short)
    fitting = [(rows, cols) for rows, cols in TILES if max(rows, cols) <= long and min(rows, cols) <= short]
    return tuple(
        (rows, cols, 1 / (1 + OPERAND_TRAFFIC * max((rows + cols) / (rows * cols) - best, 0.0)))
        for rows, cols in fitting or [(long, short)]
    )


def matrix_units(hardware: HardwareProfile, flops_per_s: float, bytes_per_s: float) -> MatrixUnits:
    """A device's matrix units at the rates of one format."""
    return MatrixUnits(flops_per_s, bytes_per_s, hardware.compute_units, hardware.gemm_tile)


def gemm_seconds(
    units: MatrixUnits, m: Quantity, n: Quantity, k: Quantity, batch: Quantity, operand_bytes: float, result_bytes: float
) -> tuple[Quantity, Any]:
    """(seconds, whether HBM traffic is what limits it) of `batch` products [m, k] by [k, n] in one launch.

    `result_bytes`: HBM bytes per output element, 8 where an fp32 gradient is read, added to and written.
    """
    if isinstance(m, np.ndarray) or isinstance(n, np.ndarray) or isinstance(k, np.ndarray) or isinstance(batch, np.ndarray):
        return _seconds(units, m, n, k, batch, operand_bytes, result_bytes)
    return _remembered(units, m, n, k, batch, operand_bytes, result_bytes)


def _seconds(
    units: MatrixUnits, m: Quantity, n: Quantity, k: Quantity, batch: Quantity, operand_bytes: float, result_bytes: float
) -> tuple[Quantity, Any]:
    whole = units.compute_units
    per_unit = units.flops_per_s / whole
    outputs = m * n * batch
    computing: Quantity = np.inf
    for rows, cols, speed in tiles_of(units.tile):
        tiles = ceil_div(m, rows) * ceil_div(n, cols) * batch
        parts = at_least(at_most(whole // tiles, k // SPLIT_DEPTH), 1)
        wave = 2 * rows * cols * k / parts / (per_unit * speed)
        partials = outputs * PARTIAL_BYTES * parts * (parts > 1) / units.bytes_per_s
        computing = at_most(computing, ceil_div(tiles * parts, whole) * wave + partials)
    moving = (operand_bytes * (m * k + k * n) * batch + result_bytes * outputs) / units.bytes_per_s
    return at_least(computing, moving), moving > computing


_remembered = lru_cache(maxsize=16384)(_seconds)
