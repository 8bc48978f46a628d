"""A hardware profile of the machine this runs on, estimated from what Linux tells: for planning a local dry run."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

# Assumptions where the machine does not tell, each a plain figure of today's servers.
CLOCK_MHZ = 2500.0  # MHz, when neither sysfs nor /proc/cpuinfo states one
MEMORY_GIB = 16.0  # GiB, when /proc/meminfo is not there
CHANNEL_GB_S = 25.6  # GB/s: one DDR4-3200 channel, 8 bytes x 3200 MT/s (JESD79-4)
CORES_PER_CHANNEL = 8  # cores that share one memory channel in common servers
FMA_UNITS = 2  # vector multiply-add units per core, as Intel server and AMD Zen cores have
FLOP_PER_FMA = 2
VECTOR_BITS = {"avx512f": 512, "avx2": 256, "asimd": 128}
DEFAULT_VECTOR_BITS = 128  # SSE2, which every x86-64 has
FP32_BITS = 32
MATRIX_FACTOR = {
    "amx_bf16": 16,
    "avx512_bf16": 2,
}  # bf16 over fp32 vector rate: 16 for AMX tiles (1,024 over 64 FLOP/cycle), 2 for dot products
UNACCELERATED_BF16 = 1  # bf16 is converted and multiplied as fp32

_MEMINFO = re.compile(r"^MemTotal:\s+(\d+) kB", re.MULTILINE)
_MHZ = re.compile(r"^cpu MHz\s*:\s*([\d.]+)", re.MULTILINE)
_FLAGS = re.compile(r"^(?:flags|Features)\s*:\s*(.+)$", re.MULTILINE)
_MODEL = re.compile(r"^model name\s*:\s*(.+)$", re.MULTILINE)


def local_machine(root: Path = Path("/")) -> dict[str, Any]:
    """Plain data of a hardware profile named `cpu`. `root` is where /proc and /sys lie (another one in tests)."""
    cpu = _text(root / "proc/cpuinfo")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    flags = set(match[1].split()) if (match := _FLAGS.search(cpu)) else set()
    clock = _clock(root, cpu)
    memory = _MEMINFO.search(_text(root / "proc/meminfo"))
    gib = round(int(memory[1]) / 1024**2, 3) if memory else MEMORY_GIB
    lanes = next((bits for flag, bits in VECTOR_BITS.items() if flag in flags), DEFAULT_VECTOR_BITS) // FP32_BITS
    vector = cores * clock * 1e6 * lanes * FMA_UNITS * FLOP_PER_FMA / 1e12
    factor = next((value for flag, value in MATRIX_FACTOR.items() if flag in flags), UNACCELERATED_BF16)
    channels = max(1, cores // CORES_PER_CHANNEL)
    name = match[1] if (match := _MODEL.search(cpu)) else "unknown processor"
    told = "estimate: cores x clock x vector lanes x 2 units x 2 FLOP, from /proc/cpuinfo"
    return {
        "name": "cpu",
        "title": f"This machine: {name}, {cores} cores (estimate)",
        "vendor": "other",
        "architecture": "CPU",
        "memory_gib": gib,
        "usable_memory_gib": None,
        "memory_bandwidth_tb_s": channels * CHANNEL_GB_S / 1000,
        "peak_tflops": {"bf16": vector * factor, "fp32": vector},
        "vector_tflops": vector,
        "compute_units": cores,
        "clock_mhz": clock,
        "gemm_tile": [64, 64],
        "kernel_launch_us": 5.0,
        "efficiency": {
            "gemm_bf16": 0.7,
            "gemm_fp8": 0.7,
            "grouped_gemm": 0.9,
            "attention_forward": 0.3,
            "attention_backward": 0.3,
            "memory": 0.7,
        },
        "framework": {"context_gib": 0.3, "communicator_mib": 16, "workspace_mib": 16, "fragmentation": 0.03},
        "usual_gpus_per_node": 1,
        "usual_network": "local-machine",
        "notes": ["An estimate from /proc and /sys and stated assumptions; a benchmark on this machine replaces it."],
        "sources": {
            "memory_gib": "MemTotal of /proc/meminfo" if memory else "assumption",
            "memory_bandwidth_tb_s": f"assumption: DDR4-3200, {channels} channels, one for {CORES_PER_CHANNEL} cores",
            "peak_tflops.bf16": f"{told}; bf16 at {factor}x the fp32 rate",
            "peak_tflops.fp32": told,
            "vector_tflops": told,
            "compute_units": "cores this process may run on",
            "clock_mhz": "cpufreq or /proc/cpuinfo, else an assumption",
            "gemm_tile": "assumption: a block that fits the first-level cache",
            "kernel_launch_us": "assumption: time of one PyTorch operator call on a CPU",
            "efficiency": "assumption, typical of oneDNN; a benchmark replaces it",
            "framework": "assumption, typical of a PyTorch process on a CPU; a benchmark replaces it",
        },
    }


def _clock(root: Path, cpu: str) -> float:
    """Highest clock in MHz: cpufreq's limit, else the fastest core of /proc/cpuinfo, else the assumption."""
    limit = _text(root / "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq").strip()
    if limit.isdigit():
        return int(limit) / 1000
    return max((float(value) for value in _MHZ.findall(cpu)), default=CLOCK_MHZ)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
