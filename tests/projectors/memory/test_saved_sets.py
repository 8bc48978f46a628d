"""What a framework's kernels keep, each option against its own count of bytes; and what measured runs say of them."""

from __future__ import annotations

import numpy as np
import pytest

from projectors.columns import Columns, columns_of
from projectors.inputs import Recipe, library
from projectors.inputs.changing import replace
from projectors.inputs.framework import DEFAULT_FRAMEWORK, FrameworkProfile, LossKernel
from projectors.inputs.model_card import ModelCard
from projectors.results import MemoryComponent, RankMemory
from projectors.validation import project, shipped_cases, summary, validate
from projectors.workload.ends import loss_bytes
from projectors.workload.layers import distinct_kinds, layer_operators

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


def test_megatron_lms_own_tests_are_within_two_percent_in_the_median() -> None:
    """343 command lines with peak allocated memory on the last rank: one set of constants for all of them."""
    found = validate([case for case in shipped_cases() if case.framework == "Megatron-LM CI"][::3])
    errors = summary(each.memory_error for each in found)
    assert errors is not None
    assert errors.count > 100
    assert errors.median < 0.02
    assert errors.p90 < 0.08
