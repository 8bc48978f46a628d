"""What to measure on the devices that are here: the run scaled down to fit, what is measured in it, what is restored.

Pipeline parallelism goes first (to 1), then expert parallelism (experts per device kept, so that the routed work of one
device stays the same), then tensor parallelism, never context parallelism (Primus projection, facts 2.2; arXiv:2610.19423).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import lcm

from projectors.columns import Columns, columns_of
from projectors.inputs.benchmark_record import DeviceKind, MeasuredDevice
from projectors.inputs.catalog import LOCAL_MACHINE
from projectors.inputs.cluster import ClusterSpec
from projectors.inputs.model_card import ModelCard
from projectors.inputs.recipe import Recipe, Recompute, Schedule, Sharding
from projectors.inputs.study import Study
from projectors.memory import memory_breakdown
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
class Reduction:
    """One degree that was scaled down, and how it is put back."""

    name: str
    target: int
    measured: int
    restored_by: str


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
    used = _devices(recipe.tp, recipe.cp, recipe.ep)
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
    steps = _steps(study, parts, columns, devices[0], used)
    return BenchmarkPlan(devices, used, model, recipe, reductions, steps, _restored(study, reductions), (), peak)


def scale_down(card: ModelCard, recipe: Recipe, devices: int) -> tuple[ModelCard, Recipe, tuple[Reduction, ...]]:
    """The largest run of the same layers that fits on so many devices, by the order of this module.

    One layer of each kind is measured, so the depth does not matter; full recompute is priced, not run.
    """
    reductions = [Reduction("pp", recipe.pp, 1, "the schedule's simulation")] if recipe.pp > 1 else []
    ep, tp = recipe.ep, recipe.tp
    while ep > 1 and _devices(tp, recipe.cp, ep) > devices:
        ep = _largest_divisor(recipe.ep, ep - 1)
    while tp > 1 and _devices(tp, recipe.cp, ep) > devices:
        tp = _largest_divisor(recipe.tp, tp - 1)
    if ep != recipe.ep:
        reductions.append(Reduction("ep", recipe.ep, ep, "the difference of the all-to-alls, experts per device kept"))
    if tp != recipe.tp:
        reductions.append(Reduction("tp", recipe.tp, tp, "the ratio of the compute, and the all-reduces"))
    if recipe.etp > 1:
        reductions.append(Reduction("etp", recipe.etp, 1, "the ratio of the compute, and its collectives"))
    model = _fewer_experts(card, recipe.ep, ep)
    reduced = recipe.model_copy(update={
        "pp": 1, "vpp": 1, "tp": tp, "ep": ep, "etp": 1, "stage_layers": None, "schedule": Schedule.ONE_F_ONE_B,
        "recompute": Recompute.NONE, "recompute_num_layers": None, "recompute_modules": (), "sharding": Sharding.NONE,
        "shard_group": None, "gbs": recipe.mbs, "offload_optimizer": 0.0, "expert_imbalance": 1.0,
        "sequence_parallel": recipe.uses_sequence_parallel and tp > 1,
    })
    return model, reduced, tuple(reductions)


def reduced_cluster(cluster: ClusterSpec, used: int) -> ClusterSpec:
    """The devices in use as a cluster: part of one node of the study's hardware."""
    inner = cluster.tiers[0].model_copy(update={"size": None}) if len(cluster.tiers) == 1 else cluster.tiers[0]
    tiers = (inner, *cluster.tiers[1:])
    return cluster.model_copy(update={"nodes": 1, "gpus_per_node": used, "tiers": tiers})


def reduced_columns(study: Study, recipe: Recipe, used: int) -> Columns:
    """Columns of the reduced recipe on the devices in use."""
    return columns_of(recipe, reduced_cluster(study.cluster, used), study.framework)


def bare_columns(recipe: Recipe, processes: int, vocabulary_multiple: int) -> Columns:
    """Columns where only shapes matter: the recipe on so many devices of no particular kind."""
    return replace(columns_of(recipe, _anonymous(processes)), vocabulary_multiple=vocabulary_multiple)


def _anonymous(processes: int) -> ClusterSpec:
    from projectors.inputs import library

    return library.cluster(f"{LOCAL_MACHINE}-1x{processes}")


def _devices(tp: int, cp: int, ep: int) -> int:
    """Fewest devices of one stage: dense groups of tp x cp and expert groups of ep lie over the same ranks."""
    return lcm(tp * cp, ep)


def _largest_divisor(number: int, most: int) -> int:
    return next(divisor for divisor in range(min(number, most), 0, -1) if number % divisor == 0)


def _fewer_experts(card: ModelCard, target: int, measured: int) -> ModelCard:
    """The card with the experts of `measured` ranks out of `target`; never fewer than a token is sent to."""
    if card.moe is None or target == measured:
        return card
    experts = max(card.moe.num_experts // target * measured, card.moe.top_k)
    return card.model_copy(update={"moe": card.moe.model_copy(update={"num_experts": experts})})


def _problems(study: Study, recipe: Recipe, devices: tuple[MeasuredDevice, ...]) -> tuple[str, ...]:
    found = []
    if not devices:
        found.append("no device was found")
    elif _devices(recipe.tp, recipe.cp, recipe.ep) > len(devices):
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
    study: Study, parts: tuple[ModelPart, ...], columns: Columns, device: MeasuredDevice, used: int
) -> tuple[MeasuringStep, ...]:
    from projectors.compute.layer import machine_of, part_seconds

    machine = machine_of(reduced_cluster(study.cluster, used), columns)
    runs = WARM_UP + REPEATS[device.kind]
    found = []
    for part in parts:
        seconds = part_seconds(part.operators, machine, columns)
        once = float(2 * seconds.forward.total + 2 * seconds.backward.total)  # forward for each backward, which runs in two ways
        found.append(MeasuringStep(StepKind.PART, part.label, runs * once))
    found.append(MeasuringStep(StepKind.OPTIMIZER, "optimizer step", runs * 0.05))
    if used > 1:
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
