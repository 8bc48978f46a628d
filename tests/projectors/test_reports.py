"""Reports of a projection: the contract's JSON by key and type, and the figures that people read."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from projectors import reports
from projectors.inputs.loading import load_study
from projectors.inputs.recipe import Schedule
from projectors.legality import Violation
from projectors.pipeline.timeline import PassKind, Timeline
from projectors.projection import project_study
from projectors.results import (
    ExposedCommunication,
    MemoryBreakdown,
    MemoryComponent,
    Projection,
    RankMemory,
    StepBreakdown,
    Throughput,
)
from projectors.text import GIB
from projectors.workload.parameters import ModelParameters

CONTRACT = json.loads("""
{"legal": true, "illegal": [], "feasible": true, "dp": 8, "gpus": 32, "microbatches": 16,
 "memory": {"peak_bytes": 0, "capacity_bytes": 0, "peak_rank": 0,
   "ranks": [{"rank": 0, "parameters": 0, "gradients": 0, "optimizer": 0, "activations": 0, "logits": 0,
              "communication_buffers": 0, "temporary": 0, "framework": 0, "total": 0, "in_flight": 4}],
   "kinds": [{"rank": 0, "allocated": 0, "reserved": 0, "low": 0, "high": 0}]},
 "step": {"seconds": 0.0, "compute": 0.0, "recompute": 0.0, "bubble": 0.0, "optimizer": 0.0, "other": 0.0,
          "exposed": {"tp": 0.0, "cp": 0.0, "ep": 0.0, "pp": 0.0, "dp": 0.0, "fsdp": 0.0}},
 "throughput": {"tokens_per_s_per_gpu": 0.0, "tokens_per_s": 0.0, "model_tflops_per_gpu": 0.0, "mfu": 0.0},
 "pipeline": {"schedule": "1f1b", "makespan": 0.0, "bubble_fraction": 0.0},
 "parameters": {"total": 0, "active": 0, "per_rank": [0]},
 "origin": {"compute": "simulated", "communication": "simulated"}, "warnings": []}
