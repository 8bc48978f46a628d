"""What the benchmark panel says: rows of the plan and of what was measured, in words and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from projectors.inputs.benchmark_record import BenchmarkRecord, MeasuredDevice, MeasuredPart, Sample
from projectors.text import bytes_text, percent_text, seconds_text

if TYPE_CHECKING:
    from projectors.benchmark.plan import BenchmarkPlan
    from projectors.compute.measured import MeasuredRun


class RowState(StrEnum):
    """Where a measurement is."""

    PLANNED = "planned"
    MEASURING = "measuring"
    MEASURED = "measured"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Row:
    """One pass of one part, the optimizer step, or a collective."""

    what: str
    name: str = ""
    state: RowState = RowState.PLANNED
    expected: float = 0.0            # seconds that measuring takes
    sample: Sample | None = None
    simulated: float | None = None   # seconds
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Measured over simulated."""
        if self.sample is None or not self.simulated or not self.sample.seconds:
            return None
        return self.sample.seconds / self.simulated


def planned_rows(plan: BenchmarkPlan) -> tuple[Row, ...]:
    """What a plan will measure."""
    return tuple(Row(step.what, expected=step.seconds) for step in plan.steps)


def record_rows(record: BenchmarkRecord, run: MeasuredRun | None) -> tuple[Row, ...]:
    """What a record measured, beside the simulation where its study is open."""
    rows: list[Row] = []
    for part in record.parts:
        base = run.simulated.get(part.part) if run else None
        simulated = {
            "forward": float(base.forward.total), "backward": float(base.backward.total + base.weight.total),
        } if base else {}
        for name, sample in passes_of(part):
            rows.append(Row(part.part, name, RowState.MEASURED, sample=sample, simulated=simulated.get(name)))
    if record.optimizer:
        words = f"{record.optimizer.parameters:,} parameters"
        rows.append(Row("optimizer step", "", RowState.MEASURED, sample=record.optimizer.step, note=words))
    for each in record.collectives:
        words = f"{each.latency_us:.1f} µs + bytes / {each.bandwidth_gb_s:.2f} GB/s"
        rows.append(Row(each.kind, f"{bytes_text(each.nbytes[-1])}", RowState.MEASURED, sample=each.samples[-1], note=words))
    rows += [Row(failure.what, "", RowState.FAILED, note=failure.reason) for failure in record.failures]
    return tuple(rows)


def passes_of(part: MeasuredPart) -> tuple[tuple[str, Sample], ...]:
    """A part's measured passes by name; the embedding has no input gradient."""
    inner = (("input gradient", part.input_gradient),) if part.input_gradient.seconds else ()
    return (("forward", part.forward), ("backward", part.backward), *inner)


def plan_words(plan: BenchmarkPlan) -> str:
    """The reduced run in one line."""
    recipe = plan.recipe
    split = f"tp {recipe.tp} · ep {recipe.ep} · mbs {recipe.mbs} · {recipe.seq_length:,} tokens · {recipe.precision.value}"
    return f"{plan.model.name} · {split} · needs {bytes_text(plan.peak_bytes)}"


def devices_words(devices: tuple[MeasuredDevice, ...]) -> str:
    """What was found."""
    if not devices:
        return "No device"
    first = devices[0]
    threads = f", threads of each: {first.threads}" if first.threads else ""
    return f"{len(devices)} × {first.name}, {bytes_text(first.memory_bytes)}{threads}"


def sample_words(sample: Sample | None) -> str:
    """The median, without a unit of its own beside nothing."""
    return seconds_text(sample.seconds) if sample else ""


def spread_words(sample: Sample | None) -> str:
    """Half the range between the quartiles."""
    return f"±{percent_text(sample.spread)}" if sample and sample.count > 1 else ""


def conditions_words(record: BenchmarkRecord) -> str:
    """The device while it was measured, and what was used."""
    seen = record.conditions
    parts = [
        f"{seen.clock_mhz:,.0f} MHz (least {seen.clock_mhz_least:,.0f})" if seen.clock_mhz and seen.clock_mhz_least else "",
        f"{seen.temperature_c:.0f} °C" if seen.temperature_c is not None else "",
        f"{seen.power_w:.0f} W" if seen.power_w is not None else "",
        f"throttled: {', '.join(seen.reasons)}" if seen.throttled else "",
        ", ".join(f"{name} {version}" for name, version in record.software.items()),
        ", ".join(f"{name}: {value}" for name, value in record.settings.items()),
    ]
    return " · ".join(part for part in parts if part)
