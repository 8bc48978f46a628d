"""Schedules side by side: every one is there, each row is the projection of its recipe, reasons stand where there is none."""

from __future__ import annotations

import pytest

from projectors.comparison import ScheduleRow, compare_study
from projectors.inputs.changing import replace
from projectors.inputs.loading import load_study
from projectors.inputs.recipe import Schedule
from projectors.inputs.study import Study
from projectors.legality import SCHEDULES
from projectors.projection import project_study


def llama(**recipe: object) -> Study:
    """Llama 3.1 70B, 80 layers, on 8 nodes of H100."""
    study = load_study("llama3.1-70b-h100-8x8")
    for name, value in recipe.items():
        study = replace(study, f"recipe.{name}", value)
    return study


@pytest.fixture(scope="module")
def rows() -> tuple[ScheduleRow, ...]:
    return compare_study(llama(pp=4, vpp=1, schedule="1f1b"))


def test_every_schedule_is_there(rows: tuple[ScheduleRow, ...]) -> None:
    assert {row.schedule for row in rows} == set(SCHEDULES)
    assert sorted(row.vpp for row in rows if row.schedule is Schedule.INTERLEAVED) == [2, 4, 5, 10, 20]


def test_a_row_is_the_projection_of_the_recipe_that_a_click_makes(rows: tuple[ScheduleRow, ...]) -> None:
    compared = [row for row in rows if row.applicable]
    assert len(compared) >= len(SCHEDULES)
    for row in compared:
        projection = project_study(llama(**{"pp": 4, "vpp": 1, "schedule": "1f1b", **dict(row.changes)}))
        assert projection.timeline is not None
        assert projection.timeline.schedule is row.schedule
        assert projection.memory is not None
        assert (row.makespan, row.peak_bytes, row.fits) == (
            projection.timeline.makespan, projection.memory.peak_bytes, projection.memory.feasible
        )
        assert projection.throughput is not None
        assert row.tokens_per_s_per_gpu == projection.throughput.tokens_per_s_per_gpu


def test_fitting_rows_come_first_and_the_fastest_before_the_slower(rows: tuple[ScheduleRow, ...]) -> None:
    order = [(not row.applicable, not row.fits) for row in rows]
    assert order == sorted(order)
    fitting = [row.step for row in rows if row.fits]
    assert fitting == sorted(fitting, key=lambda step: step or 0)


def test_the_recipes_own_row_changes_nothing(rows: tuple[ScheduleRow, ...]) -> None:
    assert [row.schedule for row in rows if not row.changes] == [Schedule.ONE_F_ONE_B]


def test_what_cannot_run_says_why_in_words_and_has_no_figures() -> None:
    recomputing = {row.schedule: row for row in compare_study(llama(pp=4, vpp=1, recompute="full"))}
    for schedule in SCHEDULES:
        assert recomputing[schedule].applicable is not schedule.splits_backward
    refused = recomputing[Schedule.ZB_H1]
    assert refused.reason is not None
    assert "recompute full with zb-h1" in refused.reason
    assert (refused.makespan, refused.peak_bytes, refused.tokens_per_s_per_gpu, refused.fits) == (None, None, None, False)


def test_stated_layers_hold_for_the_recipes_own_number_of_virtual_stages() -> None:
    study = llama(pp=4, vpp=1, stage_layers=[19, 21, 21, 19], schedule="1f1b")
    for row in compare_study(study):
        changes = dict(row.changes)
        assert ("stage_layers" in changes) == (row.vpp != 1)
        assert row.applicable


@pytest.mark.parametrize(
    "changes", [{"pp": 4, "vpp": 1}, {"pp": 4, "vpp": 2}, {"pp": 4, "vpp": 4}, {"pp": 4, "vpp": 1, "recompute": "full"}]
)
def test_auto_takes_the_fastest_that_fits_with_the_recipes_virtual_stages(changes: dict[str, object]) -> None:
    rows = [row for row in compare_study(llama(**changes, schedule="auto")) if row.applicable and row.vpp == changes["vpp"]]
    chosen = project_study(llama(**changes, schedule="auto"))
    assert chosen.timeline is not None
    assert chosen.step is not None
    assert chosen.feasible
    assert chosen.step.seconds == min(row.step for row in rows if row.fits and row.step is not None)
    assert chosen.timeline.schedule in {row.schedule for row in rows if row.fits}


def test_auto_takes_the_smallest_where_nothing_fits() -> None:
    study = llama(pp=4, vpp=1, schedule="auto", mbs=16)
    rows = [row for row in compare_study(study) if row.applicable and row.vpp == 1]
    chosen = project_study(study)
    assert not any(row.fits for row in rows)
    assert chosen.memory is not None
    assert chosen.memory.peak_bytes == min(row.peak_bytes for row in rows if row.peak_bytes is not None)


def test_zb_auto_holds_as_many_microbatches_as_fit_on_each_rank_and_no_more() -> None:
    """Where ZB-H1, which holds 4 on every rank, does not fit on all of them."""
    recipe = {"pp": 4, "vpp": 1, "tp": 4, "cp": 1, "gbs": 128}
    rows = {row.schedule: row for row in compare_study(llama(**recipe))}
    assert not rows[Schedule.ZB_H1].fits
    assert rows[Schedule.ZB_AUTO].fits
    chosen = project_study(llama(**recipe, schedule="zb-auto")).memory
    assert chosen is not None
    held = [int(rank.in_flight) for rank in chosen.ranks]
    assert 1 <= min(held) < 4
    for rank, number in zip(chosen.ranks, held, strict=True):
        more = project_study(llama(**recipe, schedule="zb-auto", max_in_flight=number + 1)).memory
        assert more is not None
        assert rank.total <= chosen.budget_bytes
        assert number in (4, 8, 12) or more.ranks[rank.rank].total > chosen.budget_bytes
