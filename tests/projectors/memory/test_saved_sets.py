"""What a framework's kernels keep, each option against its own count of bytes; and what measured runs say of them."""

from __future__ import annotations

import numpy as np
import pytest

from projectors.columns import Columns, columns_of
from projectors.inputs import Recipe, library
from projectors.inputs.changing import replace
from projectors.inputs.framework import DEFAULT_FRAMEWORK, FrameworkProfile, LossKernel
from projectors.inputs.hardware import Precision
from projectors.inputs.model_card import ModelCard
from projectors.inputs.recipe import Sharding
from projectors.memory.state import state_bytes
from projectors.projection import project_study
from projectors.results import MemoryComponent, RankMemory
from projectors.validation import framework_of, project, shipped_cases, summary, validate
from projectors.workload.ends import loss_bytes
from projectors.workload.layers import distinct_kinds, layer_operators
from projectors.workload.parameters import model_parameters

DENSE = library.model("gpt3-175b")
MOE = library.model("mixtral-8x7b")
TOKENS = 2 * 2048


def columns(card: ModelCard, framework: FrameworkProfile, **recipe: object) -> Columns:
    stated = Recipe.model_validate({"gbs": 64, "mbs": 2, "seq_length": 2048, "tp": 4, **recipe})
    return columns_of(stated, library.cluster("h100-8x8"), framework)


def saved(card: ModelCard, **options: object) -> float:
    """Bytes that one layer keeps of one microbatch."""
    framework = DEFAULT_FRAMEWORK.model_copy(update=options)
    operators = layer_operators(card, distinct_kinds(card)[0], columns(card, framework))
    return float(np.sum([operator.saved_bytes() for operator in operators]))


def test_unfused_attention_keeps_five_bytes_per_score_with_dropout() -> None:
    """arXiv:2205.05198, 4.1: 5 a s^2 b bytes of softmax, its mask and its output; flash attention keeps 4 a s b instead."""
    heads = DENSE.num_attention_heads // 4
    flash = 4 * TOKENS * heads
    scores = TOKENS * heads * 2048
    assert saved(DENSE, flash_attention=False) - saved(DENSE) == 2 * scores - flash
    assert saved(DENSE, flash_attention=False, attention_dropout=True) - saved(DENSE) == 5 * scores - flash
    assert saved(DENSE, attention_dropout=True) == saved(DENSE)


def test_dropout_keeps_a_byte_per_value_behind_attention_and_mlp() -> None:
    """arXiv:2205.05198, 4.1: 2 s b h / t bytes of a layer, with sequence parallel."""
    assert saved(DENSE, hidden_dropout=True) - saved(DENSE) == 2 * TOKENS / 4 * DENSE.hidden_size


def test_an_unfused_activation_keeps_the_activated_branch_of_every_copy() -> None:
    assert MOE.moe is not None
    copies = TOKENS / 4 * MOE.moe.top_k
    assert saved(MOE, fused_activation=False) - saved(MOE) == 2 * copies * MOE.moe.moe_ffn_hidden_size
    assert saved(DENSE, fused_activation=False) == saved(DENSE)  # GELU without a gate has no product


@pytest.mark.parametrize(("fused", "kernel", "kept", "peak"), [
    (True, LossKernel.IN_PLACE, 2, 2),
    (True, LossKernel.COMPILED, 4, 10),
    (False, LossKernel.VOCAB_PARALLEL, 4, 6),
    (False, LossKernel.EAGER, 6, 14),
])
def test_the_loss_holds_so_many_bytes_per_logit(fused: bool, kernel: LossKernel, kept: int, peak: int) -> None:
    framework = DEFAULT_FRAMEWORK.model_copy(update={"fused_loss" if fused else "unfused_loss": kernel})
    assert loss_bytes(columns(DENSE, framework, cross_entropy_fusion=fused)) == (kept, peak)
    logits = TOKENS * 51_200 // 4  # a multiple of 128 x tp needs no padding
    cluster = library.cluster("h100-8x8")
    recipe = Recipe(gbs=64, mbs=2, seq_length=2048, tp=4, pp=4, cross_entropy_fusion=fused)
    memory = project(DENSE, cluster, recipe, memory_margin=0.0, framework=framework).memory
    assert memory is not None
    last: RankMemory = memory.ranks[-1]
    both = last.nbytes[MemoryComponent.LOGITS] + last.nbytes[MemoryComponent.TEMPORARY]
    if peak > 2:
        assert both == peak * logits


