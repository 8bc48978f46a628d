"""Devices that are here, asked of PyTorch in a process of its own; which hardware profile each one is."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from projectors.benchmark.job import heard
from projectors.inputs import library
from projectors.inputs.benchmark_record import DeviceKind, MeasuredDevice
from projectors.inputs.catalog import LOCAL_MACHINE
from projectors.inputs.errors import InputError, InputProblem
from projectors.inputs.hardware import GIB, HardwareProfile
from projectors.inputs.library import Kind

NEEDS_TORCH = "PyTorch, which the extra benchmark brings: pip install 'primus-studio[benchmark]'"

DISCOVERY_SECONDS = 120.0
"""Patience with a driver that is asked for its devices."""

MEMORY_TOLERANCE = 0.12
"""Relative difference of the memory that a device reports from the one that its profile states."""


def torch_is_installed() -> bool:
    """Whether PyTorch can be imported; it is not imported for that."""
    return find_spec("torch") is not None


def choose_devices(kind: DeviceKind | None, processes: int | None, threads: int | None) -> tuple[MeasuredDevice, ...]:
    """Devices to measure on: GPUs where there are any, else the CPU, as one process or as many as are asked for.

    `threads`: of each CPU process; None: all divided among them. Raises InputError as `find_devices`, and where there are not
    so many devices.
    """
    found = find_devices(kind or DeviceKind.CUDA)
    if not found and kind is None:
        found = find_devices(DeviceKind.CPU)
    if not found or found[0].kind is DeviceKind.CUDA:
        if processes is not None and processes > len(found):
            wanted, here = f"{processes} devices of kind cuda", f"1 to {len(found)}" if found else "none: PyTorch finds no GPU"
            raise InputError([InputProblem("--processes" if found else "--device", wanted, here)])
        return found[:processes]
    count = processes or 1
    each = threads or max((found[0].threads or 1) // count, 1)
    return (found[0].model_copy(update={"threads": each}),) * count


def find_devices(kind: DeviceKind) -> tuple[MeasuredDevice, ...]:
    """Devices of a kind; none where there are none. Raises InputError without PyTorch, or where the driver does not answer."""
    if not torch_is_installed():
        raise InputError([InputProblem("", "no PyTorch", NEEDS_TORCH)])
    command = [sys.executable, "-m", "projectors.benchmark.worker", "--devices", kind.value]
    root = Path(__file__).resolve().parents[2]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=DISCOVERY_SECONDS, check=False, cwd=root, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise InputError([InputProblem("", f"no answer from the {kind.value} driver", "a driver that answers")]) from None
    said = next((found for line in answer.stdout.splitlines() if (found := heard(line))), None)
    if said is None:
        last = (answer.stderr.strip().splitlines() or ["no output"])[-1]
        raise InputError([InputProblem("", f"PyTorch that does not start ({last[:300]})", "a PyTorch that imports")])
    return tuple(_device(each) for each in said.data["devices"])


def _device(plain: dict[str, Any]) -> MeasuredDevice:
    kind = DeviceKind(plain["kind"])
    return MeasuredDevice(
        kind=kind, name=plain["name"], memory_bytes=plain["memory_bytes"], threads=plain.get("threads"),
        hardware=LOCAL_MACHINE if kind is DeviceKind.CPU else hardware_name(plain["name"], plain["memory_bytes"]),
    )


def hardware_name(product: str, memory_bytes: int) -> str | None:
    """The hardware profile that a product name means, such as NVIDIA H100 80GB HBM3: the model's number must be the same,
    the memory near; of several the one with the same further words (PCIe, NVL) is taken. None where none is near."""
    words = set(re.findall(r"[a-z0-9]+", product.lower()))
    near: list[tuple[int, float, str]] = []
    for name in library.names(Kind.HARDWARE):
        if name == LOCAL_MACHINE:
            continue
        profile = library.hardware(name)
        if not _model_words(name) <= words:
            continue
        difference = abs(memory_bytes / _memory(profile) - 1)
        if difference <= MEMORY_TOLERANCE:
            own = set(re.findall(r"[a-z0-9]+", f"{name} {profile.title}".lower()))
            near.append((-len(own & words), difference, name))
    return min(near)[2] if near else None


def _model_words(name: str) -> set[str]:
    """Words of a profile's name that a product name must have: h100, or rtx and 4090; not the memory size."""
    return {word for word in name.split("-") if not word.endswith("gb")}


def _memory(profile: HardwareProfile) -> float:
    return (profile.usable_memory_gib or profile.memory_gib) * GIB
