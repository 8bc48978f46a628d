"""The recipe: how the model is spread over the cluster and trained."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from projectors.inputs.describe import Frozen, quantity
from projectors.inputs.hardware import Precision
from projectors.inputs.model_card import MOST_SEQUENCE

MOST_DEGREE = 1_000_000


class Recompute(StrEnum):
    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"


class RecomputeModule(StrEnum):
    """What selective recompute may drop and run again (Megatron-Core's `recompute_modules`)."""

    CORE_ATTENTION = "core_attention"
    MLP = "mlp"
    MOE = "moe"
    LAYERNORM = "layernorm"
    MOE_ACT = "moe_act"
    MLA_UP_PROJ = "mla_up_proj"


class Schedule(StrEnum):
    GPIPE = "gpipe"
    ONE_F_ONE_B = "1f1b"
    INTERLEAVED = "interleaved"
    ZB_H1 = "zb-h1"
    ZB_H2 = "zb-h2"
    ZB_AUTO = "zb-auto"
    ZBV = "zbv"
    V_HALF = "v-half"
    V_MIN = "v-min"
    DUALPIPE = "dualpipe"
    DUALPIPE_V = "dualpipe-v"
    AUTO = "auto"

    @property
    def splits_backward(self) -> bool:
        """Whether input and weight gradients are separate steps."""
        return self in (
            Schedule.ZB_H1, Schedule.ZB_H2, Schedule.ZB_AUTO, Schedule.ZBV, Schedule.V_HALF, Schedule.V_MIN, Schedule.DUALPIPE,
            Schedule.DUALPIPE_V,
        )

    @property
    def v_shaped(self) -> bool:
        """Whether chunk 1 runs back from the last rank to the first, so that embedding and loss share rank 0."""
        return self in (Schedule.ZBV, Schedule.V_HALF, Schedule.V_MIN, Schedule.DUALPIPE_V)

    def pairs_passes(self, moe_overlap: bool) -> bool:
        """Whether forward and backward passes of different microbatches run together as one block: always in DualPipe, where
        expert communication is to hide behind the other pass in the interleaved schedule (Megatron-Core
        `overlap_moe_expert_parallel_comm`)."""
        return self in (Schedule.DUALPIPE, Schedule.DUALPIPE_V) or (self is Schedule.INTERLEAVED and moe_overlap)

    @property
    def copies(self) -> int:
        """Copies of the model along the pipeline: DualPipe feeds microbatches from both ends, each into a copy of its own."""
        return 2 if self is Schedule.DUALPIPE else 1

    @property
    def ends_meet(self) -> bool:
        """Whether the rank that has the embedding has the head and the loss too."""
        return self.v_shaped or self.copies > 1


class Sharding(StrEnum):
    """What data-parallel ranks split among themselves (ZeRO, arXiv:1910.02054)."""

    NONE = "none"
    ZERO1 = "zero1"
    ZERO2 = "zero2"
    ZERO3 = "zero3"
    HSDP = "hsdp"

    @property
    def optimizer(self) -> bool:
        return self is not Sharding.NONE

    @property
    def gradients(self) -> bool:
        return self in (Sharding.ZERO2, Sharding.ZERO3, Sharding.HSDP)

    @property
    def parameters(self) -> bool:
        return self in (Sharding.ZERO3, Sharding.HSDP)


class MoeDispatch(StrEnum):
    ALLGATHER = "allgather"
    ALLTOALL = "alltoall"
    DEEPEP = "deepep"
    SYNC_FREE_1 = "sync-free-1"
    SYNC_FREE_2 = "sync-free-2"
    SYNC_FREE_3 = "sync-free-3"


class Optimizer(StrEnum):
    ADAM = "adam"
    ADAM_BF16_MOMENTS = "adam-bf16-moments"
    SGD = "sgd"
    MUON = "muon"


class FloatFormat(StrEnum):
    """Storage format of a value that is not a matrix operand."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"

    @property
    def nbytes(self) -> int:
        return 4 if self is FloatFormat.FP32 else 2


class Recipe(Frozen):
    """Parallelism, batch, precision, recompute, schedule, sharding, overlap. dp follows from the cluster, never stated."""

    tp: int = quantity(
        1, says="Tensor parallel: GPUs that split each layer's matrices", title="Tensor parallel (tp)", least=1, most=MOST_DEGREE
    )
    pp: int = quantity(
        1, says="Pipeline parallel: ranks that split the layers", title="Pipeline parallel (pp)", least=1, most=MOST_DEGREE
    )
    vpp: int = quantity(
        1, says="Virtual stages (model chunks) per pipeline rank", title="Virtual stages (vpp)", least=1, most=MOST_DEGREE
    )
    cp: int = quantity(
        1, says="Context parallel: GPUs that split each sequence", title="Context parallel (cp)", least=1, most=MOST_DEGREE
    )
    ep: int = quantity(
        1, says="Expert parallel: GPUs that split the routed experts", title="Expert parallel (ep)", least=1, most=MOST_DEGREE
    )
    etp: int = quantity(
        1,
        says="Expert tensor parallel: GPUs that split each expert's matrices",
        title="Expert tensor parallel (etp)",
        least=1,
        most=MOST_DEGREE,
    )
    mbs: int = quantity(
        1,
        says="Microbatch: sequences per forward pass and data-parallel rank",
        title="Microbatch (mbs)",
        unit="sequences",
        least=1,
        most=MOST_DEGREE,
    )
    gbs: int = quantity(
        says="Global batch: sequences per optimizer step", title="Global batch (gbs)", unit="sequences", least=1, most=100_000_000
    )
    seq_length: int = quantity(says="Tokens per sequence", title="Sequence length", unit="tokens", least=1, most=MOST_SEQUENCE)
    precision: Precision = quantity(Precision.BF16, says="Format of the matrix multiplications")
    sequence_parallel: bool | None = quantity(None, says="Split norms and residuals over tp; null = on when tp > 1")
    recompute: Recompute = quantity(
        Recompute.NONE, says="Activations dropped in the forward pass and computed again in the backward"
    )
    recompute_num_layers: int | None = quantity(
        None,
        says="Full recompute: layers per virtual stage; null = all",
        title="Recomputed layers",
        unit="layers",
        least=1,
        most=MOST_DEGREE,
    )
    recompute_modules: tuple[RecomputeModule, ...] = Field(
        default=(), description="Selective recompute: modules run again; empty = core_attention"
    )
    schedule: Schedule = quantity(Schedule.ONE_F_ONE_B, says="Order of forward and backward passes on the pipeline ranks")
    microbatch_group_size: int | None = quantity(
        None,
        says="interleaved: microbatches that go through one virtual stage before the next one's turn; null = pp",
        title="Microbatch group",
        unit="microbatches",
        least=1,
        most=MOST_DEGREE,
    )
    max_in_flight: int | None = quantity(
        None,
        says="zb-auto: microbatches whose activations a pipeline rank may hold; null = as many as fit",
        title="Microbatches in flight",
        unit="microbatches",
        least=1,
        most=MOST_DEGREE,
    )
    overlap_p2p: bool = quantity(
        True, says="Pipeline sends behind compute; 1f1b waits for its sends either way", title="Pipeline send overlap"
    )
    post_validation: bool = quantity(
        False, says="Zero bubble: ranks take their optimizer step without waiting for each other and check it afterwards"
    )
    stage_layers: tuple[int, ...] | None = Field(default=None, description="Layers of every virtual stage in order; null = even")
    sharding: Sharding = quantity(Sharding.ZERO1, says="What data-parallel ranks split: optimizer, gradients, parameters")
    shard_group: int | None = quantity(
        None, says="hsdp: GPUs per shard group; null = not used", unit="GPUs", least=1, most=MOST_DEGREE
    )
    overlap_grad_reduce: bool = quantity(True, says="Gradient reduction behind the backward pass")
    overlap_param_gather: bool = quantity(True, says="Parameter gathering behind the forward pass")
    tp_overlap: bool = quantity(False, says="Tensor-parallel communication behind the GEMMs")
    moe_dispatch: MoeDispatch = quantity(MoeDispatch.ALLTOALL, says="How tokens reach their experts", title="MoE dispatch")
    moe_overlap: bool = quantity(
        False, says="Expert communication of one microbatch behind compute of another", title="MoE overlap"
    )
    cross_entropy_fusion: bool = quantity(True, says="Loss computed without an fp32 copy of the logits")
    optimizer: Optimizer = quantity(Optimizer.ADAM, says="Optimizer")
    master_weights: FloatFormat = quantity(FloatFormat.FP32, says="Format of the optimizer's copy of the weights")
    grad_reduce_dtype: FloatFormat = quantity(FloatFormat.FP32, says="Format in which gradients are kept and reduced")
    offload_optimizer: float = quantity(0.0, says="Fraction of optimizer state kept on the host", least=0, most=1)
    expert_imbalance: float = quantity(1.0, says="Busiest expert rank's load over the mean", least=1, most=1000)

    @model_validator(mode="after")
    def _formats(self) -> Self:
        if self.grad_reduce_dtype is FloatFormat.FP16:
            raise ValueError("grad_reduce_dtype is fp16, allowed is fp32 or bf16")
        if self.stage_layers is not None and any(count < 0 for count in self.stage_layers):
            raise ValueError("stage_layers has a negative count, allowed is 0 or more")
        return self

    @property
    def uses_sequence_parallel(self) -> bool:
        return self.tp > 1 if self.sequence_parallel is None else self.sequence_parallel and self.tp > 1

    @property
    def modules_recomputed(self) -> tuple[RecomputeModule, ...]:
        """Modules that selective recompute runs again: those named, or core attention when none is."""
        if self.recompute is not Recompute.SELECTIVE:
            return ()
        return self.recompute_modules or (RecomputeModule.CORE_ATTENTION,)
