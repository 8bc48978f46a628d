"""One projection: legality, memory, time, pipeline. The engine's front door."""

from __future__ import annotations

from dataclasses import replace

from projectors.columns import Columns, columns_of
from projectors.compute.measured import MeasuredRun
from projectors.inputs.cluster import ClusterSpec
from projectors.inputs.framework import DEFAULT_FRAMEWORK, FrameworkProfile
from projectors.inputs.model_card import ModelCard
from projectors.inputs.recipe import Recipe, Schedule
from projectors.inputs.study import Study
from projectors.legality import open_schedules, violations, warnings
from projectors.memory import memory_breakdown
from projectors.pipeline import AUTOMATIC_LIMITS
from projectors.restoring.run import run_of
from projectors.results import MemoryBreakdown, Origin, Projection
from projectors.stages import stage_plan
from projectors.step import project_step
from projectors.workload.model import model_parts
from projectors.workload.parameters import model_parameters


def project_study(study: Study) -> Projection:
    """The projection of a study, with its memory margin and, where it asks for one, its benchmark record.

    Raises InputError where there is no such record, or where it does not fit.
    """
    return project(
        study.model, study.cluster, study.recipe, memory_margin=study.search.memory_margin, framework=study.framework,
        measured=run_of(study),
    )


def project(
    card: ModelCard,
    cluster: ClusterSpec,
    recipe: Recipe,
    *,
    memory_margin: float,
    framework: FrameworkProfile = DEFAULT_FRAMEWORK,
    measured: MeasuredRun | None = None,
) -> Projection:
    """Memory and throughput of one recipe of one model on one cluster, trained by one framework.

    An illegal recipe is answered with its violations and nothing else. `memory_margin` is the part of each device's
    capacity that must stay free for the recipe to count as feasible. Schedule `auto` becomes the fastest applicable
    schedule that fits, or the smallest one when none does; so do the microbatches in flight that `zb-auto` leaves open.
    `measured` replaces simulated layers.
    """
    broken = violations(card, cluster, recipe)
    columns = columns_of(recipe, cluster, framework)
    empty = Projection(
        violations=broken,
        warnings=warnings(card, cluster, recipe),
        gpus=cluster.gpus,
        dp=int(columns.dp),
        microbatches=0 if broken else int(columns.microbatches),
    )
    if broken:
        return empty
    options = [
        option
        for schedule in _schedules(card, cluster, recipe, columns)
        for option in _limits(card, cluster, schedule, memory_margin)
    ]
    candidates = [_with_schedule(empty, card, cluster, option, memory_margin, measured) for option in options]
    return min(candidates, key=_preference)


def _schedules(card: ModelCard, cluster: ClusterSpec, recipe: Recipe, columns: Columns) -> list[Columns]:
    """The recipe under each schedule that it leaves open."""
    if columns.schedule is not Schedule.AUTO:
        return [columns]
    return [replace(columns, schedule=schedule) for schedule in open_schedules(card, cluster, recipe)]


def _limits(card: ModelCard, cluster: ClusterSpec, columns: Columns, memory_margin: float) -> list[Columns]:
    """The recipe under each limit on microbatches in flight that it leaves open: those of `AUTOMATIC_LIMITS`, on each rank as far
    as its memory allows, but 1 at least. The least first, so that of equally fast ones the smallest counts."""
    if columns.schedule is not Schedule.ZB_AUTO or columns.max_in_flight is not None:
        return [columns]
    plan = stage_plan(card, columns)
    model = model_parts(card, plan.kinds, columns)

    def at(limit: int | tuple[int, ...]) -> MemoryBreakdown:
        return memory_breakdown(card, cluster.hardware, replace(columns, max_in_flight=limit), plan, model, memory_margin)

    most = min(int(columns.microbatches), AUTOMATIC_LIMITS[-1] * plan.ranks)
    one, two = at(1), at(2)
    rises = [second.total - first.total for first, second in zip(one.ranks, two.ranks, strict=True)]  # evenly with the limit
    room = [
        min(max(1 + (one.budget_bytes - rank.total) // rise, 1), most) if rise else most
        for rank, rise in zip(one.ranks, rises, strict=True)
    ]
    whole = at(tuple(room))  # bytes are rounded up, which may take the last one
    room = [max(each - (rank.total > one.budget_bytes), 1) for each, rank in zip(room, whole.ranks, strict=True)]
    limits = {tuple(min(times * plan.ranks, each) for each in room) for times in AUTOMATIC_LIMITS}
    return [replace(columns, max_in_flight=limit) for limit in sorted(limits)]


def _with_schedule(
    empty: Projection, card: ModelCard, cluster: ClusterSpec, columns: Columns, memory_margin: float, measured: MeasuredRun | None
) -> Projection:
    plan = stage_plan(card, columns)
    model = model_parts(card, plan.kinds, columns)
    step = project_step(card, cluster, columns, plan, model, measured)
    return replace(
        empty,
        parameters=model_parameters(card),
        memory=memory_breakdown(card, cluster.hardware, columns, plan, model, memory_margin),
        step=step.step,
        throughput=step.throughput,
        timeline=step.timeline,
        pass_parts=step.pass_parts,
        operators=step.operators,
        communication=step.communication,
        audit=step.audit,
        origin_compute=measured.compute_origin if measured and step.audit else Origin.SIMULATED,
        origin_communication=measured.communication_origin if measured else Origin.SIMULATED,
    )


def _preference(projection: Projection) -> tuple[bool, float]:
    """Fitting before not fitting; then the faster, or when nothing fits the smaller."""
    assert projection.memory is not None and projection.step is not None
    fits = projection.memory.feasible
    return not fits, projection.step.seconds if fits else projection.memory.peak_bytes
