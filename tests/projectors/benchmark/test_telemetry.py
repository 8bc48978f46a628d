"""Clock, temperature, power and throttling from NVML and AMD SMI, whose answers stand here as they document them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from projectors.benchmark.telemetry import Reading, Watch, amd_reading, conditions_of, nvidia_reading, reader_of


def nvml(**answers: Any) -> Any:
    """NVML as `pynvml` has it; what is not answered raises, as NVML_ERROR_NOT_SUPPORTED does."""

    def refuse(*_: object) -> None:
        raise RuntimeError("Not Supported")

    names = (
        "nvmlDeviceGetPowerUsage", "nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetClockInfo",
        "nvmlDeviceGetTemperature",
    )
    calls = {name: (lambda *_, value=answers[name]: value) if name in answers else refuse for name in names}
    return SimpleNamespace(NVML_CLOCK_SM=1, NVML_TEMPERATURE_GPU=0, **calls)


def test_nvml_answers_in_milliwatts_and_bits() -> None:
    library = nvml(
        nvmlDeviceGetPowerUsage=698_432, nvmlDeviceGetCurrentClocksThrottleReasons=0x4 | 0x1, nvmlDeviceGetClockInfo=1410,
        nvmlDeviceGetTemperature=66,
    )
    assert nvidia_reading(library, object()) == Reading(1410.0, 66.0, 698.432, ("software power cap",))


def test_what_a_device_does_not_tell_is_null() -> None:
    assert nvidia_reading(nvml(nvmlDeviceGetClockInfo=1980), object()) == Reading(1980.0, None, None, None)


def test_amd_smi_answers_in_words_where_it_has_no_figure() -> None:
    library = SimpleNamespace(
        AmdSmiClkType=SimpleNamespace(GFX=0),
        AmdSmiTemperatureType=SimpleNamespace(HOTSPOT=1),
        AmdSmiTemperatureMetric=SimpleNamespace(CURRENT=0),
        amdsmi_get_clock_info=lambda *_: {"clk": 2100, "min_clk": 500, "max_clk": 2400, "clk_locked": False, "clk_deep_sleep": 0},
        amdsmi_get_power_info=lambda *_: {"current_socket_power": 1004, "average_socket_power": "N/A", "gfx_voltage": 0},
        amdsmi_get_temp_metric=lambda *_: 71,
        amdsmi_get_violation_status=lambda *_: {"active_ppt_pwr": True, "active_prochot_thrm": "N/A"},
    )
    assert amd_reading(library, object()) == Reading(2100.0, 71.0, 1004.0, ("package power limit",))
    library.amdsmi_get_power_info = lambda *_: {"current_socket_power": "N/A"}
    assert amd_reading(library, object()).power_w is None


def test_conditions_keep_the_worst_and_say_why() -> None:
    slowed = Reading(1400, 82, 700, ("hardware slowdown",))
    found = conditions_of([Reading(1980, 60, 500, ()), slowed, Reading(None, None, 600, None)])
    assert (found.samples, found.clock_mhz, found.clock_mhz_least, found.temperature_c, found.power_w) == (3, 1690, 1400, 82, 600)
    assert found.throttled is True and found.reasons == ("hardware slowdown",)
    assert conditions_of([]).throttled is None
    assert conditions_of([Reading(1980, 60, 500, ())]).throttled is False


def test_without_a_reader_nothing_is_watched() -> None:
    with Watch(None) as watch:
        pass
    assert watch.conditions.samples == 0
    assert reader_of(10_000) is None


def test_a_watch_reads_until_it_ends() -> None:
    import time

    with Watch(lambda: Reading(1000, 50, 100, ())) as watch:
        time.sleep(0.7)
    count = watch.conditions.samples
    assert count >= 2
    time.sleep(0.3)
    assert watch.conditions.samples == count
