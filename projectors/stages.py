"""Which layers sit on which virtual stage, and which pipeline rank runs it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projectors.columns import Columns
from projectors.inputs.model_card import ModelCard
from projectors.inputs.recipe import Schedule
from projectors.pipeline import placement, stages_of_ranks
from projectors.workload.layers import LayerKind, distinct_kinds, layer_kinds
from projectors.workload.model import ENDS


@dataclass(frozen=True, slots=True)
class StagePlan:
    """Layers of every virtual stage, in model order; those of a second copy of the model (DualPipe) after those of the first.
    The embedding is on the first virtual stage of a copy, head and loss on its last."""

    ranks: int
    chunks: int                       # virtual stages of a rank: vpp, times the copies
    copies: int                       # of the model along the pipeline
    kinds: tuple[LayerKind, ...]      # distinct layer kinds, K of them
    layers: tuple[tuple[int, ...], ...]  # of every virtual stage: number of the kind of each layer, first to last
    layer_counts: NDArray[np.int64]   # [V, K]: layers of each kind on each virtual stage
    rank_of: NDArray[np.int64]        # [V]: pipeline rank of each virtual stage
    stages_of: NDArray[np.int64]      # [ranks, chunks]: virtual stage of each chunk of a rank

    @property
    def virtual_stages(self) -> int:
        return self.ranks * self.chunks

    @property
    def length(self) -> int:
        """Virtual stages of one copy of the model."""
        return self.virtual_stages // self.copies


def even_layers(num_layers: int, virtual_stages: int) -> tuple[int, ...]:
    """Layers of each virtual stage when none are stated: as even as can be.

    Where the count does not divide, the stages that carry an end of the model get one layer fewer: the last (head and
    loss) first, then the first (embedding), then back from the end.
    """
    least, more = divmod(num_layers, virtual_stages)
    counts = [least + 1] * virtual_stages
    lighter = [virtual_stages - 1, 0, *range(virtual_stages - 2, 0, -1)]
    for stage in lighter[: virtual_stages - more]:
        counts[stage] = least
    return tuple(counts)


def part_counts(plan: StagePlan) -> NDArray[np.int64]:
    """How often each virtual stage holds each part: [V, P]."""
    ends = np.zeros((plan.virtual_stages, ENDS), dtype=np.int64)
    ends[:: plan.length, 0] = ends[plan.length - 1 :: plan.length, 1] = 1
    return np.hstack([plan.layer_counts, ends])


def recomputed_counts(plan: StagePlan, columns: Columns) -> NDArray[np.int64]:
    """Layers of each kind that full recompute runs again on each virtual stage, [V, P]: the first
    `recompute_num_layers` of it, or all (Megatron-Core's `block` method)."""
    first = columns.recompute_num_layers
    counts = np.zeros((plan.virtual_stages, len(plan.kinds) + ENDS), dtype=np.int64)
    for stage, layers in enumerate(plan.layers):
        for kind in layers[:first]:
            counts[stage, kind] += 1
    return counts


def stage_plan(card: ModelCard, columns: Columns) -> StagePlan:
    """The plan of a legal recipe: `stage_layers` where stated, even otherwise."""
    return _plan(card, columns.pp, columns.vpp, columns.schedule, columns.stage_layers)


@lru_cache(maxsize=4096)
def _plan(card: ModelCard, ranks: int, vpp: int, schedule: Schedule, stage_layers: tuple[int, ...] | None) -> StagePlan:
    every, kinds = layer_kinds(card), distinct_kinds(card)
    copies, chunks = schedule.copies, vpp * schedule.copies
    sizes = stage_layers or even_layers(len(every), ranks * vpp)
    numbers = iter(kinds.index(kind) for kind in every)
    layers = tuple(tuple(islice(numbers, size)) for size in sizes) * copies
    counts = np.array([np.bincount(stage, minlength=len(kinds)) for stage in map(_integers, layers)])
    rank_of, stages_of = placement(schedule, ranks, chunks), stages_of_ranks(schedule, ranks, chunks)
    return StagePlan(ranks, chunks, copies, kinds, layers, _fixed(counts), rank_of, stages_of)


def _integers(numbers: tuple[int, ...]) -> NDArray[np.int64]:
    return np.array(numbers, dtype=np.int64)


def _fixed(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array
