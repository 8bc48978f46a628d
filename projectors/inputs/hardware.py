"""The accelerator: peaks, memory, and the few efficiency figures that measurements adjust. All sourced."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from projectors.inputs.describe import Frozen, quantity

GIB = 1024**3
MIB = 1024**2


class Precision(StrEnum):
    """Format of the matrix multiplications. Weights and activations are 2 bytes but for fp32."""

    BF16 = "bf16"
    FP8 = "fp8"
    MXFP8 = "mxfp8"
    FP16 = "fp16"
    FP32 = "fp32"


class Vendor(StrEnum):
    AMD = "AMD"
    NVIDIA = "NVIDIA"
    OTHER = "other"


class PeakThroughput(Frozen):
    """Dense peak matrix throughput by format, without structured sparsity. null = not supported or not known."""

    bf16: float | None = quantity(None, says="bf16 peak", unit="TFLOP/s", above=0, most=1e6)
    fp16: float | None = quantity(None, says="fp16 peak", unit="TFLOP/s", above=0, most=1e6)
    fp8: float | None = quantity(None, says="fp8 peak", unit="TFLOP/s", above=0, most=1e6)
    mxfp8: float | None = quantity(None, says="Block-scaled (MX) fp8 peak", unit="TFLOP/s", above=0, most=1e6)
    fp32: float | None = quantity(
        None, says="fp32 peak (tf32 where the device trains with it)", unit="TFLOP/s", above=0, most=1e6
    )
    fp4: float | None = quantity(None, says="fp4 peak", unit="TFLOP/s", above=0, most=1e6)

    def tflops(self, precision: Precision) -> float | None:
        """Peak in TFLOP/s for a format, None where the device has none."""
        value: float | None = getattr(self, precision.value)
        return value


class Efficiency(Frozen):
    """Achievable fractions of the peaks, measured on large shapes; `calibrate` replaces them."""

    gemm_bf16: float = quantity(says="Large bf16 or fp16 GEMM over its peak", above=0, most=1.2)
    gemm_fp8: float = quantity(says="Large fp8 GEMM over its peak", above=0, most=1.2)
    grouped_gemm: float = quantity(says="Grouped expert GEMM over a plain GEMM of the same work", above=0, most=1.2)
    attention_forward: float = quantity(says="Fused attention forward over the bf16 peak", above=0, most=1.2)
    attention_backward: float = quantity(says="Fused attention backward over the bf16 peak", above=0, most=1.2)
    memory: float = quantity(says="Streaming kernels over the HBM bandwidth", above=0, most=1.2)


class FrameworkOverhead(Frozen):
    """What the training process takes beside model state: named, sourced, fitted per framework, never per case."""

    context_gib: float = quantity(says="Device context and loaded kernels", unit="GiB", least=0, most=64)
    communicator_mib: float = quantity(says="Collective-library buffers per communicator", unit="MiB", least=0, most=65536)
    workspace_mib: float = quantity(says="GEMM and attention workspaces", unit="MiB", least=0, most=65536)
    fragmentation: float = quantity(says="Allocator slack over allocated bytes", least=0, most=1)


class HardwareProfile(Frozen):
    """One accelerator as a process sees it (for MI250X: one of its two dies)."""

    name: str = Field(description="Name of the profile", min_length=1, max_length=200)
    title: str = Field(default="", description="Full product name")
    vendor: Vendor = quantity(Vendor.OTHER, says="Maker")
    architecture: str = Field(default="", description="Architecture, such as Hopper or CDNA4")
    memory_gib: float = quantity(says="Memory fitted", title="HBM", unit="GiB", above=0, most=65536)
    usable_memory_gib: float | None = quantity(
        None, says="Memory a process can really see; null = all fitted", unit="GiB", above=0, most=65536, advanced=True
    )
    memory_bandwidth_tb_s: float = quantity(says="Peak memory bandwidth", title="HBM bandwidth", unit="TB/s", above=0, most=10000)
    peak_tflops: PeakThroughput = Field(description="Dense matrix peaks")
    vector_tflops: float | None = quantity(
        None, says="fp32 vector peak, for reductions", unit="TFLOP/s", above=0, most=1e6, advanced=True
    )
    compute_units: int = quantity(says="Streaming multiprocessors or compute units", least=1, most=1_000_000)
    clock_mhz: float = quantity(says="Clock behind the peaks", unit="MHz", above=0, most=100_000, advanced=True)
    l2_mib: float | None = quantity(None, says="L2 cache", unit="MiB", above=0, most=1e6, advanced=True)
    tdp_w: float | None = quantity(None, says="Board power", unit="W", above=0, most=100_000, advanced=True)
    gemm_tile: tuple[int, int] = Field((128, 256), description="Rows and columns of the largest output tile of a library GEMM")
    kernel_launch_us: float = quantity(
        says="Host and device time to start one kernel", unit="µs", least=0, most=10_000, advanced=True
    )
    efficiency: Efficiency = Field(description="Achievable fractions of the peaks")
    framework: FrameworkOverhead = Field(description="Memory beside model state")
    usual_gpus_per_node: int = quantity(8, says="Accelerators in the usual node", least=1, most=1024)
    usual_network: str = Field(description="Name of the usual network profile")
    measured: tuple[dict[str, str | float | int | None], ...] = Field(default=(), description="Published measurements")
    notes: tuple[str, ...] = Field(default=(), description="Remarks")
    sources: dict[str, str] = Field(default_factory=dict, description="Field name -> where its figure comes from")

    @property
    def capacity_bytes(self) -> int:
        """Bytes that a process can use."""
        return int((self.usable_memory_gib or self.memory_gib) * GIB)

    @property
    def memory_bytes_per_s(self) -> float:
        return self.memory_bandwidth_tb_s * 1e12
