"""The faults that the reference tool and its peers are reported for, each with its right value.

Numbers in the docstrings are those of `facts/primus_projection.md` section 8; faults of memory that a formula can show
are in `tests/projectors/memory`, of schedules in `tests/projectors/pipeline`, of groups in `tests/projectors/communication`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from projectors.columns import columns_of
from projectors.inputs import Recipe, library
from projectors.inputs.cluster import ClusterSpec
from projectors.inputs.hardware import Precision
from projectors.inputs.loading import load_study
from projectors.inputs.model_card import ModelCard
from projectors.inputs.recipe import Recompute, Schedule, Sharding
from projectors.projection import project, project_study
from projectors.results import MemoryComponent, Projection
from projectors.workload.layers import layer_kinds, layer_operators
from projectors.workload.parameters import model_parameters


def projection(model: str | ModelCard, cluster: str | ClusterSpec, **recipe: Any) -> Projection:
    card = library.model(model) if isinstance(model, str) else model
    machine = library.cluster(cluster) if isinstance(cluster, str) else cluster
    found = project(card, machine, Recipe(**{"seq_length": 4096, **recipe}), memory_margin=0.08)
    assert found.legal, found.violations
    return found


def speed(found: Projection) -> float:
    assert found.throughput is not None
    return found.throughput.tokens_per_s_per_gpu


def seconds(found: Projection) -> float:
    assert found.step is not None
    return found.step.seconds


def test_3_every_model_has_its_own_vocabulary() -> None:
    """Not 100,352 for all: Llama-3-8B has 8.03 B parameters, not 7.80 B."""
    assert model_parameters(library.model("llama3.1-8b")).total == 8_030_261_248


def test_9_the_peak_is_over_all_ranks() -> None:
    """Rank 0 is not the worst when later stages hold more layers."""
    found = projection("llama3.1-8b", "h100-8x8", pp=4, gbs=64, stage_layers=(2, 2, 2, 26), recompute=Recompute.FULL).memory
    assert found is not None
    assert found.peak_rank == 3
    assert found.peak_bytes == found.ranks[3].total > found.ranks[0].total


def test_10_sharded_weights_are_gathered_somewhere() -> None:
    found = projection("llama3.1-8b", "h100-8x8", gbs=64, sharding=Sharding.ZERO3).memory
    plain = projection("llama3.1-8b", "h100-8x8", gbs=64).memory
    assert found is not None
    assert plain is not None
    buffers = MemoryComponent.COMMUNICATION_BUFFERS
    layer = (model_parameters(library.model("llama3.1-8b")).total - 2 * 128256 * 4096 - 4096) // 32
    assert found.ranks[0].nbytes[buffers] - plain.ranks[0].nbytes[buffers] >= 2 * 2 * layer


def test_12_fp8_is_faster_than_bf16() -> None:
    """70B in fp8 and in bf16 both gave 2,816 tokens/s/GPU."""
    recipe = {"tp": 4, "pp": 4, "gbs": 128, "mbs": 1}
    bf16 = projection("llama3.1-70b", "h100-8x8", **recipe)
    fp8 = projection("llama3.1-70b", "h100-8x8", precision=Precision.FP8, **recipe)
    assert 1.15 < speed(fp8) / speed(bf16) < 2


def test_13_small_batches_of_small_experts_pay_for_launches() -> None:
    """DeepSeek-V2-Lite: measured 10,735 tokens/s/GPU at mbs 1 and 30,360 at mbs 8; the reference predicted 26,586 at 1."""
    one, eight = (projection("deepseek-v2-lite", "mi355x-1x8", ep=8, mbs=mbs, gbs=64 * mbs) for mbs in (1, 8))
    assert speed(eight) > 1.4 * speed(one)


def test_14_tensor_parallel_narrows_the_weights_and_keeps_the_rows() -> None:
    card, cluster = library.model("llama3.1-8b"), library.cluster("h100-8x8")

    def gemms(tp: int) -> dict[str, Any]:
        columns = columns_of(Recipe(tp=tp, gbs=64, seq_length=4096), cluster)
        operators = layer_operators(card, layer_kinds(card)[0], columns)
        return {operator.name: operator.gemm for operator in operators if operator.gemm is not None}

    one, four = gemms(1), gemms(4)
    assert four["qkv projection"] == replace(one["qkv projection"], n=one["qkv projection"].n // 4)
    assert four["output projection"] == replace(one["output projection"], k=one["output projection"].k // 4)


def test_16_and_18_windows_make_attention_cheaper() -> None:
    """GPT-OSS was priced as full attention."""
    card = library.model("gpt-oss-20b")
    windowed = projection(card, "h100-1x8", ep=8, gbs=64, seq_length=32768)
    full = projection(card.model_copy(update={"sliding_window": None}), "h100-1x8", ep=8, gbs=64, seq_length=32768)
    assert speed(windowed) > 1.1 * speed(full)


def test_18_multi_token_prediction_costs_time_and_memory() -> None:
    card = library.model("deepseek-v3")
    recipe = {"pp": 16, "ep": 64, "gbs": 1024, "recompute": Recompute.FULL}
    with_mtp = projection(card, "h100-128x8", **recipe)
    without = projection(card.model_copy(update={"mtp_layers": 0}), "h100-128x8", **recipe)
    assert with_mtp.memory is not None
    assert without.memory is not None
    assert seconds(with_mtp) > seconds(without)
    assert with_mtp.memory.ranks[-1].parameter_count > without.memory.ranks[-1].parameter_count


@pytest.mark.parametrize("cp", [2, 4])
def test_19_context_parallel_does_not_multiply_throughput(cp: int) -> None:
    """Llama-3-8B, pp 2 on 16 GPUs: 22,964 at cp 1, 46,233 at cp 2, 77,647 at cp 4 (above the peak FLOPs)."""
    one = projection("llama3.1-8b", "mi355x-2x8", pp=2, gbs=64, seq_length=8192)
    more = projection("llama3.1-8b", "mi355x-2x8", pp=2, cp=cp, gbs=64, seq_length=8192)
    assert more.dp * cp == one.dp
    assert more.microbatches == one.microbatches * cp
    assert speed(more) < 1.08 * speed(one)  # all it can gain is a smaller bubble: more microbatches per rank
    assert more.throughput is not None
    assert more.throughput.mfu is not None
    assert more.throughput.mfu < 1


def test_20_context_parallel_across_nodes_is_neither_free_nor_an_error() -> None:
    """tp 8 x cp 2 gave 25,187 against 10,057 for cp 1; cp 16 raised."""
    one = projection("llama3.1-8b", "mi355x-2x8", tp=8, gbs=16, seq_length=8192)
    two = projection("llama3.1-8b", "mi355x-2x8", tp=8, cp=2, gbs=16, seq_length=8192)
    assert speed(two) < 1.3 * speed(one)
    assert speed(projection("llama3.1-8b", "mi355x-2x8", cp=16, gbs=16, seq_length=32768)) > 0


def test_21_a_schedule_is_what_was_asked_for() -> None:
    """Zero-bubble was silently on. 1F1B's bubble is (p-1)/(m+p-1) where stages are even and sends are free."""
    card = library.model("llama3.1-8b").model_copy(update={"vocab_size": 128})
    found = projection(card, "h100-1x8", pp=4, gbs=32)
    assert found.timeline is not None
    assert found.timeline.schedule is Schedule.ONE_F_ONE_B
    assert found.step is not None
    makespan = found.timeline.makespan
    assert found.step.bubble / makespan == pytest.approx(3 / (16 + 3), rel=0.05)