""")
"""The example of the contract (`project --json`): its keys and types are what others script against. Issue 3 adds what a memory
figure counts (allocated, reserved) and the range of the total."""


def rank_memory(rank: int, gib: int) -> RankMemory:
    nbytes = dict.fromkeys(MemoryComponent, gib * GIB)
    return RankMemory(
        rank, nbytes, dict.fromkeys(MemoryComponent, ""), in_flight=float(2 - rank), parameter_count=70 - rank,
        allocated=7 * gib * GIB, reserved=7 * gib * GIB, low=8 * gib * GIB, high=9 * gib * GIB,
    )


def two_ranks(step_seconds: float = 1.0) -> Timeline:
    """1F1B of one microbatch on two ranks: forward 1, forward 1, backward 2, backward 2, in units that fill the step."""
    unit = step_seconds / 6
    times = np.array([[0, 1], [4, 6], [1, 2], [2, 4]]) * unit
    kinds = np.array([PassKind.FORWARD, PassKind.BACKWARD] * 2, dtype=np.uint8)
    ranks = np.array([0, 0, 1, 1], dtype=np.int32)
    zeros = np.zeros(4, dtype=np.int32)
    return Timeline(Schedule.ONE_F_ONE_B, 2, 1, 1, ranks, zeros, zeros, kinds, times[:, 0], times[:, 1])


def projection(**changes: Any) -> Projection:
    made = Projection(
        violations=(),
        warnings=("tp_overlap has no effect: tp is 1",),
        gpus=32,
        dp=8,
        microbatches=16,
        parameters=ModelParameters(140, 39, 0),
        memory=MemoryBreakdown((rank_memory(0, 10), rank_memory(1, 12)), capacity_bytes=100 * GIB, margin=0.02),
        step=StepBreakdown(0.5, 0.25, 0.125, 0.0625, 0.03125, ExposedCommunication(tp=0.015625, dp=0.015625)),
        throughput=Throughput(140_864.0, 4402.0, 612.4, 0.2433),
        timeline=two_ranks(),
    )
    return replace(made, **changes)


ILLEGAL = Projection(
    violations=(
        Violation(
            "tp-divides-heads", ("recipe.tp", "model.num_attention_heads"),
            reason="tp 3 does not divide the 48 attention heads", nearest=2,
        ),
    ),
    warnings=(), gpus=32, dp=2, microbatches=0,
)


def assert_same_shape(found: Any, contract: Any, path: str = "") -> None:
    """Same keys in the same order, same types; the elements of lists alike."""
    if isinstance(contract, dict):
        assert list(found) == list(contract), path
        for key, value in contract.items():
            assert_same_shape(found[key], value, f"{path}.{key}")
    elif isinstance(contract, list):
        assert isinstance(found, list), path
        for element in found:
            if contract:
                assert_same_shape(element, contract[0], f"{path}[]")
    elif path.endswith("in_flight"):
        assert isinstance(found, int | float), path
    else:
        assert type(found) is type(contract), path


def test_project_json_has_the_keys_and_types_of_the_contract() -> None:
    data = reports.projection_json(projection())
    assert_same_shape(json.loads(json.dumps(data, allow_nan=False)), CONTRACT)


def test_json_carries_the_figures_unrounded() -> None:
    data = reports.projection_json(projection())
    assert data["memory"]["peak_bytes"] == 8 * 12 * GIB
    assert data["memory"]["peak_rank"] == 1
    assert data["step"]["seconds"] == 1.0
    assert data["step"]["exposed"]["dp"] == 0.015625
    assert data["parameters"]["per_rank"] == [70, 69]
    assert data["pipeline"]["bubble_fraction"] == pytest.approx(0.5)
    assert data["warnings"] == ["tp_overlap has no effect: tp is 1"]


def test_parts_of_the_step_add_up_to_its_seconds() -> None:
    step = reports.projection_json(projection())["step"]
    parts = [step[key] for key in ("compute", "recompute", "bubble", "optimizer", "other")]
    assert sum(parts) + sum(step["exposed"].values()) == step["seconds"]


def test_an_illegal_recipe_is_answered_with_reasons_and_nulls() -> None:
    data = reports.projection_json(ILLEGAL)
    assert list(data) == list(CONTRACT)
    assert (data["legal"], data["feasible"]) == (False, False)
    assert data["illegal"] == [
        {
            "rule": "tp-divides-heads", "fields": ["recipe.tp", "model.num_attention_heads"],
            "reason": "tp 3 does not divide the 48 attention heads", "nearest": 2,
        }
    ]
    assert [data[part] for part in ("memory", "step", "throughput", "pipeline", "parameters")] == [None] * 5


def test_reasons_name_the_field_and_its_nearest_legal_value() -> None:
    (reason,) = reports.reasons(ILLEGAL)
    assert reason == "recipe.tp: tp 3 does not divide the 48 attention heads; nearest legal recipe.tp is 2 [tp-divides-heads]"


def test_a_recipe_that_does_not_fit_says_by_how_much() -> None:
    tight = projection(memory=MemoryBreakdown((rank_memory(0, 10),), capacity_bytes=80 * GIB, margin=0.1))
    (reason,) = reports.reasons(tight)
    assert reason == "Does not fit by 8.0 GiB: 80.0 GiB on rank 0 of 80.0 GiB, of which 10.0% is to stay free."
    assert reports.reasons(projection()) == []


def test_a_device_without_a_stated_peak_has_no_mfu() -> None:
    unknown = projection(throughput=Throughput(1.0, 1.0, 1.0, None))
    assert reports.projection_json(unknown)["throughput"]["mfu"] is None
    assert "MFU          –" in reports.projection_text(load_study("mixtral-8x22b-mi355x-4x8"), unknown)


def test_the_text_names_model_cluster_split_and_figures() -> None:
    text = reports.projection_text(load_study("mixtral-8x22b-mi355x-4x8"), projection())
    for words in (
        "mixtral-8x22b", "4 x 8 mi355x", "tp 1  pp 4", "dp 8", "16 microbatches of 2 x 8,192 tokens",
        "Fits with 2.0 GiB to spare",
        "4,402 tok/s/GPU", "12.17 B tok/day", "24.3%", "Exposed TP", "15.6 ms", "Note: tp_overlap has no effect: tp is 1.",
    ):
        assert words in text
    assert "Exposed CP" not in text  # parts of zero are left out


def test_the_memory_table_has_a_row_per_rank_and_its_unit() -> None:
    memory = projection().memory
    assert memory is not None
    lines = reports.memory_text(memory).splitlines()
    assert lines[0] == "Memory per GPU, GiB"
    assert lines[-3].split() == ["0", *["10.00"] * 8, "80.00", "2"]
    assert lines[-2].split() == ["1", *["12.00"] * 8, "96.00", "1"]
    assert lines[-1] == (
        "Rank 1: 84.00 GiB allocated, 84.00 reserved, 96.00 on the device, "
        "96.00 to 108.00 over the range of the framework's terms."
    )


def test_timeline_json_gives_every_pass() -> None:
    data = json.loads(json.dumps(reports.timeline_json(projection(timeline=two_ranks(6.0))), allow_nan=False))
    assert data["pipeline"] == {"schedule": "1f1b", "makespan": 6.0, "bubble_fraction": 0.5}
    assert len(data["events"]) == 4
    passes = [(event["rank"], event["start"], event["end"]) for event in data["events"]]
    assert passes == [(0, 0, 1), (0, 4, 6), (1, 1, 2), (1, 2, 4)]


def test_the_timeline_text_has_a_row_per_rank() -> None:
    text = reports.timeline_text(projection(timeline=two_ranks(6.0)))
    assert "makespan 6 s, bubble 50.0%" in text
    assert text.splitlines()[-1].split() == ["1", "2", "1", "s", "4", "s", "3", "s", "50.0%"]


def test_the_communication_table_names_group_algorithm_and_bandwidth() -> None:
    """tp 4 inside a node; dp x cp is 4, of which 2 share a node."""
    table = reports.communication_text(project_study(load_study("llama3.1-70b-h100-8x8"))).splitlines()
    groups = {tuple(line.split()[:5]) for line in table}
    assert ("all-gather", "tp", "4", "4", "node") in groups
    assert ("reduce-scatter", "dp", "4", "2", "fabric") in groups
    assert any("hierarchical ring Simple" in line for line in table)
