"""DeepSeek-V4 layers against shapes of huggingface/transformers `deepseek_v4/modeling_deepseek_v4.py` @0197608."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from projectors.columns import Columns, Quantity
from projectors.compute.roofline import device_of, operator_seconds
from projectors.inputs import library
from projectors.inputs.model_card import CompressedAttention, ModelCard
from projectors.inputs.recipe import RecomputeModule
from projectors.workload.attention import causal_pairs
from projectors.workload.compressed_attention import compressed_pairs
from projectors.workload.ends import embedding_operators, mtp_operators
from projectors.workload.layers import LayerKind, layer_kinds, layer_operators
from projectors.workload.operators import Attention, Axis, CollectiveKind, Module, Operator
from projectors.workload.parameters import forward_flops_per_sequence, model_parameters, single_gpu_columns

HALF, FULL, INT32 = 2, 4, 4
WINDOW, CSA, HCA = (LayerKind(moe=True, windowed=True, compress_ratio=ratio) for ratio in (0, 4, 128))
LENGTH = 4096

# deepseek-ai/DeepSeek-V4-Flash, config.json
HIDDEN, HEADS, HEAD_DIM, STREAMS, TOP_K, ROPE_DIM = 4096, 64, 512, 4, 512, 64
INDEX_HEADS, INDEX_DIM, Q_RANK, O_RANK, GROUPS = 64, 128, 1024, 1024, 8
STREAM_WEIGHTS = STREAMS + STREAMS + STREAMS**2


@pytest.fixture
def flash() -> ModelCard:
    return library.model("deepseek-v4-flash")


def compressed(card: ModelCard) -> CompressedAttention:
    assert card.compressed_attention is not None
    return card.compressed_attention


def columns(**changes: Any) -> Columns:
    return replace(single_gpu_columns(LENGTH), gpus=64, **changes)


def layer(card: ModelCard, kind: LayerKind, **changes: Any) -> dict[str, Operator]:
    operators = layer_operators(card, kind, columns(**changes))
    named = {operator.name: operator for operator in operators}
    assert len(named) == len(operators)
    return named


def parameters(card: ModelCard, kind: LayerKind) -> Quantity:
    return sum((operator.parameters for operator in layer(card, kind).values()), start=0)


def saved_bytes(card: ModelCard, kind: LayerKind) -> Quantity:
    return sum((operator.saved_bytes() for operator in layer(card, kind).values()), start=0)


def core(operator: Operator) -> Attention:
    assert operator.attention is not None
    return operator.attention


def test_flash_has_two_window_layers_then_csa_and_hca_in_turn_and_hashes_the_first_three(flash: ModelCard) -> None:
    """config.json: compress_ratios 0, 0, 4, 128, 4, 128, ...; num_hash_layers 3."""
    kinds = layer_kinds(flash)
    assert [kind.label for kind in kinds[:5]] == [
        "Hash-routed MoE windowed layer", "Hash-routed MoE windowed layer", "Hash-routed MoE CSA layer", "MoE HCA layer",
        "MoE CSA layer",
    ]
    assert [kinds.count(kind) for kind in (CSA, HCA)] == [20, 20]


# Parameters


def test_a_window_layer_has_low_rank_queries_one_kv_head_and_a_grouped_output(flash: ModelCard) -> None:
    queries = HIDDEN * Q_RANK + Q_RANK + Q_RANK * HEADS * HEAD_DIM
    keys_and_values = HIDDEN * HEAD_DIM + HEAD_DIM
    output = HEADS * HEAD_DIM * O_RANK + GROUPS * O_RANK * HIDDEN
    connections = 2 * (STREAMS * HIDDEN * STREAM_WEIGHTS + STREAM_WEIGHTS + 3)
    experts = (256 + 1) * 3 * HIDDEN * 2048 + 256 * HIDDEN + 256
    assert parameters(flash, WINDOW) == queries + keys_and_values + output + HEADS + connections + experts + 2 * HIDDEN


def test_heavy_compression_adds_one_compressor(flash: ModelCard) -> None:
    compressor = 2 * HIDDEN * HEAD_DIM + 128 * HEAD_DIM + HEAD_DIM
    assert parameters(flash, HCA) - parameters(flash, WINDOW) == compressor


def test_indexed_compression_adds_overlapping_compressors_and_an_indexer(flash: ModelCard) -> None:
    """Two series per token, for its own window and the next: twice the width, for the entries and for the indexer's keys."""
    compressor = 2 * HIDDEN * 2 * HEAD_DIM + 4 * 2 * HEAD_DIM + HEAD_DIM
    index_keys = 2 * HIDDEN * 2 * INDEX_DIM + 4 * 2 * INDEX_DIM + INDEX_DIM
    indexer = Q_RANK * INDEX_HEADS * INDEX_DIM + HIDDEN * INDEX_HEADS
    assert parameters(flash, CSA) - parameters(flash, WINDOW) == compressor + index_keys + indexer


