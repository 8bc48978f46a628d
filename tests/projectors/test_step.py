"""A whole step: its parts add up, the pipeline and data parallelism leave exposed what they must, published runs are near."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from projectors.columns import columns_of
from projectors.compute.layer import machine_of
from projectors.data_parallel import reduction_seconds
from projectors.inputs.cluster import ClusterSpec
from projectors.inputs.hardware import Precision
from projectors.inputs.loading import load_cluster, load_model, load_study
from projectors.inputs.model_card import ModelCard
from projectors.inputs.recipe import FloatFormat, MoeDispatch, Optimizer, Recipe, Recompute, Schedule, Sharding
from projectors.pipeline import PassKind, busy_seconds, stage_span
from projectors.stages import stage_plan
from projectors.step import StepResult, project_step
from projectors.workload.model import model_parts
from projectors.workload.parameters import model_parameters

STUDIES = (
    "mixtral-8x22b-mi355x-4x8",
    "llama3.1-70b-h100-8x8",
    "deepseek-v3-h100-128x8",
    "qwen3-235b-a22b-mi355x-32x8",
    "llama3.1-8b-h100-1x1",
)
LLAMA_8B, LLAMA_70B = load_model("llama3.1-8b"), load_model("llama3.1-70b")
INTERLEAVED = {"schedule": Schedule.INTERLEAVED}
ONE_NODE, EIGHT_NODES = load_cluster("h100-1x8"), load_cluster("h100-8x8")


def step(card: ModelCard, cluster: ClusterSpec, **recipe: Any) -> StepResult:
    return of_recipe(card, cluster, Recipe(**{"seq_length": 8192, "mbs": 1, **recipe}))


def of_recipe(card: ModelCard, cluster: ClusterSpec, recipe: Recipe) -> StepResult:
    columns = columns_of(recipe, cluster)
    plan = stage_plan(card, columns)
    return project_step(card, cluster, columns, plan, model_parts(card, plan.kinds, columns))


def of_study(name: str) -> StepResult:
    study = load_study(name)
    return of_recipe(study.model, study.cluster, study.recipe)


def exposed_dp(**recipe: Any) -> float:
    """Llama 3.1 8B on one node with nothing overlapped, unless stated."""
    stated = {"gbs": 64, "overlap_grad_reduce": False, "overlap_param_gather": False, **recipe}
    return step(LLAMA_8B, ONE_NODE, **stated).step.exposed.dp


@pytest.mark.parametrize("name", STUDIES)
def test_the_parts_add_up_to_the_step(name: str) -> None:
    result, study = of_study(name), load_study(name)
    assert sum(seconds for _, _, seconds in result.step.parts()) == pytest.approx(result.step.seconds, rel=1e-12)
    assert all(seconds >= 0 for _, _, seconds in result.step.parts())
    assert result.throughput.tokens_per_s * result.step.seconds == pytest.approx(study.recipe.gbs * study.recipe.seq_length)
    assert 0 < (result.throughput.mfu or 0) < 1


@pytest.mark.parametrize("name", STUDIES)
def test_the_pipelines_makespan_is_in_the_step_once(name: str) -> None:
    result = of_study(name)
    outside = ("optimizer", "other", "exposed.dp")
    in_pipeline = sum(seconds for key, _, seconds in result.step.parts() if key not in outside)
    assert in_pipeline == pytest.approx(float(result.timeline.makespan), rel=1e-9)


def test_one_pipeline_rank_has_no_bubble_and_runs_its_microbatches_one_after_another() -> None:
    four, eight = (step(LLAMA_8B, ONE_NODE, gbs=gbs, tp=2) for gbs in (16, 32))
    assert four.step.bubble == eight.step.bubble == four.step.exposed.pp == 0
    assert eight.step.compute == pytest.approx(2 * four.step.compute)
    assert float(eight.timeline.makespan) == pytest.approx(2 * float(four.timeline.makespan))


def test_1f1b_bubble_is_p_minus_1_over_m_plus_p_minus_1() -> None:
    """Equal stages but for embedding and head: 80 layers over 4 ranks, 16 microbatches."""
    result = step(LLAMA_70B, EIGHT_NODES, tp=8, pp=4, gbs=32)
    assert result.step.bubble / float(result.timeline.makespan) == pytest.approx(3 / 19, rel=0.15)


def test_more_microbatches_leave_less_bubble_per_token() -> None:
    few, many = (step(LLAMA_70B, EIGHT_NODES, tp=8, pp=4, gbs=gbs) for gbs in (16, 128))
    assert many.throughput.tokens_per_s > few.throughput.tokens_per_s


def test_sending_between_stages_is_not_free() -> None:
    """The reference sends for nothing (defect 26)."""
    assert step(LLAMA_70B, EIGHT_NODES, tp=8, pp=4, gbs=32).step.exposed.pp > 0


def test_tokens_come_from_what_is_trained() -> None:
    """CP with PP multiplied the reference's throughput by cp (defect 19). Twice the microbatches shorten the bubble a little."""
    one, two = (step(LLAMA_8B, ONE_NODE, pp=2, cp=cp, gbs=64) for cp in (1, 2))
    assert two.throughput.tokens_per_s_per_gpu < 1.05 * one.throughput.tokens_per_s_per_gpu