def test_recompute_works_when_the_logits_of_its_microbatch_are_gone() -> None:
    """A rank with the head holds the logits or the working set of a recomputed layer, not both."""
    study = library.study("llama3.1-8b-h100-1x1")
    full = replace(study, "recipe", {"recompute": "full", "gbs": 16, "mbs": 4, "seq_length": 8192})
    found = project(full.model, full.cluster, full.recipe, memory_margin=0.0).memory
    assert found is not None
    (rank,) = found.ranks
    one_layer = full.model.num_layers and 4 * 8192 * 4096 * 2
    assert rank.nbytes[MemoryComponent.LOGITS] + rank.nbytes[MemoryComponent.TEMPORARY] < 4 * 8192 * 128256 * 2 + 16 * one_layer


def test_an_unfused_norm_keeps_its_input_in_fp32_and_the_normalized_value() -> None:
    """4 + 2 bytes per value where the fused one keeps 2."""
    assert saved(DENSE, fused_norm=False) - saved(DENSE) == 2 * 4 * TOKENS / 4 * DENSE.hidden_size


def test_nanotrons_layer_keeps_what_its_runs_say() -> None:
    """Slopes of measured memory over the microbatch size (huggingface.co/nanotron/old_bench, first stage of pp 4 and 8): 38.4
    bytes per token and feature of a layer with tp 1, 21.2 with tp 2, 12.6 with tp 4. h 2048, ffn 4096, 32 heads of 64."""
    update = {
        "hidden_size": 2048, "ffn_hidden_size": 4096, "num_attention_heads": 32, "num_query_groups": 32, "head_dim": 64,
    }
    card = library.model("llama2-7b").model_copy(update=update)
    nanotron = library.framework("nanotron")
    for tp, measured in ((1, 38.4), (2, 21.2), (4, 12.6)):
        operators = layer_operators(card, distinct_kinds(card)[0], columns(card, nanotron, tp=tp))
        kept = float(np.sum([operator.saved_bytes() for operator in operators])) / (TOKENS * card.hidden_size)
        assert kept == pytest.approx(measured, rel=0.03)


def test_recompute_by_operators_keeps_every_second_product() -> None:
    """Llama 3 8B: layer input, wq, wv, attention, w1 and w2 of the seven products and attention; 4096, 8 of 32 heads, 14336."""
    study = replace(replace(library.study("llama3.1-8b-h100-1x1"), "framework", "torchtitan"), "recipe.recompute", "selective")
    study = replace(replace(study, "recipe.mbs", 1), "recipe.seq_length", 8192)
    named = replace(study, "recipe.recompute_modules", ["core_attention"])
    by_operator, by_module = (
        found.ranks[0].nbytes[MemoryComponent.ACTIVATIONS]
        for each in (study, named)
        if (found := project_study(each).memory) is not None
    )
    per_token = 2 * (4096 + 4096 + 1024 + 4096 + 14336 + 4096) + 4 * 32
    ends = 2 * 2 * 4096 + 4 + 8  # input of the final norm and of the head, the norm's statistic, the token's number
    assert by_operator == 8192 * (32 * per_token + ends)
    assert by_module > by_operator


def test_mxfp8_keeps_a_byte_of_scale_per_block_of_32() -> None:
    """Inputs of projections kept in fp8 are 1 byte per value, in mxfp8 33 bytes per 32; so are the cached casts of weights."""
    fp8, mxfp8 = (columns(DENSE, DEFAULT_FRAMEWORK, precision=each) for each in (Precision.FP8, Precision.MXFP8))
    kinds = distinct_kinds(DENSE)[0]
    by_name = [
        {tensor.name: tensor.nbytes for operator in layer_operators(DENSE, kinds, each) for tensor in operator.saved}
        for each in (fp8, mxfp8)
    ]
    assert by_name[1]["attention norm output"] == by_name[0]["attention norm output"] * 33 / 32
    cluster = library.cluster("b200-8x8")
    weights = [
        memory.ranks[0].nbytes[MemoryComponent.PARAMETERS]
        for precision in (Precision.BF16, Precision.FP8, Precision.MXFP8)
        if (memory := project(
            DENSE, cluster, Recipe(gbs=64, seq_length=2048, tp=8, precision=precision), memory_margin=0.0
        ).memory) is not None
    ]
    assert weights[2] - weights[0] == pytest.approx((weights[1] - weights[0]) * 33 / 32, abs=2)


