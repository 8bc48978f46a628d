"""What a layer is made of: operators with shapes, parameters, saved tensors and traffic.

Memory, time and FLOPs are three readers of the same list (`layers.py`, `ends.py`). A quantity here is what ONE GPU
holds or does for ONE microbatch; it may be an array over recipes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from projectors.columns import Quantity
from projectors.inputs.recipe import RecomputeModule


class OperatorKind(StrEnum):
    GEMM = "gemm"
    GROUPED_GEMM = "grouped_gemm"
    ATTENTION = "attention"
    STREAM = "stream"   # bound by HBM traffic: norm, rotary, activation, residual, permutation, embedding, loss


class Module(StrEnum):
    """Part of a layer, at the granularity at which recompute and reports speak of it."""

    NORM = "layernorm"
    ATTENTION = "attention"
    CORE_ATTENTION = "core_attention"
    MLA_UP = "mla_up_proj"
    MLP = "mlp"
    ROUTER = "router"
    EXPERTS = "experts"
    EXPERT_ACTIVATION = "moe_act"
    SHARED_EXPERT = "shared_expert"
    RESIDUAL = "residual"
    EMBEDDING = "embedding"
    HEAD = "head"
    LOSS = "loss"
    MTP = "mtp"


RECOMPUTED: dict[RecomputeModule, frozenset[Module]] = {
    RecomputeModule.CORE_ATTENTION: frozenset({Module.CORE_ATTENTION}),
    RecomputeModule.MLP: frozenset({Module.MLP}),
    RecomputeModule.MOE: frozenset({Module.ROUTER, Module.EXPERTS, Module.EXPERT_ACTIVATION, Module.SHARED_EXPERT}),
    RecomputeModule.LAYERNORM: frozenset({Module.NORM}),
    RecomputeModule.MOE_ACT: frozenset({Module.EXPERT_ACTIVATION}),
    RecomputeModule.MLA_UP_PROJ: frozenset({Module.MLA_UP}),
}
"""Selective recompute -> the operators' modules that run again in the backward pass (Megatron-Core `recompute_modules`)."""


class CollectiveKind(StrEnum):
    ALL_REDUCE = "all-reduce"
    ALL_GATHER = "all-gather"
    REDUCE_SCATTER = "reduce-scatter"
    ALL_TO_ALL = "all-to-all"
    RING_EXCHANGE = "ring exchange"  # cp: every block visits every rank of the ring
    SEND_RECEIVE = "send-receive"


class Axis(StrEnum):
    """Parallel axis whose group communicates. Group algebra: `communication/groups.py`."""

    TP = "tp"
    CP = "cp"
    EP = "ep"
    ETP = "etp"
    PP = "pp"
    DP = "dp"                # data parallel x context parallel: gradients and dense parameters
    EXPERT_DP = "expert_dp"  # gradients and parameters of routed experts


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor on one GPU. `dims` names each extent, so that a formula can be shown from the same data.

    `dropped_by`: the selective-recompute modules under which a saved tensor is not kept (it is made again in backward).
    """

    name: str
    dims: tuple[str, ...]
    shape: tuple[Quantity, ...]
    element_bytes: float
    dropped_by: tuple[RecomputeModule, ...] = ()

    @property
    def elements(self) -> Quantity:
        product: Quantity = 1
        for extent in self.shape:
            product = product * extent
        return product

    @property
    def nbytes(self) -> Quantity:
        return self.elements * self.element_bytes


@dataclass(frozen=True, slots=True)
class Gemm:
    """`batch` products of [m, k] by [k, n]. For grouped GEMMs batch = local experts and m = mean rows of one expert."""

    m: Quantity
    n: Quantity
    k: Quantity
    batch: Quantity = 1

    @property
    def flops(self) -> Quantity:
        return 2 * self.m * self.n * self.k * self.batch


@dataclass(frozen=True, slots=True)
class Attention:
    """Fused causal attention of one GPU: `pairs` query-key pairs for each of `heads` heads of each of `batch` sequences.

    `pairs` is the mean over the ranks of a context-parallel ring.
    """

    batch: Quantity
    heads: Quantity
    kv_heads: Quantity
    queries: Quantity    # query tokens of one sequence on this GPU
    keys: Quantity       # key tokens that they may see (whole sequence, or the window)
    pairs: Quantity
    dim_qk: int
    dim_v: int

    @property
    def flops(self) -> Quantity:
        """Forward: scores and weighted values. Backward does 2.5 times this (FlashAttention-2, arXiv:2307.08691, 3.1)."""
        return 2 * self.batch * self.heads * self.pairs * (self.dim_qk + self.dim_v)


ATTENTION_BACKWARD_FLOPS = 2.5
"""Backward over forward FLOPs of fused attention: five products for two, scores computed again (arXiv:2307.08691)."""


@dataclass(frozen=True, slots=True)
class Collective:
    """Traffic of an operator. `nbytes`: all-gather and reduce-scatter: the whole (gathered) tensor; all-reduce: the
    tensor; all-to-all: what one rank sends to all, itself included; ring exchange and send-receive: one block.
    `forward` and `backward` count how often it runs in each pass.
    """

    kind: CollectiveKind
    axis: Axis
    nbytes: Quantity
    forward: int = 1
    backward: int = 1


@dataclass(frozen=True, slots=True)
class Operator:
    """One step of a layer on one GPU for one microbatch."""

    name: str
    kind: OperatorKind
    module: Module
    weights: tuple[Tensor, ...] = ()
    expert_weights: bool = False               # replicated over expert_dp instead of dp
    gemm: Gemm | None = None
    fused: tuple[Quantity, ...] = ()           # widths of the projections whose outputs are one GEMM's here; () = one
    attention: Attention | None = None
    stream_forward: Quantity = 0               # HBM bytes read and written in the forward pass (STREAM only)
    stream_backward: Quantity = 0
    saved: tuple[Tensor, ...] = ()             # kept for backward when nothing is recomputed
    in_place_bytes: Quantity = 0               # part of its inputs, outputs and their gradients that needs no memory of its own
    collectives: tuple[Collective, ...] = ()

    @property
    def flops_forward(self) -> Quantity:
        if self.gemm is not None:
            return self.gemm.flops
        return self.attention.flops if self.attention is not None else 0

    def transient_bytes(self, element_bytes: int) -> Quantity:
        """Bytes alive only while the backward pass runs it: the gradients of its output and of its input."""
        if self.gemm is not None:
            passing: Quantity = self.gemm.batch * self.gemm.m * (self.gemm.n + self.gemm.k) * element_bytes
        elif self.attention is not None:
            core = self.attention
            per_token = (core.heads + core.kv_heads) * (core.dim_qk + core.dim_v)
            passing = core.batch * core.queries * per_token * element_bytes
        else:
            passing = self.stream_forward
        return passing - self.in_place_bytes

    @property
    def parameters(self) -> Quantity:
        return sum((weight.elements for weight in self.weights), start=0)

    def saved_bytes(self, recomputed: tuple[RecomputeModule, ...] = ()) -> Quantity:
        """Bytes kept for backward from one microbatch when the named modules are recomputed selectively."""
        kept = (tensor.nbytes for tensor in self.saved if not set(tensor.dropped_by) & set(recomputed))
        return sum(kept, start=0)
