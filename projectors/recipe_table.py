"""Many recipes at once: columns of numbers and of coded categories, split where formulas branch.

A table of n recipes is read as few `Columns` as there are distinct combinations of categories; within one, degrees and
sizes are arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projectors.columns import Columns, columns_of
from projectors.inputs.cluster import ClusterSpec
from projectors.inputs.framework import DEFAULT_FRAMEWORK, FrameworkProfile
from projectors.inputs.recipe import Recipe

Index = NDArray[np.intp]

NUMBERS = frozenset({
    "tp", "cp", "ep", "etp", "mbs", "gbs", "seq_length", "sequence_parallel", "offload_optimizer", "expert_imbalance",
    "shard_group",
})
"""Recipe fields that formulas take as arrays; every other field is a category."""

WORKLOAD_CATEGORIES = ("precision", "recompute", "recompute_modules", "moe_dispatch", "cross_entropy_fusion")
"""Categories on which the operators of a layer depend. (Where the ends of the model sit depends on pp and schedule.)"""


@dataclass(frozen=True, slots=True)
class Category:
    """One category column: a code per recipe and what the codes stand for."""

    codes: NDArray[np.int64]
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class RecipeTable:
    """`base` with some fields replaced per recipe. All columns have `length` entries."""

    base: Recipe
    length: int
    numbers: Mapping[str, NDArray[Any]]
    categories: Mapping[str, Category]
    framework: FrameworkProfile = DEFAULT_FRAMEWORK

    def recipe(self, row: int) -> Recipe:
        """Recipe number `row` as a validated value."""
        changes: dict[str, Any] = {name: values[row].item() for name, values in self.numbers.items()}
        changes |= {name: column.values[column.codes[row]] for name, column in self.categories.items()}
        return Recipe.model_validate({**self.base.model_dump(), **changes})


def product_table(
    base: Recipe, axes: Mapping[str, Sequence[Any]], framework: FrameworkProfile = DEFAULT_FRAMEWORK
) -> RecipeTable:
    """Every combination of the values of the axes, the last axis changing fastest."""
    sizes = [len(values) for values in axes.values()]
    length = int(np.prod(sizes)) if sizes else 1
    codes = np.unravel_index(np.arange(length), sizes) if sizes else ()
    numbers: dict[str, NDArray[Any]] = {}
    categories: dict[str, Category] = {}
    for (name, values), code in zip(axes.items(), codes, strict=True):
        if name in NUMBERS:
            numbers[name] = np.asarray(values)[code]
        else:
            categories[name] = Category(code.astype(np.int64), tuple(values))
    return RecipeTable(base, length, numbers, categories, framework)


def split(
    table: RecipeTable, cluster: ClusterSpec, rows: Index | None = None, by: Sequence[str] | None = None
) -> Iterator[tuple[Index, Columns]]:
    """Rows that agree in the categories `by` (all when None), each with its columns.

    Categories that are not in `by` take the value of the first row: only give `by` where the reader does not look at
    the others.
    """
    chosen = np.arange(table.length) if rows is None else rows
    names = [name for name in table.categories if by is None or name in by]
    key = np.zeros(len(chosen), dtype=np.int64)
    for name in names:
        key = key * len(table.categories[name].values) + table.categories[name].codes[chosen]
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        index = chosen[order[start:end]]
        yield index, _columns(table, cluster, index)


def _columns(table: RecipeTable, cluster: ClusterSpec, index: Index) -> Columns:
    """Columns of rows of equal categories."""
    categories = {name: column.values[column.codes[index[0]]] for name, column in table.categories.items()}
    columns = columns_of(table.base.model_copy(update=categories), cluster, table.framework)
    numbers: dict[str, Any] = {name: values[index] for name, values in table.numbers.items()}
    tp = numbers.get("tp", columns.tp)
    if "sequence_parallel" in numbers:
        numbers["sequence_parallel"] = numbers["sequence_parallel"] & (tp > 1)
    elif table.base.sequence_parallel or (table.base.sequence_parallel is None and table.framework.sequence_parallel):
        numbers["sequence_parallel"] = np.asarray(tp) > 1
    return replace(columns, **numbers)
