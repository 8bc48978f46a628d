"""Parameter counts of the whole model, read off the same operators as memory and time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from projectors.columns import Columns
from projectors.inputs.hardware import Precision
from projectors.inputs.model_card import ModelCard
from projectors.inputs.recipe import FloatFormat, MoeDispatch, Optimizer, Recompute, Schedule, Sharding
from projectors.workload.ends import embedding_operators, head_operators, mtp_operators
from projectors.workload.layers import layer_kinds, layer_operators
from projectors.workload.operators import Operator


@dataclass(frozen=True, slots=True)
class ModelParameters:
    """Counts of one model: `total` and `active` without multi-token prediction, as model authors publish them."""

    total: int
    active: int
    mtp: int


def single_gpu_columns(seq_length: int = 1, *, vocabulary_multiple: int = 1) -> Columns:
    """One sequence on one GPU, nothing split: the whole model as published, without padding of the vocabulary."""
    return Columns(
        gpus=1, tp=1, cp=1, ep=1, etp=1, mbs=1, gbs=1, seq_length=seq_length, sequence_parallel=False, offload_optimizer=0.0,
        expert_imbalance=1.0, shard_group=1, pp=1, vpp=1, precision=Precision.BF16, recompute=Recompute.NONE,
        recompute_num_layers=None, modules_recomputed=(), schedule=Schedule.ONE_F_ONE_B, microbatch_group_size=None,
        max_in_flight=None, overlap_p2p=True, post_validation=False, stage_layers=None, sharding=Sharding.NONE,
        overlap_grad_reduce=False, overlap_param_gather=False, tp_overlap=False, moe_dispatch=MoeDispatch.ALLTOALL,
        moe_overlap=False, cross_entropy_fusion=True, optimizer=Optimizer.ADAM, master_weights=FloatFormat.FP32,
        grad_reduce_dtype=FloatFormat.FP32, vocabulary_multiple=vocabulary_multiple,
    )


@lru_cache(maxsize=256)
def model_parameters(card: ModelCard) -> ModelParameters:
    """Count every weight once. Active: routed experts by top_k of num_experts, everything else in full."""
    columns = single_gpu_columns()
    layers = Counter(layer_kinds(card))
    mtp = mtp_operators(card, columns)
    head = head_operators(card, columns)
    ends = embedding_operators(card, columns) + head[: len(head) - len(mtp)]
    total, active = _count(card, ends)
    for kind, number in layers.items():
        layer_total, layer_active = _count(card, layer_operators(card, kind, columns))
        total += number * layer_total
        active += number * layer_active
    return ModelParameters(total, active, _count(card, mtp)[0])


@lru_cache(maxsize=256)
def forward_flops_per_sequence(card: ModelCard, seq_length: int) -> float:
    """Model FLOPs of one forward pass over one sequence: matrix products and the causal half of attention.

    A training step is three times this (backward does each product twice), the convention of MFU since PaLM
    (arXiv:2204.02311, appendix B), with causal attention counted by half as current Megatron-Core and Megatron-Bridge do.
    """
    columns = single_gpu_columns(seq_length)
    layers = Counter(layer_kinds(card))
    ends = embedding_operators(card, columns) + head_operators(card, columns)
    flops = sum(operator.flops_forward for operator in ends)
    for kind, number in layers.items():
        flops += number * sum(operator.flops_forward for operator in layer_operators(card, kind, columns))
    return float(flops)


def _count(card: ModelCard, operators: Iterable[Operator]) -> tuple[int, int]:
    """Total and active parameters of some operators."""
    total = active = 0
    for operator in operators:
        number = int(operator.parameters)
        total += number
        active += number * card.moe.top_k // card.moe.num_experts if operator.expert_weights and card.moe else number
    return total, active