@pytest.mark.parametrize(
    ("schedule", "vpp", "gbs"), [(Schedule.ONE_F_ONE_B, 1, 32), (Schedule.INTERLEAVED, 2, 64), (Schedule.GPIPE, 1, 16)]
)
def test_23_few_microbatches_are_simulated_and_not_a_crash(schedule: Schedule, vpp: int, gbs: int) -> None:
    """Interleaved with m = p divided by zero; 1F1B with m < p gave 27 units instead of 33."""
    found = projection("llama3.1-8b", "h100-8x8", pp=4, vpp=vpp, schedule=schedule, gbs=gbs)
    assert found.microbatches == gbs // 16
    assert found.step is not None
    assert found.step.bubble > 0


def test_26_pipeline_sends_take_time() -> None:
    """Point-to-point cost zero. Between nodes the boundary tensor crosses the fabric."""
    found = projection("llama3.1-70b", "h100-8x8", tp=8, pp=8, gbs=64)
    assert found.step is not None
    assert found.step.exposed.pp > 0


def test_27_batches_that_do_not_divide_are_rejected_with_the_nearest_that_does() -> None:
    """gbs 120 and 128 gave the same time and other rates."""
    study = load_study("mixtral-8x22b-mi355x-4x8")
    found = project_study(study.model_copy(update={"recipe": study.recipe.model_copy(update={"gbs": 120})}))
    assert not found.legal
    assert found.step is None
    about_gbs = [violation for violation in found.violations if "recipe.gbs" in violation.fields]
    assert [violation.nearest for violation in about_gbs] in ([112], [128])


