"""Records whose measurements are known: the simulation of what would be measured, times a factor."""

from __future__ import annotations

from projectors.benchmark.plan import plan_benchmark
from projectors.inputs.benchmark_record import BenchmarkRecord, DeviceKind, MeasuredDevice, MeasuredPart, Sample
from projectors.inputs.study import Study
from projectors.restoring.run import run_with
from tests.projectors.benchmark.tiny import cpus


def sample(seconds: float) -> Sample:
    return Sample(seconds=seconds, spread=0.01, count=9)


def record_of(study: Study, scale: float = 1.0, devices: int = 1) -> BenchmarkRecord:
    """A record of a study whose measurements are `scale` times the simulation of what would be measured."""
    plan = plan_benchmark(study, cpus(devices))
    bare = BenchmarkRecord(
        name="r", created="2026-12-01T00:00:00+00:00", complete=True,
        device=MeasuredDevice(kind=DeviceKind.CPU, name="cpu", count=plan.used, memory_bytes=1 << 33, threads=1, hardware="cpu"),
        model=plan.model, recipe=plan.recipe,
    )
    simulated = run_with(bare, study).simulated
    parts = [
        MeasuredPart(
            part=label, forward=sample(scale * float(base.forward.total)),
            backward=sample(scale * float(base.backward.total + base.weight.total)),
            input_gradient=sample(scale * float(base.backward.total)), saved_bytes=1,
        )
        for label, base in simulated.items()
    ]
    return bare.model_copy(update={"parts": tuple(parts)})
