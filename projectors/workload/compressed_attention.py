"""DeepSeek-V4 attention as operators: one shared KV head, a sliding window, and a compressed view of what lies before.

A layer attends to its window alone, or besides to compressed entries, each a softmax-weighted sum of `ratio` tokens:
all of them at the heavy ratio (HCA), the `index_topk` that an indexer picks at the indexed ratio (CSA). Shapes:
huggingface/transformers `deepseek_v4/modeling_deepseek_v4.py` @0197608.

Tensor parallel: heads, output groups and sinks are split over tp. What serves the one KV head (KV projection,
compressors, indexer) is whole on every GPU, works on the sequence-parallel share of the tokens, and its results are
gathered. Context parallel: a GPU receives the window of its left neighbour and gathers all compressed entries (AMD-AGI/
Primus `deepseek_v4_cp.py`).
"""

from __future__ import annotations

from projectors.columns import Columns, Quantity, at_most
from projectors.inputs.model_card import INDEXED_RATIO, CompressedAttention, ModelCard, Norm
from projectors.inputs.recipe import RecomputeModule
from projectors.workload.attention import attention_output, causal_pairs, rotary
from projectors.workload.operators import (
    Attention,
    Axis,
    Collective,
    CollectiveKind,
    Gemm,
    Module,
    Operator,
    OperatorKind,
    Tensor,
)
from projectors.workload.parts import (
    FP32_BYTES,
    into_tensor_parallel,
    linear,
    linear_input,
    norm,
    out_of_tensor_parallel,
)

INT32_BYTES = 4


def compressed_pairs(seq_length: Quantity, ratio: int, most: int | None) -> Quantity:
    """Pairs of queries and compressed entries of one causal sequence: sum over queries t = 1..S of min(t // ratio, most).

    An entry is seen from the last of its `ratio` tokens on; tokens that fill no entry are left out.
    """
    entries = seq_length // ratio
    seen = entries if most is None else at_most(entries, most)
    return ratio * seen * (seen - 1) // 2 + seen * (seq_length - ratio * seen + 1)


def compressed_attention(
    card: ModelCard, attention: CompressedAttention, columns: Columns, window: int, ratio: int
) -> tuple[Operator, ...]:
    """Attention of one layer on [tokens, hidden]; `ratio` 0 attends to the window only."""
    tokens, own, hidden, dim = columns.tokens, columns.tokens_sp, card.hidden_size, card.head_dim
    heads, latent, rope = card.num_attention_heads // columns.tp, attention.q_lora_rank, attention.qk_rope_head_dim
    norm_output = linear_input("attention norm output", columns, own, hidden, RecomputeModule.LAYERNORM)
    return (
        linear("q down projection", columns, Module.ATTENTION, rows=own, inputs=hidden, outputs=latent, saved=(norm_output,)),
        norm("q latent norm", Norm.RMSNORM, columns, own, latent),
        linear(
            "q up projection", columns, Module.ATTENTION, rows=tokens, inputs=latent, outputs=heads * dim,
            saved=(linear_input("q latent", columns, own, latent, features="q lora"),),
            collectives=into_tensor_parallel(columns, latent),
        ),
        norm("q head norm", Norm.RMSNORM, columns, tokens * heads, dim, weighted=False),
        linear("kv projection", columns, Module.ATTENTION, rows=own, inputs=hidden, outputs=dim),
        norm("kv norm", Norm.RMSNORM, columns, own, dim),
        rotary(columns, (2 * heads + 1) * rope),  # queries, the KV head, and the output turned back
        *(_compressor("", card, columns, ratio, dim) if ratio else ()),
        *(_indexer(card, attention, columns, ratio) if ratio == INDEXED_RATIO else ()),
        _core_attention(card, attention, columns, heads, window, ratio),
        *_output_projection(card, attention, columns, heads),
    )