def test_gradients_are_the_models_own_parameters() -> None:
    """4 H squared per layer without embeddings in the reference (defect 29). One node, ring of 8 at 328.5 GB/s."""
    columns = columns_of(Recipe(gbs=64, seq_length=8192), ONE_NODE)
    parameters = model_parameters(LLAMA_8B).total
    gather, reduce = reduction_seconds(parameters, 0.0, machine_of(ONE_NODE, columns), columns)
    assert reduce == pytest.approx(4 * parameters * 7 / 8 / 328.5e9, rel=0.01)
    assert gather == pytest.approx(2 * parameters * 7 / 8 / 328.5e9, rel=0.01)


def test_overlap_hides_data_parallel_communication_up_to_the_last_bucket() -> None:
    hidden, bare = exposed_dp(overlap_grad_reduce=True, overlap_param_gather=True), exposed_dp()
    buckets = model_parameters(LLAMA_8B).total / 40e6
    lost = (bare - bare / buckets) * 20 / 132  # SMs of an H100 that collectives take while they are hidden
    assert hidden == pytest.approx(bare / buckets + lost, rel=0.05)


def test_bf16_gradients_take_half_the_bytes() -> None:
    wide, narrow = (exposed_dp(grad_reduce_dtype=dtype) for dtype in (FloatFormat.FP32, FloatFormat.BF16))
    assert narrow / wide == pytest.approx((2 + 2) / (4 + 2), rel=0.02)


def test_sharded_parameters_cost_every_microbatch_also_with_a_pipeline() -> None:
    """Added once for pp > 1 in the reference (defect 28)."""
    few, many = (step(LLAMA_70B, EIGHT_NODES, tp=8, pp=2, gbs=gbs, sharding=Sharding.ZERO3).step.exposed.fsdp for gbs in (16, 64))
    assert many == pytest.approx(4 * few)


def test_sharding_the_optimizer_divides_its_step() -> None:
    whole, sharded = (
        step(LLAMA_8B, ONE_NODE, gbs=64, sharding=sharding).step.optimizer for sharding in (Sharding.NONE, Sharding.ZERO1)
    )
    assert whole / sharded == pytest.approx(8, rel=0.02)


def test_the_optimizer_step_streams_its_state() -> None:
    """Adam: 4 passes over fp32 gradients, master and moments read and written, weights written: 42 bytes a parameter."""
    result = step(LLAMA_8B, ONE_NODE, gbs=64, sharding=Sharding.NONE)
    assert result.step.optimizer == pytest.approx(42 * model_parameters(LLAMA_8B).total / (3.35e12 * 0.91), rel=0.01)


def test_state_on_the_host_moves_over_its_link_and_muon_multiplies_matrices() -> None:
    adam = step(LLAMA_8B, ONE_NODE, gbs=64).step.optimizer
    assert step(LLAMA_8B, ONE_NODE, gbs=64, offload_optimizer=1.0).step.optimizer > 10 * adam
    assert step(LLAMA_8B, ONE_NODE, gbs=64, optimizer=Optimizer.MUON).step.optimizer > adam


