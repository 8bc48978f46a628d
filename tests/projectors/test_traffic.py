"""The communication table: rows add up to the step's exposed parts, members are the groups', calls are what a step runs."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from projectors.inputs.loading import load_cluster, load_model, load_study
from projectors.inputs.recipe import Recipe, Schedule, Sharding
from projectors.projection import project, project_study
from projectors.results import CommunicationRow, ExposedCommunication, Projection

STUDIES = (
    "mixtral-8x22b-mi355x-4x8", "llama3.1-70b-h100-8x8", "deepseek-v3-h100-128x8", "qwen3-235b-a22b-mi355x-32x8",
    "llama3.1-405b-gb200-16x4",
)


def of_llama(**recipe: Any) -> Projection:
    stated = {"seq_length": 8192, "mbs": 1, "gbs": 64, **recipe}
    return project(load_model("llama3.1-8b"), load_cluster("h100-8x8"), Recipe(**stated), memory_margin=0.06)


def rows(projection: Projection, part: str, kind: str) -> list[CommunicationRow]:
    return [row for row in projection.communication if (row.part, row.kind) == (part, kind)]


@pytest.mark.parametrize("name", STUDIES)
def test_exposed_seconds_of_the_rows_add_up_to_the_parts_of_the_step(name: str) -> None:
    projection = project_study(load_study(name))
    assert projection.step is not None
    for part in fields(ExposedCommunication):
        listed = sum(row.exposed for row in projection.communication if row.part == part.name)
        assert listed == pytest.approx(getattr(projection.step.exposed, part.name), rel=1e-9), part.name


def test_tensor_parallel_rows_count_every_layer_pass_and_microbatch() -> None:
    projection = of_llama(tp=4, sequence_parallel=True)
    layers = [row for row in rows(projection, "tp", "reduce-scatter") if row.nbytes == 8192 * 4096 * 2]
    # each layer: attention output and mlp down scatter in the forward pass, their inputs' gradients in the backward pass
    assert sum(row.calls for row in layers) >= 4 * 32 * projection.microbatches
    assert all(row.ranks == range(4) and row.per_node == 4 and row.tiers == ("node",) for row in layers)


def test_one_gpu_per_node_of_a_data_parallel_group_behind_tp_8() -> None:
    (row,) = rows(of_llama(tp=8, sharding=Sharding.NONE), "dp", "all-reduce")
    assert tuple(row.ranks) == tuple(range(0, 64, 8))
    assert row.per_node == 1
    assert row.tiers == ("fabric",)
    assert row.calls == 1


def test_pipeline_rows_send_activations_forward_and_gradients_back() -> None:
    projection = of_llama(tp=2, pp=4, schedule=Schedule.ONE_F_ONE_B)
    sends = rows(projection, "pp", "send-receive")
    assert {row.nbytes for row in sends} <= {8192 // 2 * 4096 * 2, 8192 * 4096 * 2}
    assert {row.size for row in sends} == {2}
    assert sum(row.calls for row in sends) in (projection.microbatches, 2 * projection.microbatches)  # an end, or between


def test_sharded_parameters_are_gathered_twice_and_scattered_once_per_microbatch() -> None:
    projection = of_llama(sharding=Sharding.ZERO3)
    gathers, scatters = rows(projection, "fsdp", "all-gather"), rows(projection, "fsdp", "reduce-scatter")
    assert sum(row.calls for row in gathers) == 2 * sum(row.calls for row in scatters)
    assert projection.parameters is not None
    gathered = sum(row.calls * row.nbytes for row in gathers)
    assert gathered == pytest.approx(2 * 2 * projection.parameters.total * projection.microbatches, rel=0.01)


def test_bus_bandwidth_of_a_large_reduction_in_a_node_is_what_nccl_reaches() -> None:
    projection = project(
        load_model("llama3.1-8b"), load_cluster("h100-1x8"), Recipe(seq_length=8192, mbs=1, gbs=8, sharding=Sharding.NONE),
        memory_margin=0.06,
    )
    (row,) = rows(projection, "dp", "all-reduce")
    assert row.algorithm == "in-network"
    assert row.bus_bandwidth == pytest.approx(478.9e9, rel=0.05)  # Azure ND_H100_v5, all-reduce at 8 GiB


@pytest.mark.parametrize("name", STUDIES)
def test_every_row_says_how_it_was_priced(name: str) -> None:
    for row in project_study(load_study(name)).communication:
        assert row.algorithm and row.tiers and row.used_by
        assert row.seconds > 0 and row.calls > 0 and row.exposed >= 0
        assert row.part in ("pp", "dp") or row.exposed <= row.total * (1 + 1e-9)
        assert list(row.ranks) == sorted(set(row.ranks)) and 1 <= row.per_node <= row.size
