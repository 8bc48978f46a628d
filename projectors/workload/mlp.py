"""Feed-forward parts as operators: dense MLP, router, routed experts, shared expert."""

from __future__ import annotations

from projectors.columns import Columns, Quantity
from projectors.inputs.model_card import MixtureOfExperts, ModelCard
from projectors.inputs.recipe import MoeDispatch, RecomputeModule
from projectors.workload.operators import (
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
    INT64_BYTES,
    into_tensor_parallel,
    linear,
    linear_input,
    out_of_tensor_parallel,
    tokens_of_input,
)

ROUTING_MAP_BYTES = 1   # boolean token x expert map
ROW_MAP_BYTES = 4       # int32 source row of every dispatched token


def dense_mlp(card: ModelCard, columns: Columns) -> tuple[Operator, ...]:
    """Up (and gate) projection, activation, down projection on [tokens, hidden]."""
    norm_output = linear_input("MLP norm output", columns, tokens_of_input(columns), card.hidden_size, RecomputeModule.LAYERNORM)
    return _mlp(card, columns, card.ffn_hidden_size, card.mlp_bias, Module.MLP, RecomputeModule.MLP, (norm_output,), "")


def mixture_of_experts(
    card: ModelCard, moe: MixtureOfExperts, columns: Columns, *, hash_routed: bool = False
) -> tuple[Operator, ...]:
    """Router, dispatch, grouped expert MLP, combine, shared expert on [tokens, hidden].

    `hash_routed`: a fixed table from token number to experts picks them (DeepSeek-V4's first layers); the router matrix
    still scores them. The table (vocabulary x top_k integers, under 10 MB) is no parameter and is not counted.
    """
    norm_output = Tensor(
        "MLP norm output", ("tokens", "features"), (columns.tokens_sp, card.hidden_size), columns.activation_bytes,
        (RecomputeModule.LAYERNORM,),
    )
    operators = [
        _router(card, moe, columns, norm_output),
        *([_expert_lookup(moe, columns)] if hash_routed else []),
        _dispatch(card, moe, columns),
        *_experts(card, moe, columns),
        _combine(card, moe, columns),
    ]
    if moe.shared_ffn_hidden_size:
        operators += _mlp(
            card, columns, moe.shared_ffn_hidden_size, False, Module.SHARED_EXPERT, RecomputeModule.MOE, (), "shared expert "
        )
    return tuple(operators)


def _mlp(
    card: ModelCard,
    columns: Columns,
    ffn: int,
    bias: bool,
    module: Module,
    dropped_by: RecomputeModule,
    kept_input: tuple[Tensor, ...],
    prefix: str,
) -> tuple[Operator, ...]:
    branches = 2 if card.activation.gated else 1
    tokens, hidden, width = columns.tokens, card.hidden_size, ffn // columns.tp
    return (
        linear(
            f"{prefix}up projection", columns, module, rows=tokens, inputs=hidden, outputs=branches * width,
            bias=branches * width if bias else 0, saved=kept_input, collectives=into_tensor_parallel(columns, hidden),
            fused=(width,) * branches,
        ),
        _activation(f"{prefix}activation", columns, module, tokens, width, branches, (dropped_by,)),
        linear(
            f"{prefix}down projection", columns, module, rows=tokens, inputs=width, outputs=hidden, bias=hidden if bias else 0,
            saved=(linear_input(f"{prefix}activation output", columns, tokens, width, dropped_by, features="ffn"),),
            collectives=out_of_tensor_parallel(columns, hidden),
        ),
    )


def _activation(
    name: str,
    columns: Columns,
    module: Module,
    tokens: Quantity,
    width: Quantity,
    branches: int,
    dropped_by: tuple[RecomputeModule, ...],
) -> Operator:
    """Activation: reads every branch, writes one; keeps its input. In several kernels it also keeps the activated branch for
    the product with the gate or, in experts, with the router's probability."""
    element = columns.activation_bytes
    multiplied = branches > 1 or module is Module.EXPERT_ACTIVATION
    activated = (Tensor(f"{name} before its product", ("tokens", "ffn"), (tokens, width), element, dropped_by),)
    return Operator(
        name,
        OperatorKind.STREAM,
        module,
        stream_forward=(branches + 1) * tokens * width * element,
        stream_backward=(2 * branches + 1) * tokens * width * element,
        saved=(
            Tensor(f"{name} input", ("tokens", "branches", "ffn"), (tokens, branches, width), element, dropped_by),
            *(activated if multiplied and not columns.framework.fused_activation else ()),
        ),
    )


def dispatched_tokens(moe: MixtureOfExperts, columns: Columns) -> Quantity:
    """Token copies that the experts of one GPU work on: each of the ep x etp ranks sends tokens x top_k copies, spread
    over ep; etp ranks work on the same copies. The busiest rank has `expert_imbalance` times the mean."""
    return columns.tokens_sp * moe.top_k * columns.etp * columns.expert_imbalance


def _router(card: ModelCard, moe: MixtureOfExperts, columns: Columns, norm_output: Tensor) -> Operator:
    """Scores [tokens, experts] in fp32 with top-k; keeps scores, probabilities, the boolean map and the picked indices.

    Replicated over tp, on the sequence-parallel share of the tokens (Megatron-Core `TopKRouter`).
    """
    tokens, experts = columns.tokens_sp, moe.num_experts
    dropped = (RecomputeModule.MOE,)
    weights = [Tensor("router weight", ("features", "experts"), (card.hidden_size, experts), columns.weight_bytes)]
    if card.router_bias:
        weights.append(Tensor("router bias", ("experts",), (experts,), columns.weight_bytes))
    return Operator(
        "router",
        OperatorKind.GEMM,
        Module.ROUTER,
        weights=tuple(weights),
        gemm=Gemm(tokens, experts, card.hidden_size),
        saved=(
            norm_output,
            Tensor("router scores", ("tokens", "experts"), (tokens, experts), FP32_BYTES, dropped),
            Tensor("router probabilities", ("tokens", "experts"), (tokens, experts), FP32_BYTES, dropped),
            Tensor("routing map", ("tokens", "experts"), (tokens, experts), ROUTING_MAP_BYTES, dropped),
            Tensor("picked experts", ("tokens", "top k"), (tokens, moe.top_k), INT64_BYTES, dropped),
        ),
    )


