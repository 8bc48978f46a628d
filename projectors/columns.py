"""A recipe's numbers as the formulas read them: scalars for one recipe, arrays of one length for many.

Categories (schedule, recompute, sharding, ...) are single values: a table of recipes is split by them, so that every
formula is written once, without branches over array elements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projectors.inputs.cluster import ClusterSpec
from projectors.inputs.framework import DEFAULT_FRAMEWORK, FrameworkProfile
from projectors.inputs.hardware import Precision
from projectors.inputs.recipe import (
    FloatFormat,
    MoeDispatch,
    Optimizer,
    Recipe,
    Recompute,
    RecomputeModule,
    Schedule,
    Sharding,
)

Quantity = int | float | NDArray[Any]
"""One number, or one number per recipe of a table."""

MX_BLOCK = 32
"""Elements that share a scale of one byte (OCP Microscaling Formats Specification 1.0, 5.2)."""

VOCABULARY_MULTIPLE = 128
"""Embedding rows are padded to a multiple of this times tp (Megatron-LM, `--make-vocab-size-divisible-by`, default)."""


def ceil_div(amount: Quantity, parts: Quantity) -> Quantity:
    """Integer division rounded up."""
    return -(-amount // parts)


def at_least(amount: Quantity, least: Quantity) -> Quantity:
    """The larger of both, for numbers or arrays."""
    if isinstance(amount, np.ndarray) or isinstance(least, np.ndarray):
        return np.maximum(amount, least)
    return max(amount, least)


def at_most(amount: Quantity, most: Quantity) -> Quantity:
    """The smaller of both, for numbers or arrays."""
    if isinstance(amount, np.ndarray) or isinstance(most, np.ndarray):
        return np.minimum(amount, most)
    return min(amount, most)


@dataclass(frozen=True, slots=True)
class Columns:
    """What the formulas need of a recipe on a cluster. Degrees and sizes may be arrays of one common length."""

    gpus: int
    tp: Quantity
    cp: Quantity
    ep: Quantity
    etp: Quantity
    mbs: Quantity
    gbs: Quantity
    seq_length: Quantity
    sequence_parallel: Quantity      # bool, or array of bool
    offload_optimizer: Quantity
    expert_imbalance: Quantity
    shard_group: Quantity            # hsdp only: GPUs per shard group
    pp: int
    vpp: int
    precision: Precision
    recompute: Recompute
    recompute_num_layers: int | None
    modules_recomputed: tuple[RecomputeModule, ...]
    schedule: Schedule
    microbatch_group_size: int | None
    max_in_flight: int | tuple[int, ...] | None     # of every pipeline rank, or of each
    overlap_p2p: bool
    post_validation: bool
    stage_layers: tuple[int, ...] | None
    sharding: Sharding
    overlap_grad_reduce: bool
    overlap_param_gather: bool
    tp_overlap: bool
    moe_dispatch: MoeDispatch
    moe_overlap: bool
    cross_entropy_fusion: bool
    optimizer: Optimizer
    master_weights: FloatFormat
    grad_reduce_dtype: FloatFormat
    per_operator_recompute: bool = False  # selective recompute keeps outputs of operators, not all but some modules
    vocabulary_multiple: int = VOCABULARY_MULTIPLE
    framework: FrameworkProfile = DEFAULT_FRAMEWORK
    contention: bool = False
    communication_share: float = 0.0  # part of the compute units that communication takes from what it hides behind

    @property
    def dp(self) -> Quantity:
        """Data-parallel size: replicas of the dense part."""
        return self.gpus // (self.tp * self.cp * self.pp)

    @property
    def expert_dp(self) -> Quantity:
        """Replicas of each routed expert."""
        return self.gpus // (self.etp * self.ep * self.pp)

    @property
    def microbatches(self) -> Quantity:
        """Microbatches per data-parallel rank and step."""
        return self.gbs // (self.mbs * self.dp)

    @property
    def pairs_passes(self) -> bool:
        """Whether forward and backward passes run together in blocks."""
        return self.pp > 1 and self.schedule.pairs_passes(self.moe_overlap)

    @property
    def sp(self) -> Quantity:
        """Ways in which the sequence is split outside the tensor-parallel matrices: tp with sequence parallel, else 1."""
        if isinstance(self.sequence_parallel, np.ndarray):
            return np.where(self.sequence_parallel, self.tp, 1)
        return self.tp if self.sequence_parallel else 1

    @property
    def tokens(self) -> Quantity:
        """Tokens of one microbatch on one GPU inside the tensor-parallel matrices."""
        return self.mbs * self.seq_length // self.cp

    @property
    def tokens_sp(self) -> Quantity:
        """Tokens of one microbatch on one GPU outside them (norms, residual stream, router)."""
        return self.tokens // self.sp

    @property
    def activation_bytes(self) -> int:
        """Bytes of one activation element."""
        return 4 if self.precision is Precision.FP32 else 2

    @property
    def weight_bytes(self) -> int:
        """Bytes of one stored weight."""
        return self.activation_bytes

    @property
    def operand_bytes(self) -> float:
        """Bytes of one element of a GEMM input kept for the weight gradient: 1 in fp8 (Transformer Engine keeps the cast), and in
        mxfp8 its share of a scale."""
        if self.precision is Precision.MXFP8:
            return 1 + 1 / MX_BLOCK
        return 1 if self.precision is Precision.FP8 else self.activation_bytes

    @property
    def fp8(self) -> bool:
        return self.precision in (Precision.FP8, Precision.MXFP8)

    def vocabulary(self, vocab_size: int) -> Quantity:
        """Embedding rows on one GPU, padded as the framework pads them."""
        return ceil_div(vocab_size, self.vocabulary_multiple * self.tp) * self.vocabulary_multiple


def columns_of(recipe: Recipe, cluster: ClusterSpec, framework: FrameworkProfile = DEFAULT_FRAMEWORK) -> Columns:
    """The columns of one recipe: scalars. Legality is not checked here."""
    shared = {name: getattr(recipe, name) for name in _SHARED_FIELDS}
    units = cluster.hardware.compute_units
    return Columns(
        gpus=cluster.gpus,
        sequence_parallel=recipe.uses_sequence_parallel and (recipe.sequence_parallel is not None or framework.sequence_parallel),
        shard_group=recipe.shard_group or cluster.gpus_per_node,
        modules_recomputed=recipe.modules_recomputed,
        framework=framework,
        per_operator_recompute=(
            recipe.recompute is Recompute.SELECTIVE and not recipe.recompute_modules and framework.recompute_per_operator
        ),
        contention=cluster.contention,
        communication_share=min(framework.communication_units / units, 1.0) if cluster.contention else 0.0,
        **shared,
    )


_RESOLVED_FIELDS = ("sequence_parallel", "shard_group")
_SHARED_FIELDS = tuple(
    name for name in Columns.__dataclass_fields__ if name in Recipe.model_fields and name not in _RESOLVED_FIELDS
)
