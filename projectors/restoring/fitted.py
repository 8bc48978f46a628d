"""Efficiency figures that make the simulation of a measured run meet its measurements: a hardware profile from a record.

Every measured pass is a sum of what its operators take, by what limits them: matrix products, attention, streaming. One
factor for each of the three, fitted by least squares of relative errors and drawn towards their common mean, scales the
figures of the profile that was simulated with.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from projectors.compute.layer import OperatorRow
from projectors.compute.measured import MeasuredRun
from projectors.inputs.benchmark_record import BenchmarkRecord
from projectors.inputs.hardware import HardwareProfile
from projectors.workload.operators import OperatorKind

PRIOR = 0.05
"""Weight of a factor's distance from their mean against a relative error: a kind of operator that is hardly there in the
passes keeps near the others."""

CLASSES: dict[OperatorKind, int] = {
    OperatorKind.GEMM: 0, OperatorKind.GROUPED_GEMM: 0, OperatorKind.ATTENTION: 1, OperatorKind.STREAM: 2,
}
MOST_EFFICIENCY = 1.2
"""Bound of the efficiency fields."""

LEAST_EFFICIENCY = 1e-4


@dataclass(frozen=True, slots=True)
class Fit:
    """Measured over simulated time of matrix products, attention and streaming; the largest relative error that is left."""

    gemm: float
    attention: float
    stream: float
    worst: float


def fit(run: MeasuredRun) -> Fit | None:
    """The factors of a measured run; None where no pass was measured."""
    rows, times = [], []
    for parts, seconds in _passes(run):
        if seconds > 0 and parts.sum() > 0:
            rows.append(parts / seconds)
            times.append(1.0)
    if not rows:
        return None
    system, wanted = np.array(rows), np.array(times)
    mean = float(wanted.sum() / system.sum()) if system.sum() else 1.0
    prior = np.sqrt(PRIOR) * np.eye(3) / mean
    factors = np.linalg.lstsq(np.vstack([system, prior]), np.concatenate([wanted, np.full(3, np.sqrt(PRIOR))]), rcond=None)[0]
    factors = np.maximum(factors, mean / 10)  # time is positive, whatever noise says
    worst = float(np.abs(system @ factors - 1).max())
    gemm, attention, stream = (float(factor) for factor in factors)
    return Fit(gemm, attention, stream, worst)


def fitted_hardware(hardware: HardwareProfile, record: BenchmarkRecord, run: MeasuredRun, name: str) -> HardwareProfile:
    """The profile with its efficiency figures fitted to a record of it, each with its source. Raises ValueError where no pass
    was measured."""
    found = fit(run)
    if found is None:
        raise ValueError("the record holds no measured layer")
    before = hardware.efficiency
    figures = {
        "gemm_bf16": before.gemm_bf16 / found.gemm,
        "gemm_fp8": before.gemm_fp8 / found.gemm,
        "attention_forward": before.attention_forward / found.attention,
        "attention_backward": before.attention_backward / found.attention,
        "memory": before.memory / found.stream,
    }
    told = f"benchmark record {record.name} of {record.created}, {record.device.name}; largest error left {found.worst:.0%}"
    efficiency = before.model_copy(
        update={field: float(np.clip(value, LEAST_EFFICIENCY, MOST_EFFICIENCY)) for field, value in figures.items()}
    )
    sources = {field: words for field, words in hardware.sources.items() if field != "efficiency"}
    sources |= {f"efficiency.{field}": told for field in figures}
    title = f"{hardware.title or hardware.name}, measured"
    return hardware.model_copy(update={"name": name, "title": title, "efficiency": efficiency, "sources": sources})


def _passes(run: MeasuredRun) -> Iterator[tuple[NDArray[np.float64], float]]:
    """(simulated seconds by class, measured seconds) of every measured pass."""
    for label, measured in run.parts.items():
        base = run.simulated.get(label)
        if base is not None:
            yield _by_class(base.rows, backward=False), measured.forward.seconds
            yield _by_class(base.rows, backward=True), measured.backward.seconds


def _by_class(rows: tuple[OperatorRow, ...], *, backward: bool) -> NDArray[np.float64]:
    seconds = np.zeros(3)
    for row in rows:
        own = row.seconds
        seconds[CLASSES[row.operator.kind]] += float(own.input_gradient + own.weight_gradient if backward else own.forward)
    return seconds
