"""The ends of a model as operators: embedding; final norm, head and loss; multi-token prediction."""

from __future__ import annotations

from projectors.columns import Columns
from projectors.inputs.framework import LossKernel
from projectors.inputs.model_card import ModelCard, PositionEmbedding
from projectors.workload.hyper_connections import collapse_at_head, stream_copies
from projectors.workload.layers import layer_operators, mtp_kind
from projectors.workload.operators import (
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
    INT64_BYTES,
    dropout_mask,
    into_tensor_parallel,
    linear,
    norm,
    out_of_tensor_parallel,
    tokens_of_input,
)

LOSS_REDUCTIONS = 3
"""Vocabulary-parallel cross entropy reduces the maximum, the target's logit and the sum of exponentials over tp."""


def embedding_operators(card: ModelCard, columns: Columns) -> tuple[Operator, ...]:
    """Token (and learned position) embedding of one microbatch. Rows are split over tp; partial sums are reduced."""
    tokens, hidden = columns.tokens, card.hidden_size
    rows = columns.vocabulary(card.vocab_size)
    weights = [Tensor("embedding weight", ("vocabulary", "features"), (rows, hidden), columns.weight_bytes)]
    if card.position_embedding is PositionEmbedding.LEARNED:
        weights.append(Tensor("position embedding", ("positions", "features"), (card.max_seq_len, hidden), columns.weight_bytes))
    passes = 2 * tokens * hidden * columns.activation_bytes
    embedding = Operator(
        "embedding",
        OperatorKind.STREAM,
        Module.EMBEDDING,
        weights=tuple(weights),
        stream_forward=passes,
        stream_backward=passes,
        saved=(Tensor("token numbers", ("tokens",), (tokens,), INT64_BYTES), *dropout_mask(columns, hidden)),
        collectives=out_of_tensor_parallel(columns, hidden),
    )
    return (embedding, *_into_streams(card, columns))


def head_operators(card: ModelCard, columns: Columns) -> tuple[Operator, ...]:
    """Final norm, output head, loss, and the multi-token-prediction layers, of one microbatch on the last stage."""
    main = (
        *_out_of_streams("final", card, columns),
        norm("final norm", card.norm, columns, columns.tokens_sp, card.hidden_size),
        _head(card, columns, own_weight=_head_has_own_weight(card, columns)),
        _loss(card, columns),
    )
    return main + mtp_operators(card, columns)


def mtp_operators(card: ModelCard, columns: Columns) -> tuple[Operator, ...]:
    """Multi-token prediction (DeepSeek-V3, arXiv:2412.19437, 2.2): per depth two norms, a projection of the joined
    hidden state and embedding, one layer like the last, a final norm, and the shared head and loss again. With
    hyper-connections the projection's output is copied to all streams and a head of its own collapses them (Primus
    `deepseek_v4_mtp_layer.py`).

    On loop placement with pp > 1 the last stage needs its own copy of the embedding; a tied head already is one.
    """
    if not card.mtp_layers:
        return ()
    own, hidden = columns.tokens_sp, card.hidden_size
    embedding_copy = _ends_apart(columns) and not card.tied_embeddings
    operators: list[Operator] = []
    for depth in range(card.mtp_layers):
        embedding = embedding_operators(card, columns)[0]
        operators += [
            Operator(
                "MTP embedding", embedding.kind, Module.MTP,
                weights=embedding.weights[:1] if embedding_copy and depth == 0 else (),
                stream_forward=embedding.stream_forward, stream_backward=embedding.stream_backward, saved=embedding.saved,
                collectives=embedding.collectives,
            ),
            norm("MTP embedding norm", card.norm, columns, own, hidden, module=Module.MTP),
            norm("MTP hidden norm", card.norm, columns, own, hidden, module=Module.MTP),
            linear(
                "MTP projection", columns, Module.MTP, rows=columns.tokens, inputs=2 * hidden, outputs=hidden // columns.tp,
                saved=(Tensor("MTP joined input", ("tokens", "features"), (own, 2 * hidden), columns.activation_bytes),),
                collectives=into_tensor_parallel(columns, 2 * hidden),
            ),
            *_into_streams(card, columns),
            *layer_operators(card, mtp_kind(card), columns),
            *_out_of_streams("MTP", card, columns),
            norm("MTP final norm", card.norm, columns, own, hidden, module=Module.MTP),
            _head(card, columns, own_weight=False),
            _loss(card, columns),
        ]
    return tuple(operators)