def test_sequence_parallel_is_off_where_the_framework_has_none_and_the_recipe_leaves_it_open() -> None:
    without = DEFAULT_FRAMEWORK.model_copy(update={"sequence_parallel": False})
    assert columns(DENSE, DEFAULT_FRAMEWORK).sp == 4
    assert columns(DENSE, without).sp == 1
    assert columns(DENSE, without, sequence_parallel=True).sp == 4


def test_gradients_take_the_bytes_that_the_framework_states_for_the_precision() -> None:
    framework = DEFAULT_FRAMEWORK.model_copy(update={"gradient_bytes": {Precision.FP16: 2.5}})
    assert state_bytes(columns(DENSE, framework, precision=Precision.FP16)).gradient == 2.5
    assert state_bytes(columns(DENSE, framework, precision=Precision.BF16)).gradient == 4


@pytest.mark.parametrize(("sharding", "gpus", "copies"), [(Sharding.NONE, 8, 2), (Sharding.NONE, 1, 1), (Sharding.ZERO1, 8, 1)])
def test_buckets_copy_gradients_that_are_reduced_and_not_sharded(sharding: Sharding, gpus: int, copies: int) -> None:
    card, cluster = library.model("llama2-7b"), library.cluster(f"h100-1x{gpus}")
    framework = DEFAULT_FRAMEWORK.model_copy(update={"gradient_buckets": True})
    recipe = Recipe(gbs=8, seq_length=2048, sharding=sharding)
    memory = project(card, cluster, recipe, memory_margin=0.0, framework=framework).memory
    assert memory is not None
    assert memory.ranks[0].nbytes[MemoryComponent.GRADIENTS] == copies * 4 * model_parameters(card).total


def test_boundary_copies_are_kept_by_every_microbatch_in_flight() -> None:
    cluster, recipe = library.cluster("h100-8x8"), Recipe(gbs=64, mbs=2, seq_length=2048, tp=4, pp=4)

    def first(copies: float) -> RankMemory:
        framework = DEFAULT_FRAMEWORK.model_copy(update={"boundary_copies": copies})
        memory = project(DENSE, cluster, recipe, memory_margin=0.0, framework=framework).memory
        assert memory is not None
        return memory.ranks[0]

    kept = first(3).nbytes[MemoryComponent.ACTIVATIONS] - first(0).nbytes[MemoryComponent.ACTIVATIONS]
    assert kept == 3 * 4 * 2 * TOKENS / 4 * DENSE.hidden_size  # 3 copies, 4 microbatches in flight, 2 bytes a value


@pytest.mark.parametrize(("framework", "median", "p90"), [
    ("megatron-core", 0.03, 0.08),
    ("zero-bubble", 0.03, 0.08),
    ("nanotron", 0.06, 0.2),
    ("megatron-deepspeed", 0.06, 0.12),
    ("torchtitan", 0.03, 0.1),
])
def test_published_memory_is_met_with_one_set_of_constants_per_framework(framework: str, median: float, p90: float) -> None:
    cases = [
        case for case in shipped_cases()
        if case.measured.memory_gib and case.framework != "Megatron-LM CI" and framework_of(case.framework).name == framework
    ]
    errors = summary(each.memory_error for each in validate(cases[::2]))
    assert errors is not None
    assert errors.median < median
    assert errors.p90 < p90


def test_megatron_lms_own_tests_are_within_two_percent_in_the_median() -> None:
    """343 command lines with peak allocated memory on the last rank: one set of constants for all of them."""
    found = validate([case for case in shipped_cases() if case.framework == "Megatron-LM CI"][::3])
    errors = summary(each.memory_error for each in found)
    assert errors is not None
    assert errors.count > 100
    assert errors.median < 0.02
    assert errors.p90 < 0.08
