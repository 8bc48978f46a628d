"""Plans, progress and records for people and for scripts."""

from __future__ import annotations

from typing import Any

from projectors.benchmark.plan import BenchmarkPlan
from projectors.benchmark.runner import Progress
from projectors.inputs.benchmark_record import BenchmarkRecord, Sample
from projectors.inputs.study import Study
from projectors.restoring.records import matches
from projectors.restoring.run import run_with
from projectors.text import UNKNOWN, bytes_text, percent_text, seconds_text, table_text


def plan_json(plan: BenchmarkPlan) -> dict[str, Any]:
    """What `benchmark --plan --json` prints."""
    return {
        "devices": [device.model_dump(mode="json") for device in plan.devices],
        "used": plan.used,
        "model": plan.model.name,
        "recipe": plan.recipe.model_dump(mode="json"),
        "reductions": [
            {"name": each.name, "target": each.target, "measured": each.measured, "restored_by": each.restored_by}
            for each in plan.reductions
        ],
        "steps": [{"kind": step.kind.value, "what": step.what, "seconds": step.seconds} for step in plan.steps],
        "restored": list(plan.restored),
        "problems": list(plan.problems),
        "peak_bytes": plan.peak_bytes,
        "seconds": plan.seconds,
    }


def plan_text(plan: BenchmarkPlan) -> str:
    """What is measured, what is restored, how long it takes."""
    if plan.problems:
        return "\n".join(["Cannot be measured here:", *plan.problems])
    device = plan.devices[0]
    recipe = plan.recipe
    threads = f", threads of each: {device.threads}" if device.threads else ""
    split = f"tp {recipe.tp}, ep {recipe.ep}, mbs {recipe.mbs}, {recipe.seq_length:,} tokens, {recipe.precision.value}"
    lines = [
        f"devices of kind {device.kind.value}: {plan.used} of {len(plan.devices)}, {device.name}{threads}",
        f"{plan.model.name} with {split}; needs {bytes_text(plan.peak_bytes)}",
        "measured: " + ", ".join(step.what for step in plan.steps),
        *(f"restored: {words}" for words in plan.restored),
        f"about {seconds_text(plan.seconds)}",
    ]
    return "\n".join(lines)


def progress_text(progress: Progress) -> str:
    """One line while measuring."""
    left = seconds_text(max(progress.total - progress.done, 0.0))
    outcome = f": failed, {progress.failed}" if progress.failed else f"  {progress.log}" if progress.log else ""
    return f"[about {left} left] {progress.what}{outcome}"


def record_text(record: BenchmarkRecord, study: Study) -> str:
    """Measured beside simulated, and under which conditions."""
    fits = all(match.fits for match in matches(record, study))
    simulated = run_with(record, study).simulated if fits else {}
    rows = []
    for part in record.parts:
        base = simulated.get(part.part)
        for name, sample, seconds in (
            ("forward", part.forward, base and float(base.forward.total)),
            ("backward", part.backward, base and float(base.backward.total + base.weight.total)),
            ("input gradient", part.input_gradient, None),
        ):
            ratio = f"{sample.seconds / seconds:.2f}" if seconds else UNKNOWN
            rows.append((part.part, name, *_sample_words(sample), seconds_text(seconds) if seconds else UNKNOWN, ratio))
    head = ("part", "pass", "median", "spread", "timings", "simulated", "measured\n/ simulated")
    parts = [table_text(head, rows)] if rows else []
    if record.optimizer:
        step = record.optimizer
        parts.append(f"optimizer step of {step.parameters:,} parameters: {seconds_text(step.step.seconds)}")
    if record.collectives:
        sweeps = [
            (each.kind, str(each.members), f"{each.latency_us:.1f} µs", f"{each.bandwidth_gb_s:.2f} GB/s")
            for each in record.collectives
        ]
        parts.append(table_text(("collective", "members", "latency", "bandwidth"), sweeps))
    parts += [f"{failure.what}: {failure.reason}" for failure in record.failures]
    conditions = record.conditions
    if conditions.throttled:
        parts.append("the device throttled: " + ", ".join(conditions.reasons))
    return "\n\n".join(parts) or "nothing was measured"


def _sample_words(sample: Sample) -> tuple[str, str, str]:
    left_out = f" (+{sample.outliers} left out)" if sample.outliers else ""
    return seconds_text(sample.seconds), f"±{percent_text(sample.spread)}", f"{sample.count}{left_out}"
