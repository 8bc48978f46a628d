"""A legal recipe that fits, for a model and a cluster that nobody has tuned yet: where File → New starts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from projectors.columns import columns_of
from projectors.inputs.cluster import ClusterSpec
from projectors.inputs.model_card import ModelCard
from projectors.inputs.recipe import Recipe, Recompute, Schedule
from projectors.legality import violations
from projectors.memory import memory_breakdown
from projectors.results import MemoryBreakdown
from projectors.stages import stage_plan
from projectors.workload.model import model_parts

USUAL_SEQUENCE = 8192
"""Tokens per sequence to start with, or the model's longest if that is shorter: common in published pre-training runs."""

MICROBATCHES_PER_STAGE = 4
"""Microbatches per pipeline rank: a 1F1B bubble of about a fifth, (p - 1) / (4 p + p - 1)."""

LEAST_MICROBATCHES = 8


def starting_recipe(card: ModelCard, cluster: ClusterSpec, *, memory_margin: float) -> Recipe:
    """The first recipe that is legal and fits, trying little model parallelism and no recompute first.

    Order: the GPUs of one replica (tp x pp) from few to many, tensor parallel before pipeline, then none, selective and
    full recompute. Where nothing fits, the legal recipe with the smallest peak; where nothing is legal, plain data
    parallelism, whose faults the window then shows.
    """
    smallest: tuple[int, Recipe] | None = None
    for recipe in _candidates(card, cluster):
        if violations(card, cluster, recipe):
            continue
        found = _memory(card, cluster, recipe, memory_margin)
        if found.feasible:
            return recipe
        if smallest is None or found.peak_bytes < smallest[0]:
            smallest = (found.peak_bytes, recipe)
    return smallest[1] if smallest else _recipe(card, cluster, tp=1, pp=1, ep=1, recompute=Recompute.NONE)


def _candidates(card: ModelCard, cluster: ClusterSpec) -> Iterator[Recipe]:
    within_node = [tp for tp in _powers_of_two(cluster.gpus_per_node) if cluster.gpus_per_node % tp == 0]
    ranks = [pp for pp in _powers_of_two(min(card.num_layers, cluster.gpus)) if cluster.gpus % pp == 0]
    for tp, pp in sorted(product(within_node, ranks), key=lambda degrees: (degrees[0] * degrees[1], degrees[1])):
        for recompute in (Recompute.NONE, Recompute.SELECTIVE, Recompute.FULL):
            yield _recipe(card, cluster, tp=tp, pp=pp, ep=_expert_parallel(card, cluster, pp), recompute=recompute)


def _expert_parallel(card: ModelCard, cluster: ClusterSpec, pp: int) -> int:
    """As many GPUs as one node has, fewer where they do not divide the experts or the stage."""
    if card.moe is None:
        return 1
    experts, stage = card.moe.num_experts, cluster.gpus // pp
    return next(ep for ep in range(cluster.gpus_per_node, 0, -1) if experts % ep == 0 and stage % ep == 0)


def _recipe(card: ModelCard, cluster: ClusterSpec, *, tp: int, pp: int, ep: int, recompute: Recompute) -> Recipe:
    data_parallel = max(cluster.gpus // (tp * pp), 1)
    microbatches = max(LEAST_MICROBATCHES, MICROBATCHES_PER_STAGE * pp)
    return Recipe(
        tp=tp, pp=pp, ep=ep, mbs=1, gbs=data_parallel * microbatches, seq_length=min(USUAL_SEQUENCE, card.max_seq_len),
        recompute=recompute, schedule=Schedule.ONE_F_ONE_B,
    )


def _memory(card: ModelCard, cluster: ClusterSpec, recipe: Recipe, margin: float) -> MemoryBreakdown:
    columns = columns_of(recipe, cluster)
    plan = stage_plan(card, columns)
    return memory_breakdown(card, cluster.hardware, columns, plan, model_parts(card, plan.kinds, columns), margin)


def _powers_of_two(most: int) -> list[int]:
    return [1 << exponent for exponent in range(most.bit_length()) if 1 << exponent <= most]
