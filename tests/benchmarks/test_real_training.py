"""A record made on one process projects real training on two: a tiny GPT and a tiny MoE, on the CPU.

Layers are measured on one process; the collectives that two processes need are swept once. Then real training runs, and
projected and measured steps are printed side by side. A noisy machine: medians of nine steps, and the spread is printed; run
it with nothing else at work (`make benchmarks`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

from projectors.benchmark.devices import choose_devices
from projectors.benchmark.plan import StepKind, plan_benchmark
from projectors.benchmark.runner import run_benchmark
from projectors.inputs.benchmark_record import BenchmarkRecord, DeviceKind
from projectors.inputs.loading import study_from_text
from projectors.inputs.study import Study
from projectors.projection import project
from projectors.restoring.run import run_with
from tests.benchmarks import real_training as real

pytest.importorskip("torch")

TOLERANCE = 0.15

CARD = (
    f"name: tiny, num_layers: {real.LAYERS}, hidden_size: {real.HIDDEN}, ffn_hidden_size: {real.FFN}, "
    f"num_attention_heads: {real.HEADS}, num_query_groups: {real.KV_HEADS}, vocab_size: {real.VOCABULARY}, "
    f"max_seq_len: {real.SEQUENCE}"
)
EXPERTS = f", moe: {{num_experts: {real.EXPERTS}, top_k: {real.TOP_K}, moe_ffn_hidden_size: {real.EXPERT_FFN}}}"

CASES = {
    "dense": ("", "", 1),
    "moe": (EXPERTS, "", 1),
    "ddp": ("", "", 2),
    "tp": ("", "tp: 2, sequence_parallel: false, ", 2),
    "pp": ("", "pp: 2, ", 2),
    "ep": (EXPERTS, "ep: 2, ", 2),
}
"""What is trained: experts or not, the split, processes."""


def study_of(case: str) -> Study:
    experts, split, processes = CASES[case]
    replicas = processes if case in ("ddp", "ep") else 1
    return study_from_text(
        f"model: {{{CARD}{experts}}}\n"
        f"cluster: {{hardware: cpu, nodes: 1, gpus_per_node: {processes}}}\n"
        f"recipe: {{{split}mbs: {real.MICROBATCH}, gbs: {real.MICROBATCH * real.MICROBATCHES * replicas}, "
        f"seq_length: {real.SEQUENCE}, precision: fp32, sharding: none, overlap_grad_reduce: false}}\n"
    )


@pytest.fixture(scope="module")
def records() -> dict[str, BenchmarkRecord]:
    """One record of dense layers and one of experts, each on one process of one thread; sweeps over two processes."""
    made = {}
    sweeps = run_benchmark(_collectives_alone(plan_benchmark(study_of("ddp"), choose_devices(DeviceKind.CPU, 2, 1)))).collectives
    for kind in ("dense", "moe"):
        record = run_benchmark(plan_benchmark(study_of(kind), choose_devices(DeviceKind.CPU, 1, 1)))
        assert record.complete, record.failures
        made[kind] = record.model_copy(update={"collectives": sweeps})
    return made


@pytest.mark.parametrize("case", CASES)
@pytest.mark.timeout(300)
def test_projection_meets_training(case: str, records: dict[str, BenchmarkRecord], benchmark: Any) -> None:
    if not benchmark.enabled:
        pytest.skip("real training is timed by `make benchmarks` alone")
    study = study_of(case)
    record = records["moe" if CASES[case][0] else "dense"]
    projection = project(study.model, study.cluster, study.recipe, memory_margin=0.0, measured=run_with(record, study))
    assert projection.step is not None
    seconds = benchmark.pedantic(_trained, args=(case, CASES[case][2]), rounds=1)
    measured = median(seconds)
    spread = float(np.subtract(*np.quantile(seconds, (0.75, 0.25)))) / 2 / measured
    error = projection.step.seconds / measured - 1
    print(f"\n{case:>6}: measured {measured:.3f} s ±{spread:.0%}, projected {projection.step.seconds:.3f} s, error {error:+.1%}")
    assert abs(error) <= TOLERANCE


def _trained(case: str, processes: int) -> list[float]:
    """Seconds of the steps of real training."""
    script = str(Path(real.__file__).resolve())
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"] if processes > 1 else []
    answer = subprocess.run(
        [sys.executable, *launcher, script, case], capture_output=True, text=True, timeout=280, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    line = next((line for line in answer.stdout.splitlines() if line.startswith("@steps ")), None)
    assert line is not None, answer.stdout + answer.stderr
    return [float(each) for each in json.loads(line.removeprefix("@steps "))]


def _collectives_alone(plan: Any) -> Any:
    from dataclasses import replace as with_fields

    return with_fields(plan, steps=tuple(step for step in plan.steps if step.kind is StepKind.COLLECTIVE))


def test_the_studies_are_legal() -> None:
    for case in CASES:
        study = study_of(case)
        projection = project(study.model, study.cluster, study.recipe, memory_margin=0.0)
        assert projection.legal, (case, projection.violations)
        assert projection.microbatches == real.MICROBATCHES