def _compressor(prefix: str, card: ModelCard, columns: Columns, ratio: int, dim: int) -> tuple[Operator, ...]:
    """Entries and gates of every token, softmax-weighted sums over windows of `ratio` tokens, norm of the entries.

    At the indexed ratio windows overlap: a token serves its own window and the next one with separate features.
    """
    own, element = columns.tokens_sp, columns.activation_bytes
    width = dim * (2 if ratio == INDEXED_RATIO else 1)
    entries = _entries(columns, ratio) / (columns.cp * columns.sp)
    projected = own * 2 * width * element
    return (
        linear(
            f"{prefix}compressor projection", columns, Module.ATTENTION, rows=own, inputs=card.hidden_size, outputs=2 * width,
        ),
        Operator(
            f"{prefix}compressor",
            OperatorKind.STREAM,
            Module.ATTENTION,
            weights=(Tensor(f"{prefix}compressor position bias", ("ratio", "features"), (ratio, width), columns.weight_bytes),),
            stream_forward=projected + entries * dim * element,
            stream_backward=2 * projected + entries * dim * element,
            saved=(Tensor(f"{prefix}compressor input", ("tokens", "entry and gate", "features"), (own, 2, width), element),),
        ),
        norm(f"{prefix}compressor norm", Norm.RMSNORM, columns, entries, dim),
    )


def _indexer(card: ModelCard, attention: CompressedAttention, columns: Columns, ratio: int) -> tuple[Operator, ...]:
    """Scores of all earlier entries for every query by small heads, and the picks. Scoring is fused: no [head, query,
    entry] tensor exists, only the [query, entry] sums; it is trained like attention (its backward scores again)."""
    own, heads, dim = columns.tokens_sp, attention.index_n_heads, attention.index_head_dim
    element, entries, shares = columns.activation_bytes, _entries(columns, ratio), columns.cp * columns.sp
    visible = columns.seq_length // ratio
    rotated = 2 * own * heads * attention.qk_rope_head_dim * element
    scored = own * visible * FP32_BYTES
    return (
        linear(
            "indexer query projection", columns, Module.ATTENTION, rows=own, inputs=attention.q_lora_rank, outputs=heads * dim,
        ),
        Operator(
            "indexer rotary embedding", OperatorKind.STREAM, Module.ATTENTION, stream_forward=rotated, stream_backward=rotated,
        ),
        linear("indexer head weights", columns, Module.ATTENTION, rows=own, inputs=card.hidden_size, outputs=heads),
        *_compressor("indexer ", card, columns, ratio, dim),
        Operator(
            "indexer scores",
            OperatorKind.ATTENTION,
            Module.CORE_ATTENTION,
            attention=Attention(
                batch=columns.mbs,
                heads=heads,
                kv_heads=1,
                queries=columns.seq_length // shares,
                keys=visible,
                pairs=compressed_pairs(columns.seq_length, ratio, None) / shares,
                dim_qk=dim,
                dim_v=0,
            ),
            saved=(
                Tensor("indexer queries", ("tokens", "heads", "head dim"), (own, heads, dim), element),
                Tensor("indexer keys", ("entries", "head dim"), (entries, dim), element),
                Tensor("indexer head weights", ("tokens", "heads"), (own, heads), element),
            ),
            collectives=_gather_entries(columns, entries, dim),
        ),
        Operator(
            "indexer top-k",
            OperatorKind.STREAM,
            Module.CORE_ATTENTION,
            stream_forward=scored + own * at_most(visible, attention.index_topk) * INT32_BYTES,
        ),
    )