def _into_streams(card: ModelCard, columns: Columns) -> tuple[Operator, ...]:
    """Copies for the parallel residual streams of hyper-connections, where the model has them."""
    compressed = card.compressed_attention
    return (stream_copies(columns, card.hidden_size, compressed.hyper_connections),) if compressed else ()


def _out_of_streams(name: str, card: ModelCard, columns: Columns) -> tuple[Operator, ...]:
    """The weighted sum of those streams ahead of a final norm."""
    compressed = card.compressed_attention
    return collapse_at_head(name, columns, card.hidden_size, compressed.hyper_connections) if compressed else ()


def _ends_apart(columns: Columns) -> bool:
    """Whether embedding and head sit on different GPUs."""
    return columns.pp > 1 and not columns.schedule.ends_meet


def _head_has_own_weight(card: ModelCard, columns: Columns) -> bool:
    """Untied, or tied but on another GPU than the embedding, where a copy is kept and its gradients are added up."""
    return not card.tied_embeddings or _ends_apart(columns)


def _head(card: ModelCard, columns: Columns, *, own_weight: bool) -> Operator:
    """Logits [tokens, vocabulary / tp]. Always in the activation format: fp8 recipes leave the head out."""
    tokens, hidden = columns.tokens, card.hidden_size
    rows = columns.vocabulary(card.vocab_size)
    projection = linear(
        "output head", columns, Module.HEAD, rows=tokens, inputs=hidden, outputs=rows,
        saved=(Tensor("head input", ("tokens", "features"), (tokens_of_input(columns), hidden), columns.activation_bytes),),
        collectives=into_tensor_parallel(columns, hidden),
    )
    weights = (Tensor("head weight", ("vocabulary", "features"), (rows, hidden), columns.weight_bytes),) if own_weight else ()
    return Operator(
        projection.name, projection.kind, projection.module, weights, gemm=projection.gemm, saved=projection.saved,
        in_place_bytes=tokens * rows * columns.activation_bytes,  # the loss turns the logits into their gradient
        collectives=projection.collectives,
    )


def _loss(card: ModelCard, columns: Columns) -> Operator:
    """Vocabulary-parallel cross entropy. Fused: works in place on the logits. Unfused: keeps an fp32 softmax.

    HBM passes over the logits: fused one read and one write each way; unfused casts to fp32 (read 2, write 4),
    subtracts the maximum and exponentiates in place (4 + 4 each), sums (4); backward reads and writes fp32, casts back.
    What is kept and what is needed at once depends on the framework's kernel (`loss_bytes`).
    """
    tokens, rows = columns.tokens, columns.vocabulary(card.vocab_size)
    element = columns.activation_bytes
    if columns.cross_entropy_fusion:
        forward, backward = 2 * element, 2 * element
    else:
        forward, backward = element + 6 * FP32_BYTES, 3 * FP32_BYTES + element
    kept, peak = loss_bytes(columns)
    name = "logits" if kept == element else "fp32 softmax of the logits"
    return Operator(
        "loss",
        OperatorKind.STREAM,
        Module.LOSS,
        stream_forward=forward * tokens * rows,
        stream_backward=backward * tokens * rows,
        saved=(Tensor(name, ("tokens", "vocabulary"), (tokens, rows), kept),),
        in_place_bytes=(forward - (peak - kept)) * tokens * rows,
        collectives=(Collective(CollectiveKind.ALL_REDUCE, Axis.TP, tokens * FP32_BYTES, forward=LOSS_REDUCTIONS, backward=0),),
    )


def loss_bytes(columns: Columns) -> tuple[int, int]:
    """Bytes per logit that are kept for backward, and that are alive at once while the loss runs.

    In place: the logits alone. Vocabulary-parallel: the logits and their fp32 copy, which becomes the softmax; backward
    the same with the gradient. Compiled: exponentials beside the fp32 logits, as nothing is done in place. Eager: backward
    holds the logits, the log-softmax, its gradient and that of the logits (PyTorch `log_softmax`, `nll_loss`).
    """
    element, framework = columns.activation_bytes, columns.framework
    kernel = framework.fused_loss if columns.cross_entropy_fusion else framework.unfused_loss
    return {
        LossKernel.IN_PLACE: (element, element),
        LossKernel.VOCAB_PARALLEL: (FP32_BYTES, FP32_BYTES + element),
        LossKernel.COMPILED: (FP32_BYTES, 2 * FP32_BYTES + element),
        LossKernel.EAGER: (FP32_BYTES + element, 3 * FP32_BYTES + element),
    }[kernel]
