"""The run that stands for a target on few devices: pipeline parallelism goes first, then expert, then tensor parallelism.

Never context parallelism. Experts per device are kept, so that the routed work of one device stays the same (Primus
projection, facts 2.2; arXiv:2610.19423).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lcm

from projectors.columns import Columns, columns_of
from projectors.inputs import library
from projectors.inputs.catalog import LOCAL_MACHINE
from projectors.inputs.cluster import ClusterSpec
from projectors.inputs.model_card import ModelCard
from projectors.inputs.recipe import Recipe, Recompute, Schedule, Sharding
from projectors.inputs.study import Study


@dataclass(frozen=True, slots=True)
class Reduction:
    """One degree that was scaled down, and how it is put back."""

    name: str
    target: int
    measured: int
    restored_by: str


def scale_down(card: ModelCard, recipe: Recipe, devices: int) -> tuple[ModelCard, Recipe, tuple[Reduction, ...]]:
    """The largest run of the same layers that fits on so many devices, in the order of this module.

    One layer of each kind is measured, so the depth does not matter; full recompute is priced, not run.
    """
    reductions = [Reduction("pp", recipe.pp, 1, "the schedule's simulation")] if recipe.pp > 1 else []
    ep, tp = recipe.ep, recipe.tp
    while ep > 1 and devices_needed(tp, recipe.cp, ep) > devices:
        ep = _largest_divisor(recipe.ep, ep - 1)
    while tp > 1 and devices_needed(tp, recipe.cp, ep) > devices:
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
    return library.cluster(f"{LOCAL_MACHINE}-1x{processes}")


def devices_needed(tp: int, cp: int, ep: int) -> int:
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
