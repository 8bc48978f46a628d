"""Our operators against PyTorch: the bytes that autograd keeps and the FLOPs that its counter counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from projectors.inputs import library
from projectors.inputs.model_card import ModelCard
from projectors.workload.layers import LayerKind, layer_kinds, layer_operators
from projectors.workload.operators import Module, Operator
from projectors.workload.parameters import single_gpu_columns
from tests.projectors.workload import pytorch_layers as torch_layers

SEQUENCES, TOKENS = 2, 256
ROUTING = frozenset({"router row map", "dispatch row map", "combine row map", "dispatched probabilities"})
"""Integer maps and probabilities of the routing, which the PyTorch layer does not have."""


def operators_of(card: ModelCard, *, moe: bool) -> tuple[Operator, ...]:
    kind: LayerKind = next(kind for kind in layer_kinds(card) if kind.moe is moe)
    return layer_operators(card, kind, replace(single_gpu_columns(TOKENS), mbs=SEQUENCES))


def saved(operators: tuple[Operator, ...], *, without: frozenset[Module] = frozenset()) -> float:
    return sum(
        tensor.nbytes
        for operator in operators
        for tensor in operator.saved
        if tensor.name not in ROUTING and not (operator.module in without and tensor.name != "MLP norm output")
    )


def causal_excess(operators: tuple[Operator, ...]) -> float:
    """What counting the full square of attention adds to our causal count."""
    excess = 0.0
    for operator in operators:
        if (core := operator.attention) is not None:
            square = 2 * core.batch * core.heads * TOKENS**2 * (core.dim_qk + core.dim_v)
            excess += square - core.flops
    return excess


def dense(card: ModelCard) -> Callable[[], torch_layers.Layer]:
    return lambda: torch_layers.transformer_layer(card, lambda: torch_layers.mlp(card.hidden_size, card.ffn_hidden_size))


def routed(card: ModelCard) -> Callable[[], torch_layers.Layer]:
    return lambda: torch_layers.transformer_layer(card, lambda: torch_layers.experts(card))


@pytest.mark.parametrize("model", ["llama3.1-8b", "llama3.1-70b", "llama2-7b", "deepseek-v3"])
def test_a_dense_layer_keeps_exactly_what_autograd_keeps(model: str) -> None:
    card = library.model(model)
    expected = torch_layers.saved_bytes(dense(card), (SEQUENCES, TOKENS, card.hidden_size))
    assert saved(operators_of(card, moe=False)) == expected


@pytest.mark.parametrize("model", ["mixtral-8x7b", "qwen3-30b-a3b"])
def test_a_layer_of_experts_keeps_exactly_what_autograd_keeps(model: str) -> None:
    card = library.model(model).model_copy(update={"qk_norm": False})
    expected = torch_layers.saved_bytes(routed(card), (SEQUENCES, TOKENS, card.hidden_size))
    norm_output = SEQUENCES * TOKENS * card.hidden_size * 2  # kept by the router, which the PyTorch layer does not have
    assert saved(operators_of(card, moe=True), without=frozenset({Module.ROUTER})) - norm_output == expected


@pytest.mark.parametrize("model", ["llama3.1-8b", "llama2-7b", "deepseek-v3"])
def test_a_dense_layer_computes_what_pytorchs_counter_counts(model: str) -> None:
    card = library.model(model)
    operators = operators_of(card, moe=False)
    expected = torch_layers.forward_flops(dense(card), (SEQUENCES, TOKENS, card.hidden_size))
    assert sum(operator.flops_forward for operator in operators) + causal_excess(operators) == expected


@pytest.mark.parametrize("model", ["mixtral-8x7b", "qwen3-30b-a3b"])
def test_a_layer_of_experts_computes_what_pytorchs_counter_counts(model: str) -> None:
    card = library.model(model).model_copy(update={"qk_norm": False})
    operators = tuple(operator for operator in operators_of(card, moe=True) if operator.module is not Module.ROUTER)
    expected = torch_layers.forward_flops(routed(card), (SEQUENCES, TOKENS, card.hidden_size))
    assert sum(operator.flops_forward for operator in operators) + causal_excess(operators) == expected
