"""What to measure on the devices that are here: the scaled-down run, its measurements, how long they take, what is restored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from projectors.columns import Columns
from projectors.inputs.benchmark_record import DeviceKind, MeasuredDevice
from projectors.inputs.model_card import ModelCard
from projectors.inputs.recipe import Recipe, Recompute
from projectors.inputs.study import Study
from projectors.memory import memory_breakdown
from projectors.restoring.scaling import Reduction, devices_needed, reduced_cluster, reduced_columns, scale_down
from projectors.stages import stage_plan
from projectors.workload.layers import distinct_kinds
from projectors.workload.model import ModelPart, model_parts

WARM_UP = 3
"""Runs before timing starts: allocators, kernel selection, clocks."""

REPEATS = {DeviceKind.CUDA: 20, DeviceKind.CPU: 9}
"""Timed runs of each pass: enough for quartiles."""

START_SECONDS = {DeviceKind.CUDA: 12.0, DeviceKind.CPU: 4.0}
"""To start the measuring process: interpreter, PyTorch, device context. Measured with PyTorch 2.13 on two CPU cores; the
larger figure allows for a CUDA context and kernel loading."""

COLLECTIVE_SECONDS = 3.0
"""A sweep of one collective over its sizes, fifty runs at most each; larger sizes stop early."""


class StepKind(StrEnum):
    """Kinds of measurement."""

    PART = "part"
    OPTIMIZER = "optimizer"
    COLLECTIVE = "collective"


@dataclass(frozen=True, slots=True)
class MeasuringStep:
    """One measurement: a part of the model, the optimizer step, or a collective. `seconds` is how long it should take."""

    kind: StepKind
    what: str
    seconds: float


@dataclass(frozen=True, slots=True)
class BenchmarkPlan:
    """The reduced run. `problems` is why it cannot be measured here; then there are no steps."""

    devices: tuple[MeasuredDevice, ...]
    used: int
    model: ModelCard
    recipe: Recipe
    reductions: tuple[Reduction, ...]
    steps: tuple[MeasuringStep, ...]
    restored: tuple[str, ...]
    problems: tuple[str, ...]
    peak_bytes: int

    @property
    def seconds(self) -> float:
        """How long it should take."""
        return START_SECONDS[self.devices[0].kind] + sum(step.seconds for step in self.steps) if self.devices else 0.0


def plan_benchmark(study: Study, devices: tuple[MeasuredDevice, ...]) -> BenchmarkPlan:
    """The plan for a study on devices of one kind."""
    model, recipe, reductions = scale_down(study.model, study.recipe, len(devices))
    used = devices_needed(recipe.tp, recipe.cp, recipe.ep)
    problems = _problems(study, recipe, devices)
    if problems or not devices:
        return BenchmarkPlan(devices, 0, model, recipe, reductions, (), (), problems, 0)
    columns = reduced_columns(study, recipe, used)
    parts = model_parts(model, distinct_kinds(model), columns)
    peak = _peak_bytes(study, model, recipe, used)
    room = devices[0].memory_bytes
    if peak > room:
        problems = (f"the reduced run needs {peak:,} bytes on a device of {room:,}; a smaller microbatch or sequence would fit",)
        return BenchmarkPlan(devices, used, model, recipe, reductions, (), (), problems, peak)
    steps = _steps(study, parts, columns, devices[0], used, several=len(devices) > 1)
    return BenchmarkPlan(devices, used, model, recipe, reductions, steps, _restored(study, reductions), (), peak)


def _problems(study: Study, recipe: Recipe, devices: tuple[MeasuredDevice, ...]) -> tuple[str, ...]:
    found = []
    if not devices:
        found.append("no device was found")
    elif devices_needed(recipe.tp, recipe.cp, recipe.ep) > len(devices):
        found.append(
            f"context parallelism is never scaled down: cp = {recipe.cp} needs {recipe.cp} devices, here are {len(devices)}"
        )
    elif recipe.cp > 1:
        found.append(f"cp = {recipe.cp}: attention over a ring of devices is not measured; simulate, or measure with cp = 1")
    if study.model.compressed_attention:
        found.append("compressed attention (DeepSeek-V4) needs kernels that PyTorch does not have; simulate it")
    return tuple(found)


def _peak_bytes(study: Study, model: ModelCard, recipe: Recipe, used: int) -> int:
    """Memory of the largest part: one layer, or an end, is on the device at a time."""
    columns = replace(reduced_columns(study, recipe, used), gbs=recipe.mbs)
    single = model.model_copy(update={"num_layers": 1})
    if single.moe is not None:
        every_layer = {"first_k_dense": 0, "layer_freq": 1, "moe_layers": None}
        single = single.model_copy(update={"moe": single.moe.model_copy(update=every_layer)})
    plan = stage_plan(single, columns)
    hardware = study.cluster.hardware
    return memory_breakdown(single, hardware, columns, plan, model_parts(single, plan.kinds, columns), 0.0).peak_bytes


def _steps(
    study: Study, parts: tuple[ModelPart, ...], columns: Columns, device: MeasuredDevice, used: int, *, several: bool
) -> tuple[MeasuringStep, ...]:
    """Parts and the optimizer on the devices of the reduced run, collectives over all that are here."""
    from projectors.compute.layer import machine_of, part_seconds

    machine = machine_of(reduced_cluster(study.cluster, used), columns)
    runs = WARM_UP + REPEATS[device.kind]
    found = []
    for part in parts:
        seconds = part_seconds(part.operators, machine, columns)
        once = float(2 * seconds.forward.total + 2 * seconds.backward.total)  # forward for each backward, which runs in two ways
        found.append(MeasuringStep(StepKind.PART, part.label, runs * once))
    found.append(MeasuringStep(StepKind.OPTIMIZER, "optimizer step", runs * 0.05))
    if several:
        found += [MeasuringStep(StepKind.COLLECTIVE, kind, COLLECTIVE_SECONDS) for kind in COLLECTIVES]
    return tuple(found)


COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "send-receive")
"""Collectives that are swept over sizes when several devices are here."""


def _restored(study: Study, reductions: tuple[Reduction, ...]) -> tuple[str, ...]:
    """What is put back after measuring, in words."""
    recipe = study.recipe
    found = [f"{each.name} {each.measured} to {each.target}: {each.restored_by}" for each in reductions]
    if recipe.recompute is not Recompute.NONE:
        found.append(f"{recipe.recompute.value} recompute: measured forward passes again")
    if study.cluster.gpus > recipe.tp * recipe.pp * recipe.cp:
        found.append("data parallelism: gradient reduction and parameter gathering over the network profile")
    if recipe.expert_imbalance > 1:
        found.append(f"expert imbalance {recipe.expert_imbalance:g}: the busiest rank's routed work")
    return tuple(found)