def test_hash_routed_layers_still_score_with_a_router(flash: ModelCard) -> None:
    """The table picks the experts; the learned scores weigh their outputs. Picking costs a lookup and no FLOPs."""
    hashed = replace(CSA, hash_routed=True)
    learned, looked_up = layer(flash, CSA), layer(flash, hashed)
    assert set(looked_up) - set(learned) == {"expert lookup"}
    assert parameters(flash, hashed) == parameters(flash, CSA)
    assert sum(op.flops_forward for op in looked_up.values()) == sum(op.flops_forward for op in learned.values())


@pytest.mark.parametrize(("name", "mtp"), [("deepseek-v4-flash", 6_610_048_891), ("deepseek-v4-pro", 25_840_145_979)])
def test_the_mtp_depth_is_a_window_layer_with_its_own_collapse_of_the_streams(name: str, mtp: int) -> None:
    """data/models.yaml `mtp_unique_extra`; it sees no compressed context (config.json: last compress ratio 0)."""
    card = library.model(name)
    hidden, streams = card.hidden_size, compressed(card).hyper_connections
    around = 2 * hidden * hidden + 3 * hidden + streams * hidden * streams + streams + 1
    assert model_parameters(card).mtp == parameters(card, WINDOW) + around == mtp
    names = {operator.name for operator in mtp_operators(card, columns())}
    assert {"stream copies", "MTP stream collapse"} < names
    assert not any("compressor" in operator or "indexer" in operator for operator in names)


# Attention pairs and FLOPs


