"""Activation memory: closed forms, in-flight microbatches, recompute."""

from __future__ import annotations

from typing import Any

import pytest

from projectors.columns import columns_of
from projectors.inputs import Recipe, library
from projectors.inputs.cluster import ClusterSpec
from projectors.inputs.model_card import ModelCard
from projectors.inputs.recipe import Recompute, RecomputeModule, Schedule
from projectors.memory import memory_breakdown
from projectors.results import MemoryComponent, RankMemory
from projectors.stages import stage_plan
from projectors.workload.model import model_parts


def ranks(card: ModelCard, cluster: ClusterSpec, **recipe: Any) -> tuple[RankMemory, ...]:
    values: dict[str, Any] = {"gbs": 1024, "seq_length": 4096, **recipe}
    columns = columns_of(Recipe(**values), cluster)
    plan = stage_plan(card, columns)
    return memory_breakdown(card, cluster.hardware, columns, plan, model_parts(card, plan.kinds, columns), 0.0).ranks


def activations(found: RankMemory) -> int:
    return found.nbytes[MemoryComponent.ACTIVATIONS]


def llama_layer_bytes(card: ModelCard, tokens: int) -> int:
    """Bytes that a Llama layer keeps per microbatch without recompute, with fused attention and no dropout.

    Counted by hand, in units of 2-byte tokens x width: norm input and output (2h) before attention, q, k, v, attention
    output (h each but k and v, which have G/A of the heads), norm input and output (2h) before the MLP, gate and up (2F),
    their product (F). Besides, fp32 per token: one deviation for each norm and one log-sum-exp per head.
    """
    hidden, ffn = card.hidden_size, card.ffn_hidden_size
    kv_width = card.num_query_groups * card.head_dim
    query_width = card.num_attention_heads * card.head_dim
    return tokens * (2 * (4 * hidden + 2 * query_width + 2 * kv_width + 3 * ffn) + 4 * (2 + card.num_attention_heads))


def test_a_llama_layer_keeps_what_a_count_by_hand_says() -> None:
    card, cluster = library.model("llama3.1-8b"), library.cluster("h100-8x8")
    tokens = 4096
    ends = tokens * (2 * 2 * card.hidden_size + 4 + 8)  # final norm input and output, its deviation, token numbers
    found = activations(ranks(card, cluster)[0])
    assert found == card.num_layers * llama_layer_bytes(card, tokens) + ends


def test_sequence_and_tensor_parallel_split_everything_but_nothing_twice() -> None:
    """arXiv:2205.05198, equation 4: with sequence parallelism every term of a layer is divided by t."""
    card, cluster = library.model("llama3.1-8b"), library.cluster("h100-8x8")
    one, four = (activations(ranks(card, cluster, tp=tp)[0]) for tp in (1, 4))
    token_numbers = 4096 * 8
    assert four - token_numbers == pytest.approx((one - token_numbers) / 4, rel=1e-9)


