"""Every pipeline schedule under one recipe, side by side: what each takes and gives, or why it cannot run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from projectors.inputs.cluster import ClusterSpec
from projectors.inputs.framework import DEFAULT_FRAMEWORK, FrameworkProfile
from projectors.inputs.model_card import ModelCard
from projectors.inputs.recipe import Recipe, Schedule
from projectors.inputs.study import Study
from projectors.legality import SCHEDULES, chunk_counts, violations
from projectors.pipeline import bubble_fraction
from projectors.projection import project
from projectors.results import Projection


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """One schedule under the recipe. What an inapplicable one does not have is None."""

    schedule: Schedule
    vpp: int
    changes: tuple[tuple[str, Any], ...]    # recipe fields and values, as plain data, that make the recipe this row's
    reason: str | None = None               # why it cannot run; None where it can
    makespan: float | None = None           # seconds
    bubble_fraction: float | None = None    # idle share of all ranks until the makespan
    step: float | None = None               # seconds of the whole optimizer step
    peak_bytes: int | None = None           # on the fullest rank
    in_flight: float | None = None          # microbatches live on the rank that holds most
    tokens_per_s_per_gpu: float | None = None
    fits: bool = False

    @property
    def applicable(self) -> bool:
        return self.reason is None


def compare_study(study: Study) -> tuple[ScheduleRow, ...]:
    """The schedules under a study's recipe, with its memory margin."""
    return compare_schedules(
        study.model, study.cluster, study.recipe, memory_margin=study.search.memory_margin, framework=study.framework
    )


def compare_schedules(
    card: ModelCard,
    cluster: ClusterSpec,
    recipe: Recipe,
    *,
    memory_margin: float,
    framework: FrameworkProfile = DEFAULT_FRAMEWORK,
) -> tuple[ScheduleRow, ...]:
    """One row for every schedule with the virtual stages that it needs, all else as the recipe says.

    Fastest first among those that fit; then those that do not fit, fastest first; then those that cannot run. A schedule
    that leaves the number of virtual stages open gets a row for the recipe's own and for each that spreads the layers evenly.
    Stated layers of the virtual stages hold for the recipe's own number only; other rows spread them evenly.
    """

    def row(schedule: Schedule, chunks: int) -> ScheduleRow:
        changes = dict(_changes(recipe, schedule, chunks))
        changed = recipe.model_copy(update={**changes, "schedule": schedule})
        broken = violations(card, cluster, changed)
        if broken:
            reason = "; ".join(violation.reason for violation in broken)
            return ScheduleRow(schedule, chunks, tuple(changes.items()), reason)
        projection = project(card, cluster, changed, memory_margin=memory_margin, framework=framework)
        return _filled(schedule, chunks, tuple(changes.items()), projection)

    rows = [row(schedule, chunks) for schedule in SCHEDULES for chunks in chunk_counts(card, recipe, schedule)]
    return tuple(sorted(rows, key=_rank))


def _rank(row: ScheduleRow) -> tuple[bool, bool, float]:
    return not row.applicable, not row.fits, row.step or 0.0


def _changes(recipe: Recipe, schedule: Schedule, chunks: int) -> Iterator[tuple[str, Any]]:
    if schedule is not recipe.schedule:
        yield "schedule", schedule.value
    if chunks != recipe.vpp:
        yield "vpp", chunks
        if recipe.stage_layers is not None:
            yield "stage_layers", None
    if schedule is not Schedule.INTERLEAVED and recipe.microbatch_group_size is not None:
        yield "microbatch_group_size", None
    if schedule is not Schedule.ZB_AUTO and recipe.max_in_flight is not None:
        yield "max_in_flight", None
    if not schedule.splits_backward and recipe.post_validation:
        yield "post_validation", False


def _filled(schedule: Schedule, chunks: int, changes: tuple[tuple[str, Any], ...], projection: Projection) -> ScheduleRow:
    timeline, step, memory, rates = projection.timeline, projection.step, projection.memory, projection.throughput
    assert timeline is not None and step is not None and memory is not None and rates is not None
    return ScheduleRow(
        schedule,
        chunks,
        changes,
        makespan=timeline.makespan,
        bubble_fraction=bubble_fraction(timeline),
        step=step.seconds,
        peak_bytes=memory.peak_bytes,
        in_flight=max(rank.in_flight for rank in memory.ranks),
        tokens_per_s_per_gpu=rates.tokens_per_s_per_gpu,
        fits=memory.feasible,
    )
