"""Matrix products on shipped devices: waves of tiles, HBM traffic, fp8."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from projectors.columns import Columns
from projectors.compute.gemm import MatrixUnits, gemm_seconds, tiles_of
from projectors.compute.rates import matrix_rate
from projectors.compute.roofline import Device, device_of, operator_seconds
from projectors.inputs.hardware import Precision
from projectors.inputs.loading import load_hardware
from projectors.workload.operators import Gemm, Module, Operator, OperatorKind
from projectors.workload.parameters import single_gpu_columns

H100 = load_hardware("h100")


def columns(**numbers: Any) -> Columns:
    """One GPU, one sequence, bf16, with some numbers replaced."""
    return replace(single_gpu_columns(), **numbers)



def device(precision: Precision = Precision.BF16) -> Device:
    return device_of(H100, columns(precision=precision))


def units() -> MatrixUnits:
    return device().layer_units


def seconds(m: float, n: float, k: float, batch: int = 1) -> float:
    return float(gemm_seconds(units(), m, n, k, batch, 2, 2)[0])


def test_a_large_product_runs_at_the_measured_rate() -> None:
    assert 2 * 8192**3 / seconds(8192, 8192, 8192) == pytest.approx(matrix_rate(H100, Precision.BF16), rel=0.05)


@given(m=st.integers(1, 20000), n=st.integers(1, 20000), k=st.integers(1, 20000), batch=st.integers(1, 64))
def test_no_product_beats_the_measured_rate(m: int, n: int, k: int, batch: int) -> None:
    assert 2 * m * n * k * batch / seconds(m, n, k, batch) <= units().flops_per_s * (1 + 1e-9)


def test_one_tile_more_than_a_wave_costs_another_wave() -> None:
    """132 units, tiles of 128 by 256: 12 x 11 tiles fill one wave; a thirteenth row of tiles starts a second."""
    small = MatrixUnits(units().flops_per_s, 1e18, 132, (128, 256))
    full, spilled = (float(gemm_seconds(small, rows * 128, 11 * 256, 4096, 1, 2, 2)[0]) for rows in (12, 13))
    assert spilled / full > 1.4


def test_a_thin_product_takes_as_long_as_its_weight_takes_to_read() -> None:
    read = 2 * (8 * 8192 + 8192 * 8192) + 2 * 8 * 8192
    time, moving = gemm_seconds(units(), 8, 8192, 8192, 1, 2, 2)
    assert moving
    assert time == pytest.approx(read / (3.35e12 * 0.91))


def test_a_deep_product_with_few_tiles_is_split_over_idle_units() -> None:
    few = 2 * 256 * 256 * 65536 / seconds(256, 256, 65536)
    assert few > 4 * units().flops_per_s * 2 / 132  # two tiles of 128 by 256 alone would keep two units busy


def test_a_group_of_experts_is_padded_to_tiles_but_shares_waves() -> None:
    rows, experts = 520, 8
    grouped = seconds(rows, 2048, 8192, batch=experts)
    assert grouped <= experts * seconds(rows, 2048, 8192)
    assert grouped > 1.05 * seconds(rows * experts, 2048, 8192)


def test_tiles_are_no_larger_than_the_device_has() -> None:
    assert (256, 256, 1.0) in tiles_of((256, 256))
    assert all(rows * cols <= 128 * 256 for rows, cols, _ in tiles_of((128, 256)))
    assert max(speed for *_, speed in tiles_of((128, 256))) == 1.0


def test_arrays_of_products_give_what_single_ones_give() -> None:
    rows = np.array([1, 100, 4096, 5000])
    table, _ = gemm_seconds(units(), rows, 4096, 1024, 1, 2, 2)
    assert table == pytest.approx([seconds(int(m), 4096, 1024) for m in rows])


def gemm(module: Module) -> Operator:
    return Operator("projection", OperatorKind.GEMM, module, gemm=Gemm(8192, 8192, 8192))


@pytest.mark.parametrize("name", ["h100", "b200", "mi300x", "mi325x", "mi355x"])
def test_fp8_speeds_layer_products_up(name: str) -> None:
    """The reference prices fp8 like bf16 (defect 12)."""
    plain, quantised = (
        device_of(load_hardware(name), columns(precision=precision)) for precision in (Precision.BF16, Precision.FP8)
    )
    half, eighth = operator_seconds(gemm(Module.MLP), plain), operator_seconds(gemm(Module.MLP), quantised)
    assert eighth.forward < 0.8 * half.forward
    assert eighth.weight_gradient < 0.8 * half.weight_gradient


def test_fp8_recipes_leave_the_head_and_the_router_in_bf16() -> None:
    for module in (Module.HEAD, Module.ROUTER):
        assert operator_seconds(gemm(module), device(Precision.FP8)) == operator_seconds(gemm(module), device())


def test_fp8_pays_for_its_casts() -> None:
    quantised = operator_seconds(gemm(Module.MLP), device(Precision.FP8))
    bare, _ = gemm_seconds(device(Precision.FP8).layer_units, 8192, 8192, 8192, 1, 1, 2)
    assert quantised.forward - bare == pytest.approx(4 * 8192 * 8192 / (3.35e12 * 0.91) + 2 * 2.8e-6)


def test_a_format_without_a_peak_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="a100-80gb states no fp8 peak"):
        device_of(load_hardware("a100-80gb"), columns(precision=Precision.FP8))
