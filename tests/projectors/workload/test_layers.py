"""A layer's operators against closed forms written down independently: saved bytes, FLOPs, shares, table columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from projectors.columns import Columns, Quantity
from projectors.inputs import library
from projectors.inputs.hardware import Precision
from projectors.inputs.model_card import Activation, ModelCard, Norm, PositionEmbedding
from projectors.inputs.recipe import MoeDispatch, RecomputeModule
from projectors.workload.ends import embedding_operators, head_operators
from projectors.workload.layers import LayerKind, distinct_kinds, layer_operators
from projectors.workload.operators import CollectiveKind, Module, Operator
from projectors.workload.parameters import forward_flops_per_sequence, model_parameters, single_gpu_columns

HALF, FULL, INT64, INT32, BOOLEAN = 2, 4, 8, 4, 1
"""Bytes of bf16, fp32, int64, int32 and boolean elements."""

DENSE, MOE = LayerKind(moe=False, windowed=False), LayerKind(moe=True, windowed=False)


def gpt() -> ModelCard:
    """A GPT layer as in arXiv:2205.05198: MHA, GELU, F = 4h, LayerNorm."""
    return ModelCard(
        name="gpt", sources=("arXiv:2205.05198",), num_layers=2, hidden_size=1024, ffn_hidden_size=4096, num_attention_heads=16,
        num_query_groups=16, head_dim=64, vocab_size=51200, activation=Activation.GELU, norm=Norm.LAYERNORM,
        position_embedding=PositionEmbedding.LEARNED, max_seq_len=2048,
    )


def columns(**changes: Any) -> Columns:
    return replace(single_gpu_columns(4096), gpus=64, **changes)


def layer(card: ModelCard, kind: LayerKind, at: Columns) -> dict[str, Operator]:
    operators = layer_operators(card, kind, at)
    named = {operator.name: operator for operator in operators}
    assert len(named) == len(operators)
    return named


def saved(operators: dict[str, Operator], *recomputed: RecomputeModule) -> Quantity:
    return sum((operator.saved_bytes(recomputed) for operator in operators.values()), start=0)


def saved_tensors(operators: dict[str, Operator]) -> dict[str, Quantity]:
    return {tensor.name: tensor.elements for operator in operators.values() for tensor in operator.saved}


# Saved bytes


@pytest.mark.parametrize("microbatch", [1, 4])
def test_a_gpt_layer_keeps_what_korthikanti_et_al_count(microbatch: int) -> None:
    """arXiv:2205.05198, section 4.1: sbh(34 + 5as/h) bytes.

    Their attention keeps 11sbh + 5as^2 b: the input of QKV 2, Q and K 4, V 2, the output projection's input 2, dropout mask
    1, and the softmax and its dropout 5as^2 b, which fused attention replaces by the output (the same tensor as the
    projection's input) and 4 bytes of log-sum-exp per head. Their MLP keeps 19sbh (1 of it dropout mask), their two norms
    4sbh. Without dropout: 10 + 18 + 4 = 32. Norm kernels keep a mean and a deviation besides, in fp32.
    """
    card, at = gpt(), columns(mbs=microbatch)
    tokens = microbatch * 4096
    by_paper = 32 * tokens * card.hidden_size
    log_sum_exp = FULL * tokens * card.num_attention_heads
    statistics = 2 * 2 * FULL * tokens
    assert saved(layer(card, DENSE, at)) == by_paper + log_sum_exp + statistics


def test_the_llama_layer_keeps_gate_up_and_their_product_beside_grouped_attention() -> None:
    """In bf16 elements per token: norm input and output, twice (4h); Q and the attention output (2 h); K and V (2 G d); gate,
    up and product (3F)."""
    card = library.model("llama3.1-70b")
    tokens, hidden, kv_width = 4096, card.hidden_size, card.num_query_groups * card.head_dim
    elements = 4 * hidden + 2 * hidden + 2 * kv_width + 3 * card.ffn_hidden_size
    fp32 = card.num_attention_heads + 2
    assert saved(layer(card, DENSE, columns())) == tokens * (HALF * elements + FULL * fp32)


def test_routed_experts_keep_k_copies_at_their_own_width_and_the_shared_expert_keeps_its_own() -> None:
    """Not a dense MLP's width (NVIDIA/Megatron-LM issue 1784), and not the routed width for the shared experts (DeepSeek-V2-
    Lite: 2 x 1408 = 2816, arXiv:2405.04434, appendix B)."""
    card = library.model("deepseek-v2-lite")
    moe = card.moe
    assert moe is not None
    assert (moe.moe_ffn_hidden_size, moe.shared_ffn_hidden_size) == (1408, 2816)
    tokens, hidden = 4096, card.hidden_size
    kept = layer(card, MOE, columns())
    routed = saved({name: op for name, op in kept.items() if op.module in (Module.EXPERTS, Module.EXPERT_ACTIVATION)})
    shared = saved({name: op for name, op in kept.items() if op.module is Module.SHARED_EXPERT})
    row_maps, probabilities = 2 * INT32, FULL
    assert routed == tokens * moe.top_k * (HALF * (hidden + 3 * 1408) + row_maps + probabilities)
    assert shared == tokens * HALF * 3 * 2816


def test_the_router_keeps_scores_probabilities_and_picks() -> None:
    card = library.model("mixtral-8x7b")
    router = layer(card, MOE, columns())["router"]
    per_token = HALF * card.hidden_size + 8 * (2 * FULL + BOOLEAN) + 2 * INT64
    assert router.saved_bytes() == 4096 * per_token


def test_fp8_halves_the_inputs_kept_for_weight_gradients_only() -> None:
    """Transformer Engine keeps the fp8 cast of a projection's input; norm inputs, Q, K, V and gate and up stay bf16. The
    attention output is kept both ways: for attention's own backward and for the projection."""
    card = library.model("llama3.1-8b")
    tokens, hidden, ffn = 4096, card.hidden_size, card.ffn_hidden_size
    bf16, fp8 = (saved(layer(card, DENSE, columns(precision=precision))) for precision in (Precision.BF16, Precision.FP8))
    assert bf16 - fp8 == tokens * (2 * hidden + ffn - hidden)


