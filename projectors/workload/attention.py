"""Self-attention as operators: ordinary heads (MHA, GQA, MQA) and multi-head latent attention."""

from __future__ import annotations

from projectors.columns import Columns, Quantity, at_least, at_most
from projectors.inputs.model_card import LatentAttention, ModelCard, Norm, PositionEmbedding
from projectors.inputs.recipe import RecomputeModule
from projectors.workload.operators import (
    Attention,
    Axis,
    Collective,
    CollectiveKind,
    Module,
    Operator,
    OperatorKind,
    Tensor,
)
from projectors.workload.parts import (
    FP32_BYTES,
    MASK_BYTES,
    into_tensor_parallel,
    linear,
    linear_input,
    norm,
    out_of_tensor_parallel,
    tokens_of_input,
)


def causal_pairs(seq_length: Quantity, window: int | None) -> Quantity:
    """Query-key pairs of one causal sequence: sum over queries i of min(i + 1, window)."""
    if window is None:
        return seq_length * (seq_length + 1) // 2
    seen = at_most(seq_length, window)
    return seq_length * seen - seen * (seen - 1) // 2


def grouped_query_attention(card: ModelCard, columns: Columns, window: int | None) -> tuple[Operator, ...]:
    """QKV projection, rotary embedding, fused attention, output projection on [tokens, hidden].

    Heads and KV heads are split over tp; where tp exceeds the KV heads each GPU holds a copy of one (Megatron-Core).
    """
    tokens, hidden, dim = columns.tokens, card.hidden_size, card.head_dim
    heads = card.num_attention_heads // columns.tp
    kv_heads = at_least(card.num_query_groups // columns.tp, 1)
    width = (heads + 2 * kv_heads) * dim
    operators = [
        linear(
            "qkv projection", columns, Module.ATTENTION, rows=tokens, inputs=hidden, outputs=width,
            bias=width if card.qkv_bias else 0,
            saved=(
                linear_input("attention norm output", columns, tokens_of_input(columns), hidden, RecomputeModule.LAYERNORM),
            ),
            collectives=into_tensor_parallel(columns, hidden), fused=(heads * dim, kv_heads * dim, kv_heads * dim),
        )
    ]
    if card.qk_norm:
        operators.append(_head_norm(columns, heads + kv_heads, dim))
    if card.position_embedding is PositionEmbedding.ROPE:
        operators.append(rotary(columns, (heads + kv_heads) * dim))
    operators.append(_core_attention(card, columns, window, heads, kv_heads, dim, dim, qkv_dropped_by=()))
    operators.append(_output_projection(card, columns, heads * dim))
    return tuple(operators)


def latent_attention(card: ModelCard, mla: LatentAttention, columns: Columns, window: int | None) -> tuple[Operator, ...]:
    """Multi-head latent attention (arXiv:2405.04434, 2.1), as Megatron-Core trains it.

    Down projections are whole on every GPU and work on the sequence-parallel share of the tokens; up projections are
    split over tp. Keys and values are expanded per head, so attention runs with as many KV heads as heads.
    """
    tokens, own, hidden = columns.tokens, columns.tokens_sp, card.hidden_size
    heads = card.num_attention_heads // columns.tp
    query_width = heads * mla.qk_head_dim
    kv_width = heads * (mla.qk_nope_head_dim + mla.v_head_dim)
    norm_output = linear_input("attention norm output", columns, own, hidden, RecomputeModule.LAYERNORM)
    operators: list[Operator] = []
    if mla.q_lora_rank is None:
        operators.append(linear(
            "q projection", columns, Module.ATTENTION, rows=tokens, inputs=hidden, outputs=query_width,
            saved=(norm_output,), collectives=into_tensor_parallel(columns, hidden),
        ))
    else:
        operators += [
            linear(
                "q down projection", columns, Module.ATTENTION, rows=own, inputs=hidden, outputs=mla.q_lora_rank,
                saved=(norm_output,),
            ),
            norm("q latent norm", Norm.RMSNORM, columns, own, mla.q_lora_rank),
            linear(
                "q up projection", columns, Module.MLA_UP, rows=tokens, inputs=mla.q_lora_rank, outputs=query_width,
                saved=(linear_input("q latent", columns, own, mla.q_lora_rank, features="q lora"),),
                collectives=into_tensor_parallel(columns, mla.q_lora_rank),
            ),
        ]
    operators += [
        linear(
            "kv down projection", columns, Module.ATTENTION, rows=own, inputs=hidden,
            outputs=mla.kv_lora_rank + mla.qk_rope_head_dim,
        ),
        norm("kv latent norm", Norm.RMSNORM, columns, own, mla.kv_lora_rank),
        linear(
            "kv up projection", columns, Module.MLA_UP, rows=tokens, inputs=mla.kv_lora_rank, outputs=kv_width,
            saved=(linear_input("kv latent", columns, own, mla.kv_lora_rank, features="kv lora"),),
            collectives=into_tensor_parallel(columns, mla.kv_lora_rank + mla.qk_rope_head_dim),
        ),
        rotary(columns, 2 * heads * mla.qk_head_dim, module=Module.MLA_UP),
        _core_attention(
            card, columns, window, heads, heads, mla.qk_head_dim, mla.v_head_dim, qkv_dropped_by=(RecomputeModule.MLA_UP_PROJ,)
        ),
        _output_projection(card, columns, heads * mla.v_head_dim),
    ]
    return tuple(operators)


def _core_attention(
    card: ModelCard,
    columns: Columns,
    window: int | None,
    heads: Quantity,
    kv_heads: Quantity,
    dim_qk: int,
    dim_v: int,
    qkv_dropped_by: tuple[RecomputeModule, ...],
) -> Operator:
    """Fused attention: keeps Q, K, V and the fp32 log-sum-exp per query and head; its output is kept by the projection.

    With context parallelism K and V blocks travel round the ring; the backward pass sends them and their gradients.
    """
    tokens, element = columns.tokens, columns.activation_bytes
    sequence = columns.seq_length
    sinks = (Tensor("attention sinks", ("heads",), (heads,), columns.weight_bytes),) if card.attn_sinks else ()
    keys = sequence if window is None else at_most(sequence, window)
    return Operator(
        "attention",
        OperatorKind.ATTENTION,
        Module.CORE_ATTENTION,
        weights=sinks,
        attention=Attention(
            batch=columns.mbs,
            heads=heads,
            kv_heads=kv_heads,
            queries=sequence // columns.cp,
            keys=keys,
            pairs=causal_pairs(sequence, window) / columns.cp,
            dim_qk=dim_qk,
            dim_v=dim_v,
        ),
        saved=(
            Tensor("queries", ("tokens", "heads", "head dim"), (tokens, heads, dim_qk), element, qkv_dropped_by),
            Tensor("keys", ("tokens", "kv heads", "head dim"), (tokens, kv_heads, dim_qk), element, qkv_dropped_by),
            Tensor("values", ("tokens", "kv heads", "head dim"), (tokens, kv_heads, dim_v), element, qkv_dropped_by),
            *_probabilities(columns, heads, tokens, sequence),
        ),
        collectives=(
            Collective(CollectiveKind.RING_EXCHANGE, Axis.CP, tokens * kv_heads * (dim_qk + dim_v) * element, backward=2),
        ),
    )


def _probabilities(columns: Columns, heads: Quantity, tokens: Quantity, keys: Quantity) -> tuple[Tensor, ...]:
    """What attention keeps beside its inputs: flash attention the log-sum-exp of every query and head (arXiv:2205.14135);
    attention of several kernels its probabilities over all keys, with dropout also the mask and what it leaves
    (arXiv:2205.05198, 4.1)."""
    dropped = (RecomputeModule.CORE_ATTENTION,)
    if columns.framework.flash_attention:
        return (Tensor("log-sum-exp", ("tokens", "heads"), (tokens, heads), FP32_BYTES, dropped),)
    dims, shape, element = ("tokens", "heads", "keys"), (tokens, heads, keys), columns.activation_bytes
    probabilities = Tensor("attention probabilities", dims, shape, element, dropped)
    if not columns.framework.attention_dropout:
        return (probabilities,)
    return (
        probabilities,
        Tensor("attention dropout mask", dims, shape, MASK_BYTES, dropped),
        Tensor("attention probabilities after dropout", dims, shape, element, dropped),
    )


def _output_projection(card: ModelCard, columns: Columns, width: Quantity) -> Operator:
    """Row-parallel projection back to [tokens, hidden]; keeps the attention output as its input."""
    return linear(
        "output projection", columns, Module.ATTENTION, rows=columns.tokens, inputs=width, outputs=card.hidden_size,
        bias=card.hidden_size if card.o_bias else 0,
        saved=(attention_output(columns, width),),
        collectives=out_of_tensor_parallel(columns, card.hidden_size),
    )


def attention_output(columns: Columns, width: Quantity) -> Tensor:
    """Kept once for attention's backward and the projection's weight gradient; in fp8 the cast is kept beside it."""
    copies = 2 if columns.framework.attention_output_copied else 1
    element = copies * columns.activation_bytes + (columns.operand_bytes if columns.fp8 else 0)
    return Tensor("attention output", ("tokens", "features"), (columns.tokens, width), element)


def _head_norm(columns: Columns, heads: Quantity, dim: int) -> Operator:
    """RMSNorm of every query and key head (Qwen3): one gain of head_dim for queries and one for keys."""
    per_head = norm("q/k norm", Norm.RMSNORM, columns, columns.tokens * heads, dim)
    weights = (Tensor("q/k norm gains", ("q and k", "head dim"), (2, dim), columns.weight_bytes),)
    return Operator(
        per_head.name, per_head.kind, per_head.module, weights, stream_forward=per_head.stream_forward,
        stream_backward=per_head.stream_backward, saved=per_head.saved,
    )


def rotary(columns: Columns, width: Quantity, module: Module = Module.ATTENTION) -> Operator:
    """Fused rotary embedding of `width` features: one read and one write each way, nothing kept but the shared table."""
    passes = 2 * columns.tokens * width * columns.activation_bytes
    return Operator("rotary embedding", OperatorKind.STREAM, module, stream_forward=passes, stream_backward=passes)