def test_fp8_is_faster_and_its_mfu_is_over_the_fp8_peak() -> None:
    """70B in fp8 and in bf16 both give 2,816 tokens/s/GPU in the reference (defect 12)."""
    bf16, fp8 = (
        step(LLAMA_70B, EIGHT_NODES, tp=8, pp=4, gbs=256, precision=precision) for precision in (Precision.BF16, Precision.FP8)
    )
    assert fp8.throughput.tokens_per_s > 1.1 * bf16.throughput.tokens_per_s
    assert fp8.throughput.mfu == pytest.approx(fp8.throughput.model_tflops_per_gpu / 1978.9)


def test_full_recompute_costs_the_layers_forward_pass_again_and_no_model_flops() -> None:
    kept, again = (step(LLAMA_8B, ONE_NODE, gbs=64, recompute=recompute) for recompute in (Recompute.NONE, Recompute.FULL))
    assert again.step.recompute == pytest.approx(again.step.compute / 3, rel=0.2)
    assert again.step.compute == pytest.approx(kept.step.compute)
    assert again.throughput.model_tflops_per_gpu / again.throughput.tokens_per_s == pytest.approx(
        kept.throughput.model_tflops_per_gpu / kept.throughput.tokens_per_s
    )


def test_every_operator_is_listed_once_with_what_bounds_it() -> None:
    result = of_study("mixtral-8x22b-mi355x-4x8")
    names = [(row.layer, row.operator) for row in result.operators]
    assert len(names) == len(set(names))
    attention = next(row for row in result.operators if row.operator == "attention")
    assert attention.bound == "compute"
    assert next(row for row in result.operators if row.operator == "attention norm").bound in ("memory", "launch")
    assert next(row for row in result.operators if row.operator == "dispatch").exposed > 0


@pytest.mark.parametrize(
    ("model", "hardware", "nodes", "published", "recipe"),
    [  # NVIDIA Megatron-Bridge, performance summary 26.x: tokens/s/GPU
        ("llama3.1-8b", "b200", 1, 30624, {"mbs": 2, "gbs": 128, "precision": Precision.FP8}),
        ("llama3.1-405b", "b200", 16, 661,
         {"tp": 4, "pp": 8, "vpp": 8, "cp": 2, "gbs": 64, "precision": Precision.FP8, **INTERLEAVED, "tp_overlap": True}),
        ("llama3.1-405b", "h100", 128, 326,
         {"tp": 8, "pp": 8, "vpp": 8, "cp": 2, "gbs": 1536, "precision": Precision.FP8, **INTERLEAVED, "tp_overlap": True}),
        ("qwen3-235b-a22b", "b200", 8, 4104,
         {"pp": 8, "vpp": 2, "ep": 8, "gbs": 1024, "seq_length": 4096, "precision": Precision.FP8, **INTERLEAVED}),
        ("qwen3-30b-a3b", "h100", 2, 8826,
         {"ep": 16, "gbs": 1024, "seq_length": 4096, "precision": Precision.FP8, "moe_dispatch": MoeDispatch.DEEPEP}),
        # AMD Primus: Mixtral 8x22B, bf16, 4 nodes of MI355X
        ("mixtral-8x22b", "mi355x", 4, 3475, {"pp": 4, "ep": 8, "mbs": 2, "gbs": 256}),
    ],
)
def test_published_runs_are_met_within_a_quarter(
    model: str, hardware: str, nodes: int, published: float, recipe: dict[str, Any]
) -> None:
    """No constant is fitted to any of these runs; issue 4 tightens the bound."""
    cluster = load_cluster(f"{hardware}-1x8").model_copy(update={"nodes": nodes})
    result = step(load_model(model), cluster, **recipe)
    assert result.throughput.tokens_per_s_per_gpu == pytest.approx(published, rel=0.25)


def pipelined(**recipe: Any) -> StepResult:
    """Llama 3.1 70B in four pipeline ranks on eight nodes."""
    return step(LLAMA_70B, EIGHT_NODES, **{"tp": 8, "pp": 4, "gbs": 64, **recipe})


