"""Fused attention and streaming kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from projectors.columns import Columns
from projectors.compute.roofline import Bound, OperatorSeconds, device_of, operator_seconds
from projectors.inputs.loading import load_hardware, load_model
from projectors.inputs.model_card import ModelCard
from projectors.workload.layers import LayerKind, layer_operators
from projectors.workload.operators import Module, Operator, OperatorKind
from projectors.workload.parameters import single_gpu_columns

H100 = load_hardware("h100")


def columns(**numbers: Any) -> Columns:
    """One GPU, one sequence, bf16, with some numbers replaced."""
    return replace(single_gpu_columns(), **numbers)



def operator_named(card: ModelCard, name: str, windowed: bool = False, **numbers: Any) -> Operator:
    operators = layer_operators(card, LayerKind(False, windowed), columns(**numbers))
    return next(operator for operator in operators if operator.name == name)


def attention(card: ModelCard, windowed: bool = False, **numbers: Any) -> OperatorSeconds:
    return operator_seconds(operator_named(card, "attention", windowed, **numbers), device_of(H100, columns()))


def test_attention_has_no_weight_gradient() -> None:
    """The reference splits every backward pass in halves for zero-bubble schedules; attention's is all input gradient."""
    assert attention(load_model("llama3.1-8b"), seq_length=8192).weight_gradient == 0


def test_a_long_causal_sequence_runs_at_the_published_rate() -> None:
    """FlashAttention-3 on H100, causal, head size 128, 16k: about 616 TFLOP/s (arXiv:2407.08608, figure 5d)."""
    operator = operator_named(load_model("llama3.1-8b"), "attention", seq_length=16384)
    seconds = attention(load_model("llama3.1-8b"), seq_length=16384).forward
    assert float(operator.flops_forward) / float(seconds) == pytest.approx(616e12, rel=0.05)


def test_backward_does_two_and_a_half_times_the_work() -> None:
    times = attention(load_model("llama3.1-8b"), seq_length=16384)
    efficiency = H100.efficiency
    slower = efficiency.attention_forward / efficiency.attention_backward
    assert times.input_gradient / times.forward == pytest.approx(2.5 * slower, rel=0.01)


def test_a_sliding_window_costs_a_fraction_of_full_attention() -> None:
    """The reference ignores windows (defect 16)."""
    card = load_model("gpt-oss-20b")
    assert attention(card, windowed=True, seq_length=8192).forward < 0.25 * attention(card, seq_length=8192).forward


def test_fewer_kv_heads_never_take_longer() -> None:
    """KV heads have no effect in the reference (defect 16); here they are HBM traffic."""
    card = load_model("llama3.1-8b")
    many = card.model_copy(update={"num_query_groups": card.num_attention_heads})
    assert attention(card, seq_length=64).forward < attention(many, seq_length=64).forward


def test_a_stream_takes_its_bytes_over_the_measured_bandwidth() -> None:
    stream = Operator("norm", OperatorKind.STREAM, Module.NORM, stream_forward=10**9)
    times = operator_seconds(stream, device_of(H100, columns()))
    assert times.forward == pytest.approx(1e9 / (3.35e12 * 0.91) + 2.8e-6)
    assert times.input_gradient == 0
    assert times.bound_forward is Bound.MEMORY


def test_context_parallel_divides_the_work() -> None:
    card = load_model("llama3.1-8b")
    whole = attention(card, seq_length=65536)
    quarter = attention(card, seq_length=65536, cp=4, gpus=4)
    assert quarter.forward == pytest.approx(whole.forward / 4, rel=0.01)
