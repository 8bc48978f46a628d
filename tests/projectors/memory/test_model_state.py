"""Weights, gradients and optimizer state, against the byte counts that the literature states."""

from __future__ import annotations

from typing import Any

import pytest

from projectors.columns import columns_of
from projectors.inputs import Recipe, library
from projectors.inputs.cluster import ClusterSpec
from projectors.inputs.hardware import Precision
from projectors.inputs.model_card import ModelCard
from projectors.inputs.recipe import FloatFormat, Optimizer, Sharding
from projectors.memory import memory_breakdown
from projectors.results import MemoryBreakdown, MemoryComponent
from projectors.stages import stage_plan
from projectors.workload.model import model_parts
from projectors.workload.parameters import model_parameters

STATE = (MemoryComponent.PARAMETERS, MemoryComponent.GRADIENTS, MemoryComponent.OPTIMIZER)


def memory(card: ModelCard, cluster: ClusterSpec, **recipe: Any) -> MemoryBreakdown:
    values: dict[str, Any] = {"gbs": 512, "seq_length": 4096, **recipe}
    columns = columns_of(Recipe(**values), cluster)
    plan = stage_plan(card, columns)
    return memory_breakdown(card, cluster.hardware, columns, plan, model_parts(card, plan.kinds, columns), 0.0)


def state_bytes(breakdown: MemoryBreakdown, rank: int = 0) -> int:
    return sum(breakdown.ranks[rank].nbytes[component] for component in STATE)


def test_mixed_precision_adam_takes_18_bytes_per_parameter() -> None:
    """Megatron-LM's default: 2 weight + 4 gradient + 4 master + 8 moments (facts/primus_projection.md 1.4, defect 5)."""
    card, cluster = library.model("llama3.1-8b"), library.cluster("h100-1x1")
    found = memory(card, cluster, sharding=Sharding.NONE)
    assert state_bytes(found) == 18 * model_parameters(card).total


def test_zero1_takes_6_bytes_and_12_over_the_data_parallel_ranks() -> None:
    """ZeRO, arXiv:1910.02054, 3.1, with fp32 gradients."""
    card, cluster = library.model("llama3.1-8b"), library.cluster("h100-8x8")
    number = model_parameters(card).total
    assert state_bytes(memory(card, cluster, sharding=Sharding.ZERO1)) == pytest.approx(number * (6 + 12 / 64), rel=1e-9)


def test_zero2_shards_gradients_too() -> None:
    card, cluster = library.model("llama3.1-8b"), library.cluster("h100-8x8")
    number = model_parameters(card).total
    assert state_bytes(memory(card, cluster, sharding=Sharding.ZERO2)) == pytest.approx(number * (2 + 16 / 64), rel=1e-9)


def test_llama_70b_fully_sharded_over_64_gpus_is_about_20_gib_and_not_271() -> None:
    """Defect 2 of the reference: FSDP2 sharded the optimizer only and gave 271 GiB (facts/primus_projection.md 8)."""
    card, cluster = library.model("llama3.1-70b"), library.cluster("h100-8x8")
    found = state_bytes(memory(card, cluster, sharding=Sharding.ZERO3))
    assert found == pytest.approx(model_parameters(card).total * 16 / 64, rel=1e-9)
    assert found / 2**30 < 20


def test_hybrid_sharding_shards_over_its_group_only() -> None:
    card, cluster = library.model("llama3.1-8b"), library.cluster("h100-8x8")
    over_8 = state_bytes(memory(card, cluster, sharding=Sharding.HSDP, shard_group=8))
    over_64 = state_bytes(memory(card, cluster, sharding=Sharding.ZERO3))
    assert over_8 == pytest.approx(8 * over_64, rel=1e-6)


@pytest.mark.parametrize("tp", [2, 4, 8])
def test_tensor_parallel_divides_matrices(tp: int) -> None:
    """Defect 1: tp never divided anything. All but the norms of Llama-3.1-8B is split; its vocabulary needs no padding
    beyond 128 x tp rows."""
    card, cluster = library.model("llama3.1-8b"), library.cluster("h100-8x8")
    norms = (2 * card.num_layers + 1) * card.hidden_size
    padding = (-card.vocab_size % (128 * tp)) * 2 * card.hidden_size
    expected = (model_parameters(card).total - norms + padding) / tp + norms
    assert memory(card, cluster, tp=tp).ranks[0].parameter_count == expected


def test_routed_experts_are_divided_by_ep_and_etp_and_never_by_tp() -> None:
    """NVIDIA/Megatron-LM issue 4050 (facts/peers.md)."""
    card, cluster = library.model("mixtral-8x7b"), library.cluster("h100-8x8")
    assert card.moe is not None
    experts = card.num_layers * card.moe.num_experts * 3 * card.hidden_size * card.moe.moe_ffn_hidden_size

    def count(**recipe: Any) -> int:
        return memory(card, cluster, **recipe).ranks[0].parameter_count

    whole = count()
    assert whole - count(ep=8) == experts * 7 // 8
    assert whole - count(ep=4, etp=2) == experts * 7 // 8
    assert count(tp=2, sequence_parallel=True) - count(tp=2, sequence_parallel=True, ep=8) == experts * 7 // 8


