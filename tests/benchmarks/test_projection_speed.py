"""How fast the engine answers. Run with `make benchmarks`; the figures go into the closing note of an issue."""

from __future__ import annotations

from typing import Any

import numpy as np

from projectors.inputs import Recipe, library
from projectors.inputs.loading import load_study
from projectors.inputs.recipe import FloatFormat, Recompute, Schedule, Sharding
from projectors.memory import peak_bytes
from projectors.pipeline import compile_kernel
from projectors.projection import project_study
from projectors.recipe_table import product_table


def test_projection_of_mixtral_8x22b_pp4_with_16_microbatches(benchmark: Any) -> None:
    study = load_study("mixtral-8x22b-mi355x-4x8")
    projection = benchmark(project_study, study)
    assert projection.microbatches == 16


def test_projection_of_deepseek_v3_pp16_vpp2_with_256_microbatches(benchmark: Any) -> None:
    study = load_study("deepseek-v3-h100-128x8")
    recipe = study.recipe.model_copy(update={"pp": 16, "vpp": 2, "schedule": Schedule.INTERLEAVED})
    dp = study.cluster.gpus // (16 * recipe.tp * recipe.cp)
    study = study.model_copy(update={"recipe": recipe.model_copy(update={"mbs": 1, "gbs": dp * 256})})
    compile_kernel()  # warm, as the window's process is
    projection = benchmark(project_study, study)
    assert projection.microbatches == 256


def test_memory_of_100_000_recipes(benchmark: Any) -> None:
    card, cluster = library.model("mixtral-8x22b"), library.cluster("h100-128x8")
    table = product_table(
        Recipe(gbs=16384, seq_length=8192),
        {
            "tp": [1, 2, 4, 8], "pp": [1, 2, 4, 7, 8], "ep": [1, 2, 4, 8], "cp": [1, 2, 4, 8], "mbs": [1, 2, 4, 8, 16],
            "vpp": [1], "schedule": [Schedule.GPIPE, Schedule.ONE_F_ONE_B, Schedule.ZB_H1, Schedule.ZB_H2],
            "recompute": list(Recompute), "sharding": [Sharding.NONE, Sharding.ZERO1, Sharding.ZERO3],
            "cross_entropy_fusion": [True, False],
        },
    )
    assert table.length >= 100_000
    peaks = benchmark.pedantic(peak_bytes, (card, cluster, table), rounds=5, warmup_rounds=1)
    assert np.all(peaks > 0)


def test_memory_of_1_000_000_recipes_against_a_cap(benchmark: Any) -> None:
    card, cluster = library.model("mixtral-8x22b"), library.cluster("h100-128x8")
    table = product_table(
        Recipe(gbs=16384, seq_length=8192),
        {
            "tp": [1, 2, 4, 8], "pp": [1, 2, 4, 7, 8], "ep": [1, 2, 4, 8], "cp": [1, 2, 4, 8], "mbs": [1, 2, 4, 8, 16],
            "vpp": [1], "schedule": [Schedule.GPIPE, Schedule.ONE_F_ONE_B, Schedule.ZB_H1, Schedule.ZB_H2],
            "recompute": list(Recompute), "sharding": [Sharding.NONE, Sharding.ZERO1, Sharding.ZERO3],
            "cross_entropy_fusion": [True, False], "grad_reduce_dtype": [FloatFormat.FP32, FloatFormat.BF16],
            "offload_optimizer": [0.0, 0.25, 0.5, 0.75, 1.0],
        },
    )
    assert table.length >= 1_000_000
    peaks = benchmark.pedantic(peak_bytes, (card, cluster, table), rounds=1, warmup_rounds=1)
    assert 0 < np.count_nonzero(peaks <= cluster.hardware.capacity_bytes) < table.length
