"""The training framework: what it takes beside model state, and what its kernels keep. Fitted per framework, never per case.

The defaults are Megatron-Core's; `profiles/frameworks` states where each figure comes from. `communication_units`: 20 of the 132
SMs of an H800 (DeepSeek-V3, arXiv:2412.19437, 3.2.2 and 3.5.1); NCCL and RCCL take one per channel, of the same order.

Ranges: a context takes 0.3 GiB with lazily loaded kernels and over 1 GiB with all of them (pytorch/pytorch issue 107667); a
communicator 544 MiB between two GPUs and 688 among more (NVIDIA/nccl issue 964); the allocator holds 1.009 to 1.18 times what is
allocated (24 runs of huggingface.co/nanotron/old_bench).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from projectors.inputs.describe import Frozen, quantity
from projectors.inputs.hardware import FrameworkOverhead, HardwareProfile, Precision


class LossKernel(StrEnum):
    """How cross entropy treats the logits."""

    IN_PLACE = "in-place"              # Transformer Engine: the logits become their gradient
    COMPILED = "compiled"              # Megatron-LM's own fusion (`fused_cross_entropy.py`): fp32 logits and their exponentials
    VOCAB_PARALLEL = "vocab-parallel"  # Megatron-LM unfused (`cross_entropy.py`): fp32 logits, exponentiated in place
    EAGER = "eager"                    # torch.nn.functional.cross_entropy of fp32 logits


Range = tuple[Annotated[float, Field(ge=0, le=65536)], Annotated[float, Field(ge=0, le=65536)]]
"""Low and high end of a term."""


class FrameworkProfile(Frozen):
    """One training framework, as far as memory and time depend on it. null = the hardware profile's figure."""

    name: str = Field(default="megatron-core", description="Name of the profile", min_length=1, max_length=200)
    title: str = Field(default="", description="Full name")
    matches: tuple[str, ...] = Field(
        default=(), description="Lower-case words of a measured case's framework that mean this one; the longest match wins"
    )
    context_gib: float | None = quantity(
        None, says="Device context and loaded kernels; null = the hardware's", unit="GiB", least=0, most=64
    )
    communicator_mib: float | None = quantity(
        None, says="Collective-library buffers per communicator; null = the hardware's", unit="MiB", least=0, most=65536
    )
    workspace_mib: float | None = quantity(
        None, says="GEMM and attention workspaces; null = the hardware's", unit="MiB", least=0, most=65536
    )
    expert_gemm_streams: int = quantity(
        4, says="Streams of grouped expert GEMMs, each with a workspace like that of a GEMM", least=0, most=64
    )
    buffers_mib: float = quantity(
        0.0, says="Batches, masks and buffers that the framework holds between steps", unit="MiB", least=0, most=65536
    )
    fragmentation: float | None = quantity(
        None, says="Allocator slack over allocated bytes; null = the hardware's", least=0, most=1
    )
    context_gib_range: Range | None = Field(default=(0.3, 1.1), description="Low and high end of context_gib")
    communicator_mib_range: Range | None = Field(default=(544, 688), description="Low and high end of communicator_mib")
    workspace_mib_range: Range | None = Field(default=None, description="Low and high end of workspace_mib")
    buffers_mib_range: Range | None = Field(default=None, description="Low and high end of buffers_mib")
    fragmentation_range: Range | None = Field(default=(0.009, 0.18), description="Low and high end of fragmentation")
    gradient_bytes: dict[Precision, Annotated[float, Field(gt=0, le=64)]] = Field(
        default_factory=dict,
        description="Bytes per parameter of gradients and copies of them by precision, where grad_reduce_dtype does not decide",
    )
    gradient_buckets: bool = quantity(
        False,
        says="Gradients that are not sharded are copied into buckets to be reduced (PyTorch DDP); off: they lie in the buckets",
    )
    sequence_parallel: bool = quantity(
        True, says="Norms and residuals are split over tp where the recipe leaves it open; off: the framework cannot"
    )
    flash_attention: bool = quantity(
        True, says="Attention in one kernel that keeps a log-sum-exp per query; off: keeps every probability"
    )
    attention_dropout: bool = quantity(
        False, says="Dropout on attention probabilities; without flash attention their mask and what is left are kept"
    )
    hidden_dropout: bool = quantity(False, says="Dropout behind embedding, attention and MLP: a mask of a byte per value is kept")
    fused_activation: bool = quantity(
        True,
        says="Activation in one kernel with its gate and the router's probability; off: the activated branch is kept too",
    )
    fused_norm: bool = quantity(
        True, says="Norm in one kernel that keeps its input; off: keeps the input in fp32 and the normalized value"
    )
    attention_output_copied: bool = quantity(
        False, says="The output projection keeps the attention output in another layout, beside attention's own"
    )
    recompute_per_operator: bool = quantity(
        False,
        says="Selective recompute that names no module keeps the outputs of attention and of every second matrix product; off: "
        "everything but core attention",
    )
    gathered_inputs_kept: bool = quantity(
        False, says="Column-parallel projections keep their input as gathered over tp; off: they gather it again in backward"
    )
    copies_kept: float = quantity(
        0.0,
        says="Bytes per token and feature that a layer of eager code keeps beside what its operators need",
        unit="B",
        least=0,
        most=1000,
    )
    boundary_copies: float = quantity(
        0.0, says="Copies of a stage's input that every microbatch in flight keeps beside the saved tensors", least=0, most=100
    )
    fused_loss: LossKernel = quantity(LossKernel.IN_PLACE, says="Cross entropy of recipes with cross_entropy_fusion")
    unfused_loss: LossKernel = quantity(LossKernel.VOCAB_PARALLEL, says="Cross entropy of recipes without it")
    communication_units: int = quantity(
        20, says="Compute units that communication kernels take while they run beside compute", least=0, most=10_000
    )
    notes: tuple[str, ...] = Field(default=(), description="Remarks")
    sources: dict[str, str] = Field(default_factory=dict, description="Field name -> where its figure comes from")


DEFAULT_FRAMEWORK = FrameworkProfile()
"""Used where no framework is stated: Megatron-Core, as the field defaults describe it."""


def overhead_of(framework: FrameworkProfile, hardware: HardwareProfile) -> FrameworkOverhead:
    """Memory beside model state: the framework's figures where it states them, else the device's."""
    stated = {name: getattr(framework, name) for name in FrameworkOverhead.model_fields}
    return hardware.framework.model_copy(update={name: value for name, value in stated.items() if value is not None})