def test_each_selective_recompute_drops_what_its_module_makes() -> None:
    card, at = library.model("deepseek-v3"), columns()
    mla, moe = card.mla, card.moe
    assert mla is not None
    assert moe is not None
    tokens, hidden, heads = 4096, card.hidden_size, card.num_attention_heads
    kept = layer(card, MOE, at)
    dropped = {module: saved(kept) - saved(kept, module) for module in RecomputeModule}
    queries_keys_values = heads * (2 * mla.qk_head_dim + mla.v_head_dim)
    copies = tokens * moe.top_k
    assert dropped[RecomputeModule.MLP] == 0
    assert dropped[RecomputeModule.CORE_ATTENTION] == tokens * FULL * heads
    assert dropped[RecomputeModule.LAYERNORM] == tokens * HALF * 2 * hidden
    assert dropped[RecomputeModule.MLA_UP_PROJ] == tokens * HALF * queries_keys_values
    assert dropped[RecomputeModule.MOE_ACT] == copies * HALF * moe.moe_ffn_hidden_size
    assert dropped[RecomputeModule.MOE] == (
        copies * (HALF * (hidden + 3 * moe.moe_ffn_hidden_size) + 2 * INT32 + FULL)
        + tokens * HALF * 3 * moe.shared_ffn_hidden_size
        + tokens * (moe.num_experts * (2 * FULL + BOOLEAN) + moe.top_k * INT64)
    )


# FLOPs


@pytest.mark.parametrize("name", ["llama3.1-8b", "llama2-70b", "gpt3-175b", "mixtral-8x22b", "deepseek-v3", "gemma2-27b"])
def test_forward_flops_are_two_per_active_weight_and_causal_attention(name: str) -> None:
    """2N per token plus 4 d per head and query-key pair (arXiv:2204.02311, appendix B); a window w leaves S w - w(w - 1)/2."""
    card = library.model(name).model_copy(update={"mtp_layers": 0})
    length = 8192
    window = card.sliding_window.window if card.sliding_window else length
    pairs = [
        sum(min(query, window if card.is_windowed(number) else length) for query in range(1, length + 1))
        for number in range(card.num_layers)
    ]
    widths = card.mla.qk_head_dim + card.mla.v_head_dim if card.mla else 2 * card.head_dim
    attention = 2 * card.num_attention_heads * widths * sum(pairs)
    positions = card.max_seq_len if card.position_embedding is PositionEmbedding.LEARNED else 0
    rows = positions + (0 if card.tied_embeddings else card.vocab_size)
    multiplied = model_parameters(card).active - rows * card.hidden_size
    assert forward_flops_per_sequence(card, length) == pytest.approx(2 * length * multiplied + attention, rel=1e-3)


def test_narayanan_et_al_count_the_same_for_gpt3() -> None:
    """arXiv:2104.04473, section 5.1: 96 B s l h^2 (1 + s/6h + V/16lh) with recompute, of which the forward pass is a quarter;
    they count the full square of attention, which is twice our causal half."""
    card, length = library.model("gpt3-175b"), 2048
    hidden, layers, vocabulary = card.hidden_size, card.num_layers, card.vocab_size
    by_paper = 24 * length * layers * hidden**2 * (1 + length / (6 * hidden)) + 2 * length * vocabulary * hidden
    acausal = 2 * hidden * length * (length - 1) * layers
    assert forward_flops_per_sequence(card, length) == pytest.approx(by_paper - acausal, rel=1e-6)


