"""Memory of many recipes as arrays: what filters candidates before anything dearer looks at them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from projectors.inputs.cluster import ClusterSpec
from projectors.inputs.model_card import ModelCard
from projectors.inputs.recipe import Schedule
from projectors.memory.parts import read_parts
from projectors.memory.ranks import rank_bytes
from projectors.recipe_table import WORKLOAD_CATEGORIES, RecipeTable, split
from projectors.stages import stage_plan
from projectors.workload.layers import distinct_kinds
from projectors.workload.model import model_parts


def peak_bytes(card: ModelCard, cluster: ClusterSpec, table: RecipeTable) -> NDArray[np.int64]:
    """Peak bytes over the pipeline ranks of every recipe of a table of legal recipes, [n].

    Operators are read once for all recipes of equal workload categories; pipeline, sharding and optimizer split further.
    """
    peak = np.zeros(table.length, dtype=np.int64)
    for rows, columns in split(table, cluster, by=WORKLOAD_CATEGORIES):
        for apart in (False, True):  # whether embedding and head sit on different ranks decides who holds which weight
            placed = replace(columns, pp=2 if apart else 1, schedule=Schedule.ONE_F_ONE_B)
            parts = read_parts(card, model_parts(card, distinct_kinds(card), placed), placed, len(rows))
            position = np.full(table.length, -1, dtype=np.intp)
            position[rows] = np.arange(len(rows))
            for group, of_group in split(table, cluster, rows):
                if (of_group.pp > 1 and not of_group.schedule.ends_meet) is not apart:
                    continue
                plan = stage_plan(card, of_group)
                total = rank_bytes(card, cluster.hardware, of_group, plan, parts.rows(position[group])).total
                peak[group] = total.max(axis=0).astype(np.int64)
    return peak
