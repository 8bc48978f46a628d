"""Efficiencies fitted to a record: the simulation with them meets the measurements."""

from __future__ import annotations

import pytest

from projectors.inputs.changing import replace
from projectors.restoring.fitted import fit, fitted_hardware
from projectors.restoring.run import run_with
from tests.projectors.benchmark.tiny import tiny
from tests.projectors.restoring.records import record_of

STUDY = tiny("dense", "mbs: 2", per_node=1)


def test_a_record_of_the_simulation_fits_as_it_is() -> None:
    found = fit(run_with(record_of(STUDY), STUDY))
    assert found is not None
    record = record_of(STUDY).model_copy(update={"parts": ()})
    assert fit(run_with(record, STUDY)) is None
    with pytest.raises(ValueError, match="no measured layer"):
        fitted_hardware(STUDY.cluster.hardware, record, run_with(record, STUDY), "x")


def test_efficiencies_fall_by_what_the_device_is_slower() -> None:
    once, thrice = (fit(run_with(record_of(STUDY, scale), STUDY)) for scale in (1.0, 3.0))
    assert once is not None and thrice is not None
    assert thrice.gemm == pytest.approx(3 * once.gemm, rel=1e-6)
    assert thrice.stream == pytest.approx(3 * once.stream, rel=1e-6)
    record = record_of(STUDY, 3.0)
    before = STUDY.cluster.hardware
    after = fitted_hardware(before, record, run_with(record, STUDY), "slower")
    assert after.name == "slower"
    assert after.efficiency.gemm_bf16 == pytest.approx(before.efficiency.gemm_bf16 / thrice.gemm)
    assert "r of 2026" in after.sources["efficiency.memory"]
    slower = replace(STUDY, "cluster.hardware", after.model_dump(mode="json"))
    again = fit(run_with(record, slower))
    assert again is not None and again.gemm < thrice.gemm