def test_a_rank_that_waits_for_its_sends_takes_longer() -> None:
    """1F1B always waits, others where the recipe says so."""
    for schedule in (Schedule.ZB_H1, Schedule.GPIPE):
        free, waiting = (pipelined(schedule=schedule, overlap_p2p=overlap) for overlap in (True, False))
        assert waiting.step.exposed.pp > free.step.exposed.pp
    assert pipelined().step.seconds == pipelined(overlap_p2p=False).step.seconds


def test_post_validation_takes_the_longest_span_of_a_rank_instead_of_the_makespan() -> None:
    """arXiv:2401.10241, section 4: no rank waits for the others between two steps."""
    waiting, free = (
        pipelined(schedule=Schedule.ZB_AUTO, max_in_flight=12, post_validation=each, overlap_grad_reduce=False)
        for each in (False, True)
    )
    assert stage_span(free.timeline) < waiting.timeline.makespan
    for result, pipeline in ((waiting, waiting.timeline.makespan), (free, stage_span(free.timeline))):
        spent = busy_seconds(result.timeline).max() + result.step.bubble + result.step.exposed.pp
        assert spent == pytest.approx(pipeline, rel=1e-9)
    assert free.throughput.tokens_per_s > waiting.throughput.tokens_per_s


def test_both_directions_of_dualpipe_share_the_work_of_one_pipeline() -> None:
    """Each rank computes half of the microbatches on each of two stages: as much in all as with one copy of the model."""
    dual, single = pipelined(schedule=Schedule.DUALPIPE), pipelined(schedule=Schedule.ZB_H1)
    assert busy_seconds(dual.timeline).sum() == pytest.approx(busy_seconds(single.timeline).sum(), rel=1e-9)
    step = dual.step
    spent = step.compute + step.recompute + step.exposed.tp + step.exposed.cp + step.exposed.ep + step.exposed.fsdp
    assert spent == pytest.approx(busy_seconds(dual.timeline).max(), rel=1e-9)


def test_zb_auto_is_no_slower_than_the_handcrafted_schedules_in_their_memory() -> None:
    for schedule, limit in ((Schedule.ZB_H1, 4), (Schedule.ZB_H2, 7)):
        found = pipelined(schedule=Schedule.ZB_AUTO, max_in_flight=limit)
        assert found.timeline.makespan <= pipelined(schedule=schedule).timeline.makespan * (1 + 1e-9)


DEEPSEEK = load_study("deepseek-v3-h100-128x8")


def deepseek(**recipe: Any) -> StepResult:
    """DeepSeek-V3 on 1,024 H100s, dispatcher without overlap of its own."""
    changes = {"moe_dispatch": MoeDispatch.ALLTOALL, "pp": 8, "tp": 1, "ep": 64, "stage_layers": None, **recipe}
    return of_recipe(DEEPSEEK.model, DEEPSEEK.cluster, DEEPSEEK.recipe.model_copy(update=changes))


@pytest.mark.parametrize(
    "pipeline",
    [
        {"schedule": Schedule.DUALPIPE, "vpp": 1}, {"schedule": Schedule.DUALPIPE_V, "vpp": 2},
        {"schedule": Schedule.INTERLEAVED, "vpp": 2},
    ],
    ids=lambda pipeline: pipeline["schedule"].value,
)
def test_blocks_hide_the_expert_exchange_and_passes_without_a_partner_do_not(pipeline: dict[str, Any]) -> None:
    """DeepSeek-V3, 3.2.1: a forward and a backward hide each other's all-to-all; warm-up and cooldown have no partner."""
    plain, overlapped = (deepseek(**pipeline, moe_overlap=each) for each in (False, True))
    assert 0 < overlapped.step.exposed.ep < plain.step.exposed.ep
    assert overlapped.step.seconds < plain.step.seconds
    for result in (plain, overlapped):
        parts = result.step
        spent = parts.compute + parts.recompute + parts.exposed.tp + parts.exposed.cp + parts.exposed.ep + parts.exposed.fsdp
        assert spent == pytest.approx(busy_seconds(result.timeline).max(), rel=1e-9)