def test_without_sequence_parallel_norms_and_residual_stay_whole() -> None:
    """arXiv:2205.05198, equation 2: the four h-wide terms outside the matrices are not divided."""
    card, cluster = library.model("llama3.1-8b"), library.cluster("h100-8x8")
    tokens, tp = 4096, 4
    whole = tokens * (2 * 4 * card.hidden_size + 4 * 2)
    split = llama_layer_bytes(card, tokens) - whole
    ends = tokens * (2 * 2 * card.hidden_size + 4 + 8)
    found = activations(ranks(card, cluster, tp=tp, sequence_parallel=False)[0])
    assert found == card.num_layers * (whole + split // tp) + ends


def test_context_parallel_divides_the_tokens() -> None:
    card, cluster = library.model("llama3.1-8b"), library.cluster("h100-8x8")
    one, four = (activations(ranks(card, cluster, cp=cp)[0]) for cp in (1, 4))
    assert four * 4 == one


@pytest.mark.parametrize(("microbatches", "expected"), [(32, [4, 3, 2, 1]), (2, [2, 2, 2, 1])])
def test_1f1b_keeps_p_minus_r_microbatches_in_flight(microbatches: int, expected: list[int]) -> None:
    """Not p on every rank (defect 7), and never more than there are (facts/pipeline.md 2)."""
    card, cluster = library.model("llama3.1-8b"), library.cluster("h100-8x8")
    found = ranks(card, cluster, pp=4, gbs=16 * microbatches)
    assert [rank.in_flight for rank in found] == expected


def test_interleaving_raises_rank_0_by_the_published_factor() -> None:
    """1 + (p-1)/(p v), arXiv:2205.05198, 4.2.3: 11.5 of 8 microbatches at p = 8, v = 2 (facts/pipeline.md 2)."""
    card = library.model("llama3.1-8b")
    found = ranks(card, library.cluster("h100-8x8"), pp=8, vpp=2, schedule=Schedule.INTERLEAVED, gbs=256)
    assert found[0].in_flight == 11.5


def test_logits_belong_to_the_last_rank_once() -> None:
    """Defects 3 and 7: real vocabulary, one microbatch of logits under 1F1B, none on other ranks."""
    card, cluster = library.model("llama3.1-8b"), library.cluster("h100-8x8")
    found = [rank.nbytes[MemoryComponent.LOGITS] for rank in ranks(card, cluster, pp=4)]
    assert found == [0, 0, 0, 4096 * card.vocab_size * 2]


def test_unfused_loss_keeps_an_fp32_softmax() -> None:
    card, cluster = library.model("llama3.1-8b"), library.cluster("h100-8x8")
    found = ranks(card, cluster, cross_entropy_fusion=False)[0]
    assert found.nbytes[MemoryComponent.LOGITS] == 4096 * card.vocab_size * 4


def test_full_recompute_keeps_only_layer_inputs_and_pays_for_one_layer_at_a_time() -> None:
    """Defect 10: the layer being run again is in memory too."""
    card, cluster = library.model("llama3.1-8b"), library.cluster("h100-8x8")
    full = ranks(card, cluster, recompute=Recompute.FULL)[0]
    tokens = 4096
    layer_input = 2 * tokens * card.hidden_size
    ends = tokens * (2 * 2 * card.hidden_size + 4 + 8)
    assert activations(full) == card.num_layers * layer_input + ends
    first_of_four, plain = (ranks(card, cluster, pp=4, recompute=kind)[0] for kind in (Recompute.FULL, Recompute.NONE))
    again = first_of_four.nbytes[MemoryComponent.TEMPORARY] - plain.nbytes[MemoryComponent.TEMPORARY]  # the last is at its loss
    assert again == llama_layer_bytes(card, tokens) - layer_input


def test_full_recompute_of_some_layers_leaves_the_others() -> None:
    card, cluster = library.model("llama3.1-8b"), library.cluster("h100-8x8")
    found = activations(ranks(card, cluster, recompute=Recompute.FULL, recompute_num_layers=10)[0])
    none = activations(ranks(card, cluster)[0])
    dropped = llama_layer_bytes(card, 4096) - 2 * 4096 * card.hidden_size
    assert none - found == 10 * dropped


@pytest.mark.parametrize(
    ("module", "dropped_width"),
    [
        (RecomputeModule.MLP, lambda card: 3 * card.ffn_hidden_size),
        (RecomputeModule.LAYERNORM, lambda card: 2 * card.hidden_size),
    ],
)
def test_selective_recompute_drops_what_the_module_can_make_again(module: RecomputeModule, dropped_width: Any) -> None:
    card, cluster = library.model("llama3.1-8b"), library.cluster("h100-8x8")
    none = activations(ranks(card, cluster)[0])
    some = activations(ranks(card, cluster, recompute=Recompute.SELECTIVE, recompute_modules=(module,))[0])
    assert none - some == card.num_layers * 4096 * 2 * dropped_width(card)


def test_selective_recompute_of_attention_keeps_q_k_v() -> None:
    """Defect 7: `selective` dropped the whole attention block. With fused attention only the log-sum-exp goes."""
    card, cluster = library.model("llama3.1-8b"), library.cluster("h100-8x8")
    none = activations(ranks(card, cluster)[0])
    some = activations(ranks(card, cluster, recompute=Recompute.SELECTIVE)[0])
    assert none - some == card.num_layers * 4096 * card.num_attention_heads * 4


def test_moe_layers_keep_routed_copies_at_expert_width_and_shared_experts_at_theirs() -> None:
    """Defect 8 and NVIDIA/Megatron-LM issue 1784: top-k copies, expert width, shared width, not one dense MLP."""
    cluster = library.cluster("h100-8x8")
    card = library.model("deepseek-v2-lite")
    assert card.moe is not None
    moe = card.moe

    def saved(**changes: Any) -> int:
        changed = card.model_copy(update={"moe": moe.model_copy(update=changes)})
        return activations(ranks(changed, cluster, ep=8)[0])

    tokens, moe_layers = 4096, card.num_layers - 1
    base = saved()
    # input, gate, up, product; the router's probability, the expert's number, two row maps
    per_copy = 2 * (card.hidden_size + 3 * moe.moe_ffn_hidden_size) + 4 + 8 + 2 * 4
    assert saved(top_k=moe.top_k + 1) - base == moe_layers * tokens * per_copy
    assert base - saved(shared_ffn_hidden_size=0) == moe_layers * tokens * 2 * 3 * moe.shared_ffn_hidden_size


def test_the_busiest_expert_rank_holds_its_load() -> None:
    """Defect 11: an imbalance of 1.5 means half as many routed copies again on the hottest GPU."""
    card, cluster = library.model("mixtral-8x7b"), library.cluster("h100-8x8")
    assert card.moe is not None
    even = activations(ranks(card, cluster, ep=8)[0])
    hot = activations(ranks(card, cluster, ep=8, expert_imbalance=1.5)[0])
    per_copy = 2 * (card.hidden_size + 3 * card.moe.moe_ffn_hidden_size) + 4
    assert hot - even == card.num_layers * 4096 * card.moe.top_k * per_copy // 2
