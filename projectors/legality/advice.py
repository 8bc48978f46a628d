"""What is legal but worth a word: options without effect, and recipes that pay for something they need not."""

from __future__ import annotations

from projectors.inputs.cluster import ClusterSpec
from projectors.inputs.model_card import ModelCard
from projectors.inputs.recipe import MoeDispatch, Optimizer, Recipe, Sharding
from projectors.legality.rule import Situation


def warnings(card: ModelCard, cluster: ClusterSpec, recipe: Recipe) -> tuple[str, ...]:
    """Remarks on a recipe, each one sentence."""
    s = Situation.of(card, cluster, recipe)
    remarks = (_tensor_parallel(s), _sequence(s), _microbatches(s), *_sharding(s), *_without_effect(s))
    return tuple(remark for remark in remarks if remark)


def _tensor_parallel(s: Situation) -> str:
    domain = s.cluster.tiers[0].size or s.gpus
    if s.recipe.tp <= domain:
        return ""
    return (
        f"tp {s.recipe.tp} is larger than the {domain} GPUs that the network level {s.cluster.tiers[0].name} joins: "
        "the communication of every layer leaves it"
    )


def _sequence(s: Situation) -> str:
    if s.recipe.seq_length <= s.card.max_seq_len:
        return ""
    return f"seq_length {s.recipe.seq_length} is longer than the {s.card.max_seq_len} tokens that {s.card.name} is made for"


def _microbatches(s: Situation) -> str:
    if not 0 < s.microbatches < s.recipe.pp:
        return ""
    return f"{s.microbatches} microbatches do not fill a pipeline of {s.recipe.pp} ranks: some are idle at any time"


def _sharding(s: Situation) -> list[str]:
    sharding, remarks = s.recipe.sharding, []
    if s.recipe.pp > 1 and sharding.parameters:
        remarks.append(f"{sharding.value} with pp {s.recipe.pp} gathers the parameters again for every microbatch")
    elif s.recipe.pp > 1 and sharding.gradients:
        remarks.append(
            f"{sharding.value} with pp {s.recipe.pp} reduces the gradients for every microbatch; DeepSpeed refuses this"
        )
    if sharding.gradients and s.dp * s.recipe.cp == 1:
        remarks.append(f"{sharding.value} has no effect: dp x cp is 1")
    if s.recipe.optimizer is Optimizer.MUON and sharding.gradients:
        remarks.append(f"muon works on whole matrices, which {sharding.value} splits: they are gathered for the step")
    if sharding is Sharding.HSDP and s.recipe.shard_group == 1:
        remarks.append("hsdp with groups of one GPU shards nothing")
    return remarks


def _without_effect(s: Situation) -> list[str]:
    remarks = []
    if s.recipe.tp_overlap and s.recipe.tp == 1:
        remarks.append("tp_overlap has no effect: tp is 1")
    if s.card.moe is None and s.recipe.expert_imbalance > 1:
        remarks.append(f"expert_imbalance has no effect: {s.card.name} is dense")
    if s.card.moe is None and s.recipe.moe_dispatch is MoeDispatch.ALLGATHER:
        remarks.append(f"moe_dispatch has no effect: {s.card.name} is dense")
    return remarks