def test_a_pass_outside_a_block_takes_as_long_as_without_overlap() -> None:
    plain, overlapped = (deepseek(schedule=Schedule.DUALPIPE, vpp=1, moe_overlap=each).timeline for each in (False, True))
    assert overlapped.end[0] - overlapped.start[0] == pytest.approx(plain.end[0] - plain.start[0], rel=1e-12)


@pytest.mark.parametrize("name", STUDIES)
def test_parts_of_the_passes_add_up_to_what_the_busiest_rank_spends(name: str) -> None:
    result = of_study(name)
    busiest = int(np.argmax(busy_seconds(result.timeline)))
    mine = result.timeline.rank == busiest
    exposed = result.step.exposed
    communication = exposed.tp + exposed.cp + exposed.ep + exposed.fsdp
    parts = result.pass_parts
    assert parts.recompute_of(result.timeline)[mine].sum() == pytest.approx(result.step.recompute, rel=1e-9, abs=1e-12)
    assert parts.communication_of(result.timeline)[mine].sum() == pytest.approx(communication, rel=1e-9, abs=1e-12)
    within = parts.recompute_of(result.timeline) + parts.communication_of(result.timeline)
    assert (within <= (result.timeline.end - result.timeline.start) * (1 + 1e-9) + 1e-12).all()
    assert parts.optimizer_end.max() == pytest.approx(result.step.seconds - result.step.other)
    assert (parts.optimizer_start >= result.timeline.makespan * (1 - 1e-12)).all()


def test_parts_of_blocks_are_those_of_passes_that_hide_each_others_communication() -> None:
    result = deepseek(schedule=Schedule.DUALPIPE, vpp=1, moe_overlap=True)
    communication = result.pass_parts.communication_of(result.timeline)
    forward = result.timeline.kind == PassKind.FORWARD
    inside = result.pass_parts.inside
    for rank in range(result.timeline.ranks):
        mine = forward & (result.timeline.rank == rank) & (result.timeline.chunk == 0)
        paired, alone = communication[mine & inside], communication[mine & ~inside]
        assert len(set(paired)) == len(set(alone)) == 1
        assert paired[0] < alone[0]


@pytest.mark.parametrize("name", STUDIES)
def test_the_details_of_a_part_add_up_to_it(name: str) -> None:
    result = of_study(name).step
    for key, label, seconds in result.parts():
        if key in ("compute", "bubble", "optimizer", "other"):
            listed = sum(detail.seconds for detail in result.details if detail.part == key)
            assert listed == pytest.approx(seconds, rel=1e-9, abs=1e-12), label


def test_clipping_gradients_takes_twice_the_bytes_of_their_norm() -> None:
    details = {each.label: each.seconds for each in step(LLAMA_8B, ONE_NODE, gbs=64, sharding=Sharding.NONE).step.details}
    assert details["Gradient clipping"] == pytest.approx(2 * details["Gradient norm"], rel=0.01)
    gradients = 4 * model_parameters(LLAMA_8B).total / (3.35e12 * 0.91)
    assert details["Gradient norm"] == pytest.approx(gradients, rel=0.02)
    assert details["Update"] == pytest.approx(gradients * 30 / 4, rel=0.02)  # gradients, master, moments, weights: 30 bytes


def test_the_busiest_rank_fills_and_flushes_the_pipeline_of_equal_stages() -> None:
    """1F1B, p = 4: (p - 1) forward and backward passes of idle time, split between ends and between passes."""
    result = step(LLAMA_70B, EIGHT_NODES, tp=8, pp=4, gbs=32, schedule=Schedule.ONE_F_ONE_B)
    kinds = {each.label: each.seconds for each in result.step.details if each.part == "bubble"}
    assert set(kinds) <= {"Pipeline fill", "Pipeline flush", "Between passes"}
    assert sum(kinds.values()) == pytest.approx(result.step.bubble)
    assert kinds.get("Pipeline fill", 0.0) + kinds.get("Pipeline flush", 0.0) > 0