def test_expert_state_is_sharded_over_expert_data_parallel() -> None:
    """Defect 4 and Megatron-Bridge pull 3744: with ep = 8 on 64 GPUs, dense state is shared by 64 ranks and expert
    state by 8."""
    card, cluster = library.model("mixtral-8x7b"), library.cluster("h100-8x8")
    assert card.moe is not None
    experts = card.num_layers * card.moe.num_experts * 3 * card.hidden_size * card.moe.moe_ffn_hidden_size / 8
    dense = model_parameters(card).total - 8 * experts
    found = memory(card, cluster, ep=8).ranks[0].nbytes[MemoryComponent.OPTIMIZER]
    assert found == pytest.approx(12 * (dense / 64 + experts / 8), rel=1e-9)


def test_every_pipeline_rank_reports_its_own_layers() -> None:
    """NVIDIA-NeMo/Megatron-Bridge pull 5077: a layout of 1, 2, 2, 3 layers must not be averaged over pp."""
    card = library.model("llama3.1-8b").model_copy(update={"num_layers": 8, "tied_embeddings": False})
    cluster = library.cluster("h100-8x8")
    counts = [rank.parameter_count for rank in memory(card, cluster, pp=4, stage_layers=(1, 2, 2, 3)).ranks]
    layer = counts[1] // 2
    embedding = card.vocab_size * card.hidden_size
    assert counts == [layer + embedding, 2 * layer, 2 * layer, 3 * layer + embedding + card.hidden_size]


def test_tied_embeddings_are_counted_once_on_one_rank_and_twice_across_ranks() -> None:
    """Defect 6. Megatron-LM keeps a copy on the last stage and adds the gradients up."""
    card, cluster = library.model("gpt3-175b"), library.cluster("h100-8x8")
    whole = memory(card, cluster).ranks[0].parameter_count
    ranks = memory(card, cluster, pp=4).ranks
    padded = -(-card.vocab_size // 128) * 128
    assert sum(rank.parameter_count for rank in ranks) - whole == padded * card.hidden_size


def test_the_embedding_of_the_head_and_the_loss_share_rank_0_on_a_v_shaped_pipeline() -> None:
    """Defect 25."""
    from projectors.inputs.recipe import Schedule

    card, cluster = library.model("llama3.1-8b"), library.cluster("h100-8x8")
    ranks = memory(card, cluster, pp=4, vpp=2, schedule=Schedule.ZBV).ranks
    assert ranks[0].nbytes[MemoryComponent.LOGITS] > 0
    assert all(rank.nbytes[MemoryComponent.LOGITS] == 0 for rank in ranks[1:])


@pytest.mark.parametrize(
    ("optimizer", "per_parameter"),
    [(Optimizer.ADAM, 12), (Optimizer.ADAM_BF16_MOMENTS, 8), (Optimizer.SGD, 8)],
)
def test_optimizer_state_follows_its_formats(optimizer: Optimizer, per_parameter: int) -> None:
    card, cluster = library.model("llama3.1-8b"), library.cluster("h100-1x1")
    found = memory(card, cluster, sharding=Sharding.NONE, optimizer=optimizer).ranks[0]
    assert found.nbytes[MemoryComponent.OPTIMIZER] == per_parameter * model_parameters(card).total


def test_bf16_master_weights_need_no_copy_and_bf16_gradients_take_half() -> None:
    card, cluster = library.model("llama3.1-8b"), library.cluster("h100-1x1")
    recipe = {"sharding": Sharding.NONE, "master_weights": FloatFormat.BF16, "grad_reduce_dtype": FloatFormat.BF16}
    assert state_bytes(memory(card, cluster, **recipe)) == (2 + 2 + 8) * model_parameters(card).total


def test_fp32_training_keeps_one_weight() -> None:
    card, cluster = library.model("llama3.1-8b"), library.cluster("h100-1x1")
    found = memory(card, cluster, sharding=Sharding.NONE, precision=Precision.FP32)
    assert state_bytes(found) == (4 + 4 + 8) * model_parameters(card).total


def test_offload_moves_optimizer_state_to_the_host() -> None:
    card, cluster = library.model("llama3.1-8b"), library.cluster("h100-1x1")
    half = memory(card, cluster, offload_optimizer=0.5).ranks[0].nbytes[MemoryComponent.OPTIMIZER]
    none = memory(card, cluster).ranks[0].nbytes[MemoryComponent.OPTIMIZER]
    assert half == pytest.approx(none / 2, abs=1)