@pytest.mark.parametrize("length", [1, 3, 4, 127, 128, 130, 1000, 2048, 2051])
@pytest.mark.parametrize(("ratio", "most"), [(4, None), (4, 7), (4, 512), (128, None), (128, 3)])
def test_a_query_sees_the_entries_closed_by_its_own_token(length: int, ratio: int, most: int | None) -> None:
    """Query t (from 1) may use entry w once its last token is seen: w < t // ratio; at most the indexer's picks of those."""
    expected = sum(min(query // ratio, length if most is None else most) for query in range(1, length + 1))
    assert compressed_pairs(length, ratio, most) == expected


def test_pairs_of_a_table_are_those_of_each_length() -> None:
    lengths = np.array([1, 130, 4096, 65536])
    assert compressed_pairs(lengths, 4, 512).tolist() == [compressed_pairs(int(length), 4, 512) for length in lengths]  # type: ignore[union-attr]


def test_every_layer_attends_to_its_window_and_compressed_layers_to_entries_besides(flash: ModelCard) -> None:
    window = causal_pairs(LENGTH, 128)
    assert core(layer(flash, WINDOW)["attention"]).pairs == window
    assert core(layer(flash, HCA)["attention"]).pairs == window + compressed_pairs(LENGTH, 128, None)
    assert core(layer(flash, CSA)["attention"]).pairs == window + compressed_pairs(LENGTH, 4, TOP_K)
    indexer = core(layer(flash, CSA)["indexer scores"])
    assert indexer.pairs == compressed_pairs(LENGTH, 4, None)
    assert indexer.flops == 2 * INDEX_HEADS * INDEX_DIM * indexer.pairs


@pytest.mark.parametrize("name", ["deepseek-v4-flash", "deepseek-v4-pro"])
def test_a_long_context_costs_little_more_per_token_than_a_short_one(name: str) -> None:
    """Compression is made for this: full attention at 64k would cost more than all weights do."""
    card = library.model(name)
    short, long = (forward_flops_per_sequence(card, length) / length for length in (4096, 65536))
    full = 2 * card.num_attention_heads * 2 * card.head_dim * 65536 / 2 * card.num_layers
    active = model_parameters(card).active
    assert 1.0 < short / (2 * active) < 1.15
    assert 1.0 < long / short < 1.15
    assert full > 2 * active


# Saved bytes


def test_a_window_layer_keeps_all_streams_twice_and_one_kv_head(flash: ModelCard) -> None:
    """By hand, per token. bf16: the streams (n h) and, for attention and for the MLP each, collapsed stream, its norm and the
    part's output (3 h); latent before and after its norm; queries before and after theirs; the KV head before and after
    its norm; attention output and its low rank. fp32: deviations (streams and norm of each part, latent, KV, each query
    head), mixing weights of both parts, a log-sum-exp per head.
    """
    moe = {Module.ROUTER, Module.EXPERTS, Module.EXPERT_ACTIVATION, Module.SHARED_EXPERT}
    kept = {name: operator for name, operator in layer(flash, WINDOW).items() if operator.module not in moe}
    around = 2 * STREAMS * HIDDEN + 2 * 3 * HIDDEN - HIDDEN  # the router keeps the MLP norm's output
    bf16 = around + 2 * Q_RANK + 2 * HEADS * HEAD_DIM + 2 * HEAD_DIM + HEADS * HEAD_DIM + GROUPS * O_RANK
    fp32 = 2 * 2 + 2 + HEADS + 2 * STREAM_WEIGHTS + HEADS
    assert sum(operator.saved_bytes() for operator in kept.values()) == LENGTH * (HALF * bf16 + FULL * fp32)


def test_compression_keeps_its_inputs_its_entries_and_the_picks(flash: ModelCard) -> None:
    """Per token entries and gates; per entry its norm's input and deviation and the entry itself."""
    def entries(ratio: int, dim: int) -> float:
        return LENGTH // ratio * (HALF * 2 * dim + FULL)

    heavy = LENGTH * HALF * 2 * HEAD_DIM + entries(128, HEAD_DIM)
    indexed = LENGTH * HALF * 2 * 2 * (HEAD_DIM + INDEX_DIM) + entries(4, HEAD_DIM) + entries(4, INDEX_DIM)
    indexer = LENGTH * HALF * (INDEX_HEADS * INDEX_DIM + INDEX_HEADS)
    picks = LENGTH * TOP_K * INT32
    assert saved_bytes(flash, HCA) - saved_bytes(flash, WINDOW) == heavy
    assert saved_bytes(flash, CSA) - saved_bytes(flash, WINDOW) == indexed + indexer + picks


def test_core_attention_recompute_drops_the_log_sum_exp(flash: ModelCard) -> None:
    attention = layer(flash, HCA)["attention"]
    assert attention.saved_bytes() - attention.saved_bytes((RecomputeModule.CORE_ATTENTION,)) == LENGTH * HEADS * FULL


def test_the_stream_between_layers_is_as_wide_as_all_streams(flash: ModelCard) -> None:
    assert flash.residual_width == STREAMS * HIDDEN
    assert library.model("deepseek-v3").residual_width == 7168
    assert [operator.name for operator in embedding_operators(flash, columns())] == ["embedding", "stream copies"]
    assert len(embedding_operators(library.model("deepseek-v3"), columns())) == 1


# Shares of one GPU


def test_tensor_parallel_splits_heads_groups_and_sinks_and_leaves_what_serves_the_one_kv_head_whole(flash: ModelCard) -> None:
    one, eight = layer(flash, CSA), layer(flash, CSA, tp=8, etp=8, sequence_parallel=True)
    shares = {name: eight[name].parameters / operator.parameters for name, operator in one.items() if operator.parameters}
    attention = {"q up projection", "attention", "output group projection", "output projection"}
    mlp = {name for name in shares if "expert" in name}
    assert {name for name, share in shares.items() if share == 1 / 8} == attention | mlp
    assert {share for name, share in shares.items() if name not in attention | mlp} == {1.0}


@pytest.mark.parametrize("degrees", [{"tp": 8, "etp": 8, "sequence_parallel": True}, {"cp": 8}], ids=str)
@pytest.mark.parametrize("kind", [WINDOW, CSA, HCA])
def test_tensor_and_context_parallel_divide_all_work(flash: ModelCard, kind: LayerKind, degrees: dict[str, Any]) -> None:
    one, eight = layer(flash, kind), layer(flash, kind, **degrees)
    shares = {eight[name].flops_forward / operator.flops_forward for name, operator in one.items() if operator.flops_forward}
    assert shares == {1 / 8}


def test_gathered_keys_entries_and_picks_are_whole_where_queries_are_split_by_heads(flash: ModelCard) -> None:
    one, eight = (
        {tensor.name: tensor.elements for operator in layer(flash, CSA, **degrees).values() for tensor in operator.saved}
        for degrees in ({}, {"tp": 8, "etp": 8, "sequence_parallel": True})
    )
    whole = {name for name in one if eight[name] == one[name]}
    by_expert_tensor_parallel = {"dispatched tokens", "dispatched probabilities"}
    assert whole == {"keys and values", "compressed entries", "picked entries", "indexer keys"} | by_expert_tensor_parallel
    assert all(one[name] == 8 * eight[name] for name in set(one) - whole)


def test_context_parallel_sends_a_window_to_the_neighbour_and_gathers_entries(flash: ModelCard) -> None:
    """AMD-AGI/Primus `deepseek_v4_cp.py`: the boundary is a window of KV rows; all ranks' entries are gathered, and their
    gradients reduced."""
    def traffic(kind: LayerKind) -> dict[CollectiveKind, float]:
        total: dict[CollectiveKind, float] = {}
        for operator in layer(flash, kind, cp=4).values():
            for one in operator.collectives:
                if one.axis is Axis.CP:
                    total[one.kind] = total.get(one.kind, 0) + float(one.nbytes) * (one.forward + one.backward)
        return total

    boundary = 2 * 128 * HEAD_DIM * HALF
    heavy, indexed = LENGTH // 128 * HEAD_DIM * HALF, LENGTH // 4 * (HEAD_DIM + INDEX_DIM) * HALF
    assert traffic(WINDOW) == {CollectiveKind.SEND_RECEIVE: boundary}
    for kind, entries in ((HCA, heavy), (CSA, indexed)):
        assert traffic(kind) == {
            CollectiveKind.SEND_RECEIVE: boundary, CollectiveKind.ALL_GATHER: entries, CollectiveKind.REDUCE_SCATTER: entries,
        }


# Bad cards


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"compress_ratios": (0,) * 42}, "one per layer"),
        ({"compress_ratios": (0,) * 42 + (16,)}, "allowed is 0, 4 or 128"),
        ({"o_groups": 7}, "divisors of num_attention_heads"),
    ],
)
def test_an_impossible_compression_is_refused_in_words(flash: ModelCard, change: dict[str, Any], words: str) -> None:
    values = flash.model_dump()
    values["compressed_attention"] |= change
    with pytest.raises(ValidationError, match=words):
        ModelCard.model_validate(values)


@pytest.mark.parametrize(
    ("change", "words"),
    [({"sliding_window": None}, 'needs sliding_window with pattern "all"'), ({"num_query_groups": 2}, "one shared KV head")],
)
def test_compressed_attention_needs_its_window_and_its_one_kv_head(flash: ModelCard, change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        ModelCard.model_validate(flash.model_dump() | change)


def test_a_sequence_too_short_for_any_entry_still_has_a_step_time(flash: ModelCard) -> None:
    """Three tokens fill no entry of four: the indexer has nothing to score."""
    device = device_of(library.hardware("mi355x"), columns())
    operators = layer_operators(flash, CSA, columns(seq_length=3))
    assert core(next(operator for operator in operators if operator.name == "indexer scores")).pairs == 0
    assert all(np.isfinite(operator_seconds(operator, device).forward) for operator in operators)