# Shares of one GPU


def split(card: ModelCard, kind: LayerKind, quantity: Callable[[Operator], Any], **degrees: Any) -> dict[str, float]:
    """Quantity of each operator on one GPU of one over the quantity undivided."""
    whole, part = layer(card, kind, columns()), layer(card, kind, columns(**degrees))
    return {name: float(quantity(part[name]) / quantity(op)) for name, op in whole.items() if quantity(op)}


def parameters_of(operator: Operator) -> Quantity:
    return operator.parameters


def flops_of(operator: Operator) -> Quantity:
    return operator.flops_forward


def test_tensor_parallel_divides_matrices_and_copies_norms_router_and_down_projections() -> None:
    """Megatron-Core: column- and row-parallel matrices; norms, router and the latent down projections are whole."""
    card = library.model("deepseek-v3")
    shares = split(card, MOE, parameters_of, tp=4, etp=4, sequence_parallel=True)
    whole = {
        "attention norm", "q down projection", "q latent norm", "kv down projection", "kv latent norm", "MLP norm", "router",
    }
    assert {name for name, share in shares.items() if share == 1} == whole
    assert {share for name, share in shares.items() if name not in whole} == {1 / 4}


def test_routed_experts_are_divided_by_etp_and_ep_and_never_by_tp() -> None:
    """NVIDIA/Megatron-LM issue 4050 and pull 4687: dividing them by tp was the fault."""
    card = library.model("deepseek-v3")
    routed = {"expert up projection", "expert down projection"}

    def shares(**degrees: Any) -> set[float]:
        return {share for name, share in split(card, MOE, parameters_of, **degrees).items() if name in routed}

    assert shares(tp=4) == {1.0}
    assert shares(tp=4, ep=8, etp=2) == {1 / 16}


