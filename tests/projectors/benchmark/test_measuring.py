"""Measuring for real, on the CPU, through the same path as on a GPU: one process, two processes, and every fault."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from projectors.benchmark import devices, lock, runner
from projectors.benchmark.devices import choose_devices, find_devices, hardware_name
from projectors.benchmark.plan import BenchmarkPlan, plan_benchmark
from projectors.benchmark.runner import Progress, run_benchmark
from projectors.inputs.benchmark_record import DeviceKind
from projectors.inputs.errors import InputError
from projectors.inputs.recipe import Optimizer
from projectors.restoring.scaling import bare_columns
from projectors.workload.layers import distinct_kinds
from projectors.workload.model import model_parts
from tests.projectors.benchmark.tiny import CARDS, cpus, tiny

pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def own_lock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Tests that run beside each other do not wait for one another."""
    monkeypatch.setattr(lock.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(runner, "REPEATS", dict.fromkeys(DeviceKind, 3))


@pytest.mark.parametrize("kind", CARDS)
def test_every_kind_of_layer_is_measured(kind: str) -> None:
    study = tiny(kind)
    plan = plan_benchmark(study, cpus(1))
    said: list[Progress] = []
    record = run_benchmark(plan, tell=said.append)
    assert record.failures == () and record.complete
    assert [part.part for part in record.parts] == [step.what for step in plan.steps[:-1]]
    for part in record.parts:
        assert part.forward.seconds > 0
        assert part.backward.seconds > 0
        assert (part.input_gradient.seconds > 0) == (part.part != "Embedding")
        assert part.saved_bytes > 0
    assert record.optimizer is not None and record.optimizer.step.seconds > 0
    assert record.software["torch"]
    assert record.settings["attention"] == "PyTorch scaled_dot_product_attention"
    assert said[-1].done == pytest.approx(sum(step.seconds for step in plan.steps))


@pytest.mark.parametrize("kind", CARDS)
def test_modules_hold_the_parameters_that_the_workload_counts(kind: str) -> None:
    """The timed modules and `projectors.workload` describe the same layers, so a ratio of the two means something."""
    import torch

    from projectors.benchmark.attention import kernels_for
    from projectors.benchmark.layers import Situation
    from projectors.benchmark.measure import part_module
    from projectors.benchmark.parallel import ALONE

    study = tiny(kind)
    columns = bare_columns(study.recipe, 1, 128)
    device = torch.device("cpu")
    at = Situation(
        study.model, 1, study.recipe.seq_length, torch.float32, device, ALONE, ALONE, sequence_parallel=False,
        kernels=kernels_for(device, torch.float32, fp8=False),
    )
    for layer in distinct_kinds(study.model):
        module, _ = part_module(at, layer, columns)
        (part,) = (part for part in model_parts(study.model, (layer,), columns) if part.is_layer)
        counted = sum(int(operator.parameters) for operator in part.operators)
        assert sum(parameter.numel() for parameter in module.parameters()) == counted


def test_two_processes_split_tensors_and_experts() -> None:
    plan = plan_benchmark(tiny("moe", "tp: 2, ep: 2", per_node=2), cpus(2))
    shorter = tuple(step for step in plan.steps if step.what in ("MoE layer", "Head and loss", "send-receive"))
    record = run_benchmark(_with_steps(plan, shorter))
    assert record.failures == ()
    assert [part.part for part in record.parts] == ["MoE layer", "Head and loss"]
    (sweep,) = record.collectives
    assert sweep.members == 2 and sweep.bandwidth_gb_s > 0
    assert record.device.count == 2


def test_what_splits_gives_what_the_whole_gives() -> None:
    """Two processes of tensor and sequence parallelism, and of experts, compute what one process computes."""
    script = Path(__file__).with_name("split_check.py")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    root = Path(__file__).resolve().parents[3]
    answer = subprocess.run(
        command, capture_output=True, text=True, timeout=110, check=False, cwd=root,
        env={**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"},
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert answer.stdout.count("same") == 3


def test_a_killed_process_is_a_failed_measurement_and_the_rest_goes_on() -> None:
    plan = plan_benchmark(tiny("moe"), cpus(1))
    killed: list[str] = []

    def kill_once(progress: Progress) -> None:
        if progress.what == "MoE layer" and not killed:
            killed.append(progress.what)
            for child in _children():
                os.kill(child, signal.SIGKILL)

    record = run_benchmark(plan, tell=kill_once)
    (failure,) = record.failures
    assert failure.what == "MoE layer"
    assert "SIGKILL" in failure.reason
    assert [part.part for part in record.parts] == ["Dense layer", "Embedding", "Head and loss"]
    assert not record.complete


def test_a_hung_process_is_ended() -> None:
    plan = plan_benchmark(tiny(), cpus(1))
    steps = plan.steps[:1]
    stopped: list[int] = []

    def stop(progress: Progress) -> None:
        if progress.what == steps[0].what and not stopped:
            stopped.extend(_children())
            for child in stopped:
                os.kill(child, signal.SIGSTOP)

    record = run_benchmark(_with_steps(plan, steps), tell=stop, least_patience=1.0)
    (failure,) = record.failures
    assert "hung" in failure.reason
    assert stopped and not any(Path(f"/proc/{child}/stat").exists() for child in stopped)


def test_canceling_keeps_what_was_measured_and_says_what_was_not() -> None:
    plan = plan_benchmark(tiny("moe"), cpus(1))
    over = threading.Event()

    def tell(progress: Progress) -> None:
        if progress.done > 0:
            over.set()

    began = time.monotonic()
    record = run_benchmark(plan, tell=tell, cancelled=over.is_set)
    assert [part.part for part in record.parts] == ["Dense layer"]
    assert {failure.reason for failure in record.failures} == {"cancelled"}
    assert len(record.failures) == len(plan.steps) - 1
    assert time.monotonic() - began < 60
    assert not record.complete


def test_memory_that_runs_out_is_said_in_words() -> None:
    from projectors.benchmark.worker import reason_of

    torch = pytest.importorskip("torch")
    reason = "the device ran out of memory"
    assert reason_of(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")) == reason
    assert reason_of(RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 1 bytes")) == reason
    assert reason_of(RuntimeError("expected scalar type Half\nmore")) == "RuntimeError: expected scalar type Half"


def test_two_benchmarks_at_once_are_refused() -> None:
    plan = plan_benchmark(tiny(), cpus(1))
    with lock.only_one(), pytest.raises(InputError, match=f"another benchmark.*{os.getpid()}"):
        run_benchmark(plan)


def test_without_torch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "find_spec", lambda _name: None)
    with pytest.raises(InputError, match=r"primus-studio\[benchmark\]"):
        find_devices(DeviceKind.CPU)
    with pytest.raises(InputError, match=r"primus-studio\[benchmark\]"):
        run_benchmark(plan_benchmark(tiny(), cpus(1)))


def test_a_plan_with_problems_is_refused() -> None:
    with pytest.raises(InputError, match="no device was found"):
        run_benchmark(plan_benchmark(tiny(), ()))


def test_devices_are_found_and_chosen() -> None:
    (cpu,) = find_devices(DeviceKind.CPU)
    assert cpu.hardware == "cpu" and cpu.threads and cpu.memory_bytes > 1 << 28
    assert len(choose_devices(DeviceKind.CPU, 2, 1)) == 2
    if not find_devices(DeviceKind.CUDA):
        assert choose_devices(None, None, None)[0].kind is DeviceKind.CPU, "where there is no GPU the CPU is measured"
        with pytest.raises(InputError, match="none"):
            choose_devices(DeviceKind.CUDA, 1, None)


@pytest.mark.parametrize(("product", "gib", "name"), [
    ("NVIDIA H100 80GB HBM3", 79.1, "h100"),
    ("NVIDIA H100 PCIe", 79.2, "h100-pcie"),
    ("NVIDIA A100-SXM4-40GB", 39.4, "a100-40gb"),
    ("NVIDIA A100-SXM4-80GB", 79.1, "a100-80gb"),
    ("NVIDIA B200", 178.4, "b200"),
    ("AMD Instinct MI300X", 191.5, "mi300x"),
    ("AMD Instinct MI355X", 287.6, "mi355x"),
    ("NVIDIA GeForce RTX 4090", 23.6, "rtx-4090"),
    ("Tesla T4", 14.6, None),
    ("NVIDIA H100 80GB HBM3", 20.0, None),
])
def test_products_are_known_by_their_number_and_memory(product: str, gib: float, name: str | None) -> None:
    assert hardware_name(product, int(gib * 2**30)) == name


def _with_steps(plan: BenchmarkPlan, steps: tuple[object, ...]) -> BenchmarkPlan:
    from dataclasses import replace

    return replace(plan, steps=steps)  # type: ignore[arg-type]


def _children() -> list[int]:
    """Processes that this one started."""
    task = Path(f"/proc/{os.getpid()}/task")
    return [int(child) for thread in task.iterdir() for child in (thread / "children").read_text().split()]


def test_optimizers_of_a_recipe_are_the_ones_timed() -> None:
    import torch

    from projectors.benchmark.measure import measure_optimizer

    module = torch.nn.Linear(8, 8)
    for optimizer in (Optimizer.ADAM, Optimizer.SGD):
        recipe = tiny().recipe.model_copy(update={"optimizer": optimizer})
        measured = measure_optimizer(module, recipe, torch.device("cpu"), warm_up=1, repeats=3)
        assert measured.parameters == 72
        assert measured.step.count >= 1
