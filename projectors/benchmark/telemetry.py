"""Clock, temperature and power of a device while it is measured, read by the vendor's library in a thread that waits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from statistics import median
from typing import Any, Self

from projectors.inputs.benchmark_record import Conditions

INTERVAL_SECONDS = 0.2

NVIDIA_SLOWDOWNS = {
    0x04: "software power cap",
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
"""Bits of NVML's current clocks event reasons that mean throttling (nvml.h, nvmlClocksEventReason*)."""

AMD_VIOLATIONS = {
    "active_prochot_thrm": "processor hot",
    "active_ppt_pwr": "package power limit",
    "active_socket_thrm": "socket temperature limit",
    "active_vr_thrm": "voltage regulator temperature limit",
    "active_hbm_thrm": "memory temperature limit",
}
"""Fields of amdsmi_get_violation_status that mean throttling (AMD SMI Python reference)."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at a device; None where the library does not tell."""

    clock_mhz: float | None
    temperature_c: float | None
    power_w: float | None
    throttled: tuple[str, ...] | None


def nvidia_reading(library: Any, handle: Any) -> Reading:
    """A reading by NVML (`pynvml`)."""
    power = _told(lambda: library.nvmlDeviceGetPowerUsage(handle))
    reasons = _told(lambda: library.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
    return Reading(
        _number(_told(lambda: library.nvmlDeviceGetClockInfo(handle, library.NVML_CLOCK_SM))),
        _number(_told(lambda: library.nvmlDeviceGetTemperature(handle, library.NVML_TEMPERATURE_GPU))),
        None if power is None else float(power) / 1000,  # milliwatts
        None if reasons is None else tuple(words for bit, words in NVIDIA_SLOWDOWNS.items() if int(reasons) & bit),
    )


def amd_reading(library: Any, handle: Any) -> Reading:
    """A reading by AMD SMI (`amdsmi`)."""
    clock = _told(lambda: library.amdsmi_get_clock_info(handle, library.AmdSmiClkType.GFX)) or {}
    power = _told(lambda: library.amdsmi_get_power_info(handle)) or {}
    hot = _told(lambda: library.amdsmi_get_temp_metric(
        handle, library.AmdSmiTemperatureType.HOTSPOT, library.AmdSmiTemperatureMetric.CURRENT
    ))
    violations = _told(lambda: library.amdsmi_get_violation_status(handle))
    return Reading(
        _number(clock.get("clk")),
        _number(hot),
        _number(power.get("current_socket_power", power.get("average_socket_power"))),
        None if violations is None else tuple(words for key, words in AMD_VIOLATIONS.items() if violations.get(key) is True),
    )


def reader_of(index: int) -> Callable[[], Reading] | None:
    """What reads GPU `index`: NVML or AMD SMI, whichever is installed and knows the device; None where neither does."""
    try:
        nvidia = import_module("pynvml")
        nvidia.nvmlInit()
        handle = nvidia.nvmlDeviceGetHandleByIndex(index)
    except Exception:  # noqa: BLE001 - each library raises errors of its own, and without a reader nothing is lost
        return _amd_reader(index)
    return lambda: nvidia_reading(nvidia, handle)


def _amd_reader(index: int) -> Callable[[], Reading] | None:
    try:
        amd = import_module("amdsmi")
        amd.amdsmi_init()
        handle = amd.amdsmi_get_processor_handles()[index]
    except Exception:  # noqa: BLE001 - as above
        return None
    return lambda: amd_reading(amd, handle)


def conditions_of(readings: list[Reading]) -> Conditions:
    """All readings in one."""
    clocks = [reading.clock_mhz for reading in readings if reading.clock_mhz is not None]
    temperatures = [reading.temperature_c for reading in readings if reading.temperature_c is not None]
    powers = [reading.power_w for reading in readings if reading.power_w is not None]
    told = [reading.throttled for reading in readings if reading.throttled is not None]
    reasons = tuple(sorted({words for found in told for words in found}))
    return Conditions(
        samples=len(readings),
        clock_mhz=median(clocks) if clocks else None,
        clock_mhz_least=min(clocks) if clocks else None,
        temperature_c=max(temperatures) if temperatures else None,
        power_w=median(powers) if powers else None,
        throttled=bool(reasons) if told else None,
        reasons=reasons,
    )


class Watch:
    """Reads in the background between `with` and its end."""

    def __init__(self, read: Callable[[], Reading] | None) -> None:
        self._read, self._readings = read, list[Reading]()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        if self._read is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def conditions(self) -> Conditions:
        """What was read so far."""
        return conditions_of(list(self._readings))

    def _run(self) -> None:
        assert self._read is not None
        while not self._over.wait(INTERVAL_SECONDS):
            self._readings.append(self._read())


def _told(ask: Callable[[], Any]) -> Any:
    """An answer, or None where the device or the driver has none."""
    try:
        return ask()
    except Exception:  # noqa: BLE001 - NVML and AMD SMI raise their own errors for every figure that a device lacks
        return None


def _number(value: Any) -> float | None:
    """A figure; AMD SMI answers N/A in words."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
