"""Memory of a table of recipes equals the memory of each of them."""

from __future__ import annotations

import numpy as np
import pytest

from projectors.columns import columns_of
from projectors.inputs import Recipe, library
from projectors.inputs.recipe import Recompute, Schedule, Sharding
from projectors.legality import violations
from projectors.memory import memory_breakdown, peak_bytes
from projectors.recipe_table import RecipeTable, product_table, split
from projectors.stages import stage_plan
from projectors.workload.model import model_parts

AXES = {
    "tp": [1, 2, 8],
    "pp": [1, 2, 4],
    "vpp": [1, 2],
    "ep": [1, 8],
    "cp": [1, 2],
    "mbs": [1, 2],
    "schedule": [Schedule.ONE_F_ONE_B, Schedule.INTERLEAVED, Schedule.ZBV],
    "recompute": [Recompute.NONE, Recompute.SELECTIVE, Recompute.FULL],
    "sharding": [Sharding.NONE, Sharding.ZERO1, Sharding.ZERO3],
}


@pytest.mark.parametrize("model", ["mixtral-8x7b", "deepseek-v2-lite", "llama3.1-8b", "gpt3-175b"])
def test_arrays_give_what_scalars_give(model: str) -> None:
    card, cluster = library.model(model), library.cluster("h100-8x8")
    table = product_table(Recipe(gbs=1024, seq_length=4096), AXES)
    every = np.random.default_rng(0).choice(table.length, 400, replace=False)
    legal = [int(row) for row in every if not violations(card, cluster, table.recipe(int(row)))]
    assert len(legal) > 20
    chosen = RecipeTable(
        table.base,
        len(legal),
        {name: values[legal] for name, values in table.numbers.items()},
        {name: type(column)(column.codes[legal], column.values) for name, column in table.categories.items()},
    )
    peaks = peak_bytes(card, cluster, chosen)
    for row, peak in enumerate(peaks):
        columns = columns_of(chosen.recipe(row), cluster)
        plan = stage_plan(card, columns)
        one = memory_breakdown(card, cluster.hardware, columns, plan, model_parts(card, plan.kinds, columns), 0.0)
        assert peak == pytest.approx(one.peak_bytes, rel=1e-9)


def test_splitting_covers_every_row_once() -> None:
    cluster = library.cluster("h100-8x8")
    table = product_table(Recipe(gbs=1024, seq_length=4096), AXES)
    rows = np.concatenate([index for index, _ in split(table, cluster)])
    assert sorted(rows) == list(range(table.length))


def test_sequence_parallel_follows_tp_where_it_is_left_open() -> None:
    cluster = library.cluster("h100-8x8")
    table = product_table(Recipe(gbs=1024, seq_length=4096), {"tp": [1, 2, 4]})
    (_, columns), = split(table, cluster)
    assert list(np.asarray(columns.sequence_parallel)) == [False, True, True]