@pytest.mark.parametrize(
    "degrees",
    [
        {"tp": 4, "etp": 4, "sequence_parallel": True},
        {"cp": 4},
        {"tp": 2, "cp": 2, "etp": 2, "sequence_parallel": True},
        {"tp": 4, "etp": 2, "ep": 2, "sequence_parallel": True},
        {"tp": 4, "etp": 1, "ep": 4, "sequence_parallel": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("model", ["mixtral-8x22b", "deepseek-v3"])
def test_four_gpus_of_one_replica_do_a_quarter_of_the_flops_each(model: str, degrees: dict[str, Any]) -> None:
    """A group of tp x cp GPUs shares one microbatch, whatever ep and etp are: nothing is done twice."""
    shares = split(library.model(model), MOE, flops_of, **degrees)
    assert set(shares.values()) == {1 / 4}


def test_expert_parallel_alone_moves_experts_and_not_work() -> None:
    """Each rank brings its own tokens: with balanced routing the copies it works on are as many as those it sends."""
    card = library.model("mixtral-8x22b")
    assert set(split(card, MOE, flops_of, ep=8).values()) == {1.0}
    whole, part = (saved(layer(card, MOE, columns(ep=ep))) for ep in (1, 8))
    assert part == whole


def test_the_busiest_expert_rank_works_on_imbalance_times_the_mean() -> None:
    card = library.model("mixtral-8x22b")
    shares = split(card, MOE, flops_of, ep=8, expert_imbalance=1.5)
    assert {name for name, share in shares.items() if share == 1.5} == {"expert up projection", "expert down projection"}


@pytest.mark.parametrize(("model", "kind"), [("llama3.1-70b", DENSE), ("mixtral-8x22b", MOE), ("deepseek-v3", MOE)])
def test_sequence_parallel_and_context_parallel_divide_every_saved_tensor(model: str, kind: LayerKind) -> None:
    """arXiv:2205.05198, 4.2.2, equation 4: t divides every term. KV heads are whole heads (8 here, so tp up to 8 divides)."""
    card = library.model(model)
    whole = saved_tensors(layer(card, kind, columns()))
    for degrees in ({"tp": 8, "etp": 8, "sequence_parallel": True}, {"cp": 8}):
        part = saved_tensors(layer(card, kind, columns(**degrees)))
        gathered = set()
        if "tp" in degrees and kind.moe:  # all etp ranks of an expert work on the same copies
            gathered = {"dispatched tokens", "dispatched probabilities"}
        parts = {name: whole[name] / count for name, count in part.items()}
        assert parts == {name: 1 if name in gathered else 8 for name in whole}


def test_without_sequence_parallel_the_residual_stream_stays_whole() -> None:
    """arXiv:2205.05198, equation 2: 10sbh of 34 are not divided by tensor parallelism (8 without the dropout masks)."""
    card = gpt()
    whole, part = (saved_tensors(layer(card, DENSE, columns(tp=tp))) for tp in (1, 8))
    undivided = {name for name, count in part.items() if count == whole[name]}
    bf16 = {"attention norm input", "attention norm output", "MLP norm input", "MLP norm output"}
    assert undivided == bf16 | {"attention norm statistics", "MLP norm statistics"}
    assert sum(HALF * part[name] for name in bf16) == 8 * 4096 * card.hidden_size


def test_more_tensor_parallel_ranks_than_kv_heads_hold_copies() -> None:
    """Megatron-Core keeps one KV head on each rank where tp exceeds the KV heads."""
    card = library.model("llama3.1-8b")
    at_16 = layer(card, DENSE, columns(tp=16))["qkv projection"]
    assert at_16.parameters == card.hidden_size * (32 // 16 + 2 * 1) * card.head_dim


# Traffic


def traffic(operators: dict[str, Operator], kind: CollectiveKind) -> Quantity:
    """Bytes of one forward and one backward pass."""
    return sum(
        (one.nbytes * (one.forward + one.backward) for op in operators.values() for one in op.collectives if one.kind is kind),
        start=0,
    )


def test_tensor_parallel_all_reduces_twice_each_way() -> None:
    """arXiv:1909.08053, section 3: two all-reduces of [tokens, h] forward and two backward per layer; with sequence parallelism
    each becomes a reduce-scatter and an all-gather, and backward gathers the two inputs again (arXiv:2205.05198, 4.2.2)."""
    card = gpt()
    tensor = HALF * 4096 * card.hidden_size
    plain = layer(card, DENSE, columns(tp=8))
    split_sequence = layer(card, DENSE, columns(tp=8, sequence_parallel=True))
    assert traffic(plain, CollectiveKind.ALL_REDUCE) == 4 * tensor
    assert traffic(split_sequence, CollectiveKind.ALL_REDUCE) == traffic(plain, CollectiveKind.ALL_GATHER) == 0
    assert traffic(split_sequence, CollectiveKind.REDUCE_SCATTER) == 4 * tensor
    assert traffic(split_sequence, CollectiveKind.ALL_GATHER) == 6 * tensor


def test_all_to_all_carries_k_copies_out_and_back_each_way() -> None:
    card = library.model("mixtral-8x22b")
    kept = layer(card, MOE, columns(ep=8))
    assert traffic(kept, CollectiveKind.ALL_TO_ALL) == 4 * 4096 * 2 * HALF * card.hidden_size


# Tables


TABLE: dict[str, Any] = {
    "tp": np.array([1, 2, 4, 8, 16]),
    "cp": np.array([1, 2, 1, 4, 2]),
    "ep": np.array([1, 4, 8, 2, 1]),
    "etp": np.array([1, 2, 1, 4, 1]),
    "mbs": np.array([1, 2, 1, 4, 8]),
    "seq_length": np.array([4096, 8192, 2048, 32768, 4096]),
    "sequence_parallel": np.array([False, True, False, True, True]),
    "expert_imbalance": np.array([1.0, 1.2, 1.0, 2.0, 1.5]),
}


def reading(operators: tuple[Operator, ...]) -> list[Quantity]:
    """Everything that memory, time and traffic read."""
    return [
        quantity
        for operator in operators
        for quantity in (
            operator.parameters,
            operator.saved_bytes(),
            operator.flops_forward,
            operator.stream_forward,
            operator.stream_backward,
            operator.transient_bytes(HALF),
            *(collective.nbytes for collective in operator.collectives),
        )
    ]


@pytest.mark.parametrize("dispatch", [MoeDispatch.ALLTOALL, MoeDispatch.ALLGATHER])
@pytest.mark.parametrize("model", ["gpt3-175b", "llama3.1-8b", "gpt-oss-20b", "deepseek-v3", "deepseek-v4-flash"])
def test_a_table_of_recipes_reads_the_same_as_each_recipe_alone(model: str, dispatch: MoeDispatch) -> None:
    card = library.model(model)
    parts: list[Callable[[Columns], tuple[Operator, ...]]] = [
        *(lambda at, kind=kind: layer_operators(card, kind, at) for kind in distinct_kinds(card)),
        lambda at: embedding_operators(card, at),
        lambda at: head_operators(card, at),
    ]
    rows = len(TABLE["tp"])
    alone = [columns(moe_dispatch=dispatch, **{name: value[row].item() for name, value in TABLE.items()}) for row in range(rows)]
    table = columns(moe_dispatch=dispatch, **TABLE)
    for part in parts:
        together = np.array([np.broadcast_to(quantity, rows) for quantity in reading(part(table))])
        each = np.array([reading(part(one)) for one in alone]).T
        np.testing.assert_array_equal(together, each)
