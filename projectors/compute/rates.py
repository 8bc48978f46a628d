"""What one device sustains: matrix and memory rates."""

from __future__ import annotations

from projectors.inputs.hardware import HardwareProfile, Precision

TERA = 1e12
MICRO = 1e-6


def matrix_rate(hardware: HardwareProfile, precision: Precision) -> float:
    """FLOP/s of a large GEMM.

    Raises ValueError where the device states no peak for the format; legality reports that to the user first.
    """
    peak = hardware.peak_tflops.tflops(precision)
    if peak is None:
        raise ValueError(f"{hardware.name} states no {precision.value} peak, so a {precision.value} GEMM has no rate on it")
    efficiency = hardware.efficiency
    return peak * TERA * (efficiency.gemm_fp8 if precision in (Precision.FP8, Precision.MXFP8) else efficiency.gemm_bf16)


def attention_peak(hardware: HardwareProfile, precision: Precision) -> float:
    """Peak FLOP/s behind fused attention: that of the activations' format, since fp8 recipes leave attention in bf16."""
    return matrix_rate(hardware, activation_precision(precision)) / hardware.efficiency.gemm_bf16


def activation_precision(precision: Precision) -> Precision:
    """Format of what is not quantised: bf16 under an fp8 recipe, else the recipe's own."""
    return Precision.BF16 if precision in (Precision.FP8, Precision.MXFP8) else precision


def memory_rate(hardware: HardwareProfile) -> float:
    """Bytes/s of a streaming kernel."""
    return hardware.memory_bytes_per_s * hardware.efficiency.memory


def launch_seconds(hardware: HardwareProfile) -> float:
    """Seconds between two kernels of one stream."""
    return hardware.kernel_launch_us * MICRO
