"""Links are shared, communication takes compute units, steps wait for the slowest node; each can be turned off."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from projectors.columns import columns_of
from projectors.communication.overlap import bucketed_exposed, ring_exposed
from projectors.compute.layer import machine_of
from projectors.inputs.loading import load_cluster, load_model, load_study
from projectors.inputs.recipe import Recipe
from projectors.projection import project
from projectors.results import StepBreakdown
from projectors.stage_times import stage_times
from projectors.stages import stage_plan
from projectors.stragglers import slowest_excess
from projectors.traffic import traffic_beside_replicas
from projectors.workload.model import model_parts

H100 = load_cluster("h100-8x8")
LITE = load_model("deepseek-v2-lite")
RECIPE = Recipe(seq_length=4096, gbs=64)


def step_of(name: str, *, recipe: dict[str, Any] | None = None, **cluster: Any) -> StepBreakdown:
    study = load_study(name)
    changed = study.recipe.model_copy(update=recipe or {})
    projection = project(study.model, study.cluster.model_copy(update=cluster), changed, memory_margin=0.06)
    assert projection.step is not None
    return projection.step


@pytest.mark.parametrize("name", ["mixtral-8x22b-mi355x-4x8", "llama3.1-70b-h100-8x8", "deepseek-v3-h100-128x8"])
def test_without_contention_no_step_takes_longer(name: str) -> None:
    assert step_of(name, contention=False).seconds <= step_of(name).seconds


def test_hidden_seconds_cost_the_share_of_compute_units_that_communication_takes() -> None:
    """20 of the 132 SMs of an H100."""
    shared = columns_of(RECIPE, H100)
    alone = columns_of(RECIPE, H100.model_copy(update={"contention": False}))
    assert shared.communication_share == pytest.approx(20 / 132)
    assert ring_exposed(1.0, 2.0, alone) == 0
    assert ring_exposed(1.0, 2.0, shared) == pytest.approx(20 / 132)
    assert ring_exposed(3.0, 2.0, shared) == pytest.approx(1 + 2 * 20 / 132)
    assert bucketed_exposed(1.0, 1e9, 1, 5.0, alone) == pytest.approx(0.04)  # one bucket of 40 M of 1000 M parameters


def test_reduction_waits_for_expert_exchanges_on_its_links() -> None:
    """DeepSeek-V2-Lite, one expert a GPU over 8 nodes: all-to-all and gradients leave through the same cards; with the experts of
    a node on its GPUs they do not."""

    def traffic(ep: int, **changes: object) -> tuple[float, float]:
        columns = replace(columns_of(Recipe(seq_length=4096, gbs=64, ep=ep), H100), **changes)  # type: ignore[arg-type]
        plan = stage_plan(LITE, columns)
        machine = machine_of(H100, columns)
        times = stage_times(columns, plan, machine, model_parts(LITE, plan.kinds, columns))
        return traffic_beside_replicas(plan.stages_of[0], times, machine, columns)

    forward, backward = traffic(64)
    assert 0 < forward <= backward
    assert traffic(64, contention=False) == (0.0, 0.0)
    assert traffic(8) == (0.0, 0.0)
    alone = replace(columns_of(RECIPE, H100), communication_share=0.0)
    assert bucketed_exposed(1.0, 1e9, 1, 0.8, alone) == pytest.approx(0.2)
    assert bucketed_exposed(1.0, 1e9, 1, 0.8 - 0.4, alone) == pytest.approx(0.6)


@pytest.mark.parametrize("nodes", [2, 16, 128, 1000])
def test_the_slowest_of_n_nodes_is_the_expected_maximum_of_n_normals(nodes: int) -> None:
    drawn = np.random.default_rng(1).standard_normal((4000, nodes)).max(axis=1).mean()
    assert slowest_excess(nodes, 0.01) == pytest.approx(0.01 * drawn, abs=0.01 * 0.05)


def test_a_step_waits_for_the_slowest_node_only_where_nodes_differ() -> None:
    alike, spread = step_of("llama3.1-70b-h100-8x8"), step_of("llama3.1-70b-h100-8x8", node_spread=0.02)
    waited = spread.seconds - alike.seconds
    assert waited == pytest.approx(slowest_excess(8, 0.02) * (alike.seconds - alike.other), rel=1e-9)
    assert waited == pytest.approx(spread.other - alike.other)
    assert slowest_excess(1, 0.02) == 0