def test_28_sharded_gathers_are_paid_for_every_microbatch_with_a_pipeline_too() -> None:
    """Exposed FSDP time was added once for pp > 1."""
    few = projection("llama3.1-70b", "h100-8x8", tp=4, pp=2, gbs=32, sharding=Sharding.ZERO3)
    many = projection("llama3.1-70b", "h100-8x8", tp=4, pp=2, gbs=128, sharding=Sharding.ZERO3)
    assert few.step is not None
    assert many.step is not None
    assert many.step.exposed.fsdp == pytest.approx(4 * few.step.exposed.fsdp, rel=0.3)


def test_31_the_network_of_the_cluster_reaches_tensor_and_expert_traffic() -> None:
    """node_bw 100 to 2000 GB/s left both unchanged."""
    cluster = library.cluster("h100-1x8")
    node = cluster.tiers[0].model_copy(update={"bandwidth_gb_s": 45.0})
    slow = cluster.model_copy(update={"tiers": (node, *cluster.tiers[1:])})
    for axis, model, gbs in (("tp", "llama3.1-8b", 16), ("ep", "mixtral-8x7b", 32)):
        fast, slower = (projection(model, machine, gbs=gbs, **{axis: 8}).step for machine in (cluster, slow))
        assert fast is not None
        assert slower is not None
        assert getattr(slower.exposed, axis) > 4 * getattr(fast.exposed, axis)


def test_32_an_imbalanced_router_slows_the_step() -> None:
    even = projection("mixtral-8x7b", "h100-1x8", ep=8, gbs=32)
    hot = projection("mixtral-8x7b", "h100-1x8", ep=8, gbs=32, expert_imbalance=1.4)
    assert 1.1 < seconds(hot) / seconds(even) < 1.4


def test_33_full_recompute_runs_every_layer_once_more() -> None:
    """A step with full recompute takes about 4/3 of one without (one more forward of three)."""
    none = projection("llama3.1-8b", "h100-1x8", gbs=64)
    full = projection("llama3.1-8b", "h100-1x8", gbs=64, recompute=Recompute.FULL)
    some = projection("llama3.1-8b", "h100-1x8", gbs=64, recompute=Recompute.FULL, recompute_num_layers=8)
    assert full.step is not None
    assert some.step is not None
    assert 1.25 < seconds(full) / seconds(none) < 1.36
    assert some.step.recompute == pytest.approx(full.step.recompute / 4, rel=0.01)


def test_36_wide_expert_parallelism_over_many_nodes_is_priced() -> None:
    """ep of 208 and more divided by zero."""
    card = library.model("deepseek-v3")
    found = projection(card, "h100-128x8", ep=256, pp=4, gbs=1024, recompute=Recompute.FULL)
    assert found.step is not None
    assert found.step.exposed.ep > 0


def test_39_deepseek_v3_needs_no_virtual_stages_by_hand() -> None:
    """61 layers, a prime number, on 16 ranks."""
    found = projection("deepseek-v3", "h100-128x8", pp=16, ep=64, gbs=1024, recompute=Recompute.FULL)
    assert found.memory is not None
    assert len(found.memory.ranks) == 16


@pytest.mark.parametrize("study", library.names("studies"))
def test_the_parts_of_a_step_add_up_exactly(study: str) -> None:
    found = project_study(load_study(study))
    assert found.step is not None
    assert found.timeline is not None
    assert sum(part for _, _, part in found.step.parts()) == pytest.approx(found.step.seconds, rel=1e-12)
    assert found.throughput is not None
    gpus, recipe = load_study(study).cluster.gpus, load_study(study).recipe
    assert found.throughput.tokens_per_s_per_gpu == pytest.approx(recipe.gbs * recipe.seq_length / found.step.seconds / gpus)


@pytest.mark.parametrize("study", library.names("studies"))
def test_shipped_studies_are_legal_and_fit(study: str) -> None:
    found = project_study(load_study(study))
    assert found.legal, found.violations
    assert found.feasible