def _expert_lookup(moe: MixtureOfExperts, columns: Columns) -> Operator:
    """Experts of every token read from the table: its number in, top_k table entries in and out. The router keeps them."""
    passes = columns.tokens_sp * (1 + 2 * moe.top_k) * INT64_BYTES
    return Operator("expert lookup", OperatorKind.STREAM, Module.ROUTER, stream_forward=passes)


def _dispatch(card: ModelCard, moe: MixtureOfExperts, columns: Columns) -> Operator:
    """Permute token copies by destination, send them to their experts' GPUs, sort by local expert."""
    return _exchange("dispatch", card, moe, columns, gather=CollectiveKind.ALL_GATHER)


def _combine(card: ModelCard, moe: MixtureOfExperts, columns: Columns) -> Operator:
    """Send expert outputs back and add the copies of each token."""
    return _exchange("combine", card, moe, columns, gather=CollectiveKind.REDUCE_SCATTER)


def _exchange(name: str, card: ModelCard, moe: MixtureOfExperts, columns: Columns, gather: CollectiveKind) -> Operator:
    """One direction of the expert exchange. Backward is the same traffic the other way.

    All-to-all carries top_k copies; the all-gather dispatcher carries every token of the group once per direction.
    Expert tensor parallelism gathers (dispatch) or reduces (combine) the copies within the etp group besides.
    """
    tokens, hidden, element = columns.tokens_sp, card.hidden_size, columns.activation_bytes
    sent = tokens * moe.top_k * hidden * element
    received = dispatched_tokens(moe, columns) * hidden * element
    transposed = CollectiveKind.REDUCE_SCATTER if gather is CollectiveKind.ALL_GATHER else CollectiveKind.ALL_GATHER
    over_experts: tuple[Collective, ...]
    if columns.moe_dispatch is MoeDispatch.ALLGATHER:
        whole = tokens * columns.ep * columns.etp * hidden * element
        over_experts = (
            Collective(gather, Axis.EP, whole, forward=1, backward=0),
            Collective(transposed, Axis.EP, whole, forward=0, backward=1),
        )
    else:
        over_experts = (Collective(CollectiveKind.ALL_TO_ALL, Axis.EP, sent * columns.expert_imbalance, forward=1, backward=1),)
    within_expert = (
        Collective(gather, Axis.ETP, received, forward=1, backward=0),
        Collective(transposed, Axis.ETP, received, forward=0, backward=1),
    )
    return Operator(
        name,
        OperatorKind.STREAM,
        Module.EXPERTS,
        stream_forward=2 * sent + 2 * received,
        stream_backward=2 * sent + 2 * received,
        saved=(Tensor(f"{name} row map", ("tokens", "top k"), (tokens, moe.top_k), ROW_MAP_BYTES, (RecomputeModule.MOE,)),),
        collectives=over_experts + within_expert,
    )


def _experts(card: ModelCard, moe: MixtureOfExperts, columns: Columns) -> tuple[Operator, ...]:
    """Grouped up projection, activation weighted by the router's probability, grouped down projection."""
    branches = 2 if card.activation.gated else 1
    hidden, width = card.hidden_size, moe.moe_ffn_hidden_size // columns.etp
    local = moe.num_experts // columns.ep
    copies = dispatched_tokens(moe, columns)
    rows = copies / local
    dropped = (RecomputeModule.MOE,)
    up = _grouped("expert up projection", card, columns, rows, local, hidden, branches * width,
                  linear_input("dispatched tokens", columns, copies, hidden, *dropped), bias=branches * width)
    activation = _activation("expert activation", columns, Module.EXPERT_ACTIVATION, copies, width, branches, dropped)
    probabilities = Tensor("dispatched probabilities", ("tokens",), (copies,), FP32_BYTES, dropped)
    activation = Operator(
        activation.name, activation.kind, activation.module, stream_forward=activation.stream_forward,
        stream_backward=activation.stream_backward, saved=(*activation.saved, probabilities),
    )
    down = _grouped("expert down projection", card, columns, rows, local, width, hidden,
                    linear_input("expert activation output", columns, copies, width, RecomputeModule.MOE, RecomputeModule.MOE_ACT,
                                 features="expert ffn"), bias=hidden)
    return up, activation, down


def _grouped(
    name: str,
    card: ModelCard,
    columns: Columns,
    rows: Quantity,
    local: Quantity,
    inputs: Quantity,
    outputs: Quantity,
    kept_input: Tensor,
    bias: Quantity,
) -> Operator:
    """One GEMM per local expert, run as a group."""
    weights = [Tensor(f"{name} weight", ("experts", "inputs", "outputs"), (local, inputs, outputs), columns.weight_bytes)]
    if card.expert_bias:
        weights.append(Tensor(f"{name} bias", ("experts", "outputs"), (local, bias), columns.weight_bytes))
    return Operator(
        name,
        OperatorKind.GROUPED_GEMM,
        Module.EXPERTS,
        weights=tuple(weights),
        expert_weights=True,
        gemm=Gemm(rows, outputs, inputs, local),
        saved=(kept_input,),
    )