def _core_attention(
    card: ModelCard, attention: CompressedAttention, columns: Columns, heads: Quantity, window: int, ratio: int
) -> Operator:
    """Fused attention with sinks over window and entries under one softmax. Keys are the values: kept once.

    Keeps what the kernel reads (queries, the KV head, entries, picks) and the fp32 log-sum-exp.
    """
    tokens, sequence, dim, element = columns.tokens, columns.seq_length, card.head_dim, columns.activation_bytes
    pairs, keys = causal_pairs(sequence, window), at_most(sequence, window)
    saved = [
        Tensor("queries", ("tokens", "heads", "head dim"), (tokens, heads, dim), element),
        Tensor("keys and values", ("tokens", "head dim"), (tokens, dim), element),
        Tensor("log-sum-exp", ("tokens", "heads"), (tokens, heads), FP32_BYTES, (RecomputeModule.CORE_ATTENTION,)),
    ]
    boundary = columns.mbs * at_most(sequence // columns.cp, window) * dim * element
    collectives = [
        *into_tensor_parallel(columns, dim, kept_gathered=True),
        Collective(CollectiveKind.SEND_RECEIVE, Axis.CP, boundary, forward=1, backward=1),
    ]
    if ratio:
        entries = _entries(columns, ratio)
        most = attention.index_topk if ratio == INDEXED_RATIO else None
        picked = sequence // ratio if most is None else at_most(sequence // ratio, most)
        pairs, keys = pairs + compressed_pairs(sequence, ratio, most), keys + picked
        saved.append(Tensor("compressed entries", ("entries", "head dim"), (entries, dim), element))
        collectives += _gather_entries(columns, entries, dim)
        if most is not None:
            picks = Tensor("picked entries", ("tokens", "top k"), (tokens, picked), INT32_BYTES)
            gathered = picks.nbytes * columns.sequence_parallel
            saved.append(picks)
            collectives.append(Collective(CollectiveKind.ALL_GATHER, Axis.TP, gathered, forward=1, backward=0))
    sinks = (Tensor("attention sinks", ("heads",), (heads,), columns.weight_bytes),) if card.attn_sinks else ()
    return Operator(
        "attention",
        OperatorKind.ATTENTION,
        Module.CORE_ATTENTION,
        weights=sinks,
        attention=Attention(
            batch=columns.mbs,
            heads=heads,
            kv_heads=1,
            queries=sequence // columns.cp,
            keys=keys,
            pairs=pairs / columns.cp,
            dim_qk=dim,
            dim_v=dim,
        ),
        saved=tuple(saved),
        collectives=tuple(collectives),
    )


def _output_projection(
    card: ModelCard, attention: CompressedAttention, columns: Columns, heads: Quantity
) -> tuple[Operator, ...]:
    """Each group of heads to its own low rank, then all groups together (row-parallel) back to [tokens, hidden]."""
    tokens, rank, groups = columns.tokens, attention.o_lora_rank, attention.o_groups // columns.tp
    group_width = card.num_attention_heads * card.head_dim // attention.o_groups
    shape = (groups, group_width, rank)
    weight = Tensor("output group projection weight", ("groups", "inputs", "outputs"), shape, columns.weight_bytes)
    return (
        Operator(
            "output group projection",
            OperatorKind.GEMM,
            Module.ATTENTION,
            weights=(weight,),
            gemm=Gemm(tokens, rank, group_width, groups),
            saved=(attention_output(columns, heads * card.head_dim),),
        ),
        linear(
            "output projection", columns, Module.ATTENTION, rows=tokens, inputs=groups * rank, outputs=card.hidden_size,
            saved=(linear_input("output latent", columns, tokens, groups * rank, features="o lora"),),
            collectives=out_of_tensor_parallel(columns, card.hidden_size),
        ),
    )


def _entries(columns: Columns, ratio: int) -> Quantity:
    """Compressed entries of the sequences of one microbatch, over all ranks of a context-parallel ring."""
    return columns.mbs * (columns.seq_length // ratio)


def _gather_entries(columns: Columns, entries: Quantity, dim: int) -> tuple[Collective, ...]:
    """Entries made by the ranks of the tensor-parallel and the context-parallel group, gathered for every query."""
    nbytes = entries * dim * columns.activation_bytes
    return (
        *into_tensor_parallel(columns, dim, rows=entries / columns.cp, kept_gathered=True),
        Collective(CollectiveKind.ALL_GATHER, Axis.CP, nbytes, forward=1, backward=0),
        Collective(CollectiveKind.REDUCE_SCATTER, Axis.CP, nbytes, forward=0, backward=1),
    )
