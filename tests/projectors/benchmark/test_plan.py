"""The scaled-down run: pipeline first, then experts, then tensor parallel, never context parallel."""

from __future__ import annotations

import pytest

from projectors.benchmark.plan import StepKind, plan_benchmark
from projectors.inputs import library
from projectors.inputs.changing import replace
from projectors.restoring.scaling import scale_down
from tests.projectors.benchmark.tiny import cpus, tiny

DEEPSEEK = library.study("deepseek-v3-h100-128x8")


@pytest.mark.parametrize(("devices", "tp", "ep"), [(64, 8, 64), (8, 8, 8), (4, 4, 1), (2, 2, 1), (1, 1, 1)])
def test_experts_go_before_tensors_and_the_pipeline_before_both(devices: int, tp: int, ep: int) -> None:
    recipe = DEEPSEEK.recipe.model_copy(update={"tp": 8, "ep": 64, "pp": 16, "etp": 1})
    model, reduced, reductions = scale_down(DEEPSEEK.model, recipe, devices)
    assert (reduced.pp, reduced.vpp, reduced.tp, reduced.ep) == (1, 1, tp, ep)
    assert DEEPSEEK.model.moe is not None and model.moe is not None
    if DEEPSEEK.model.moe.num_experts // 64 * ep >= model.moe.top_k:
        assert model.moe.num_experts // ep == DEEPSEEK.model.moe.num_experts // 64, "experts per device are kept"
    else:
        assert model.moe.num_experts == model.moe.top_k, "a token is sent to as many experts as before"
    assert next(each.name for each in reductions) == "pp"


def test_expert_parallelism_is_cut_while_tensor_parallelism_still_fits() -> None:
    recipe = DEEPSEEK.recipe.model_copy(update={"tp": 4, "ep": 16, "pp": 1, "etp": 1})
    _, reduced, reductions = scale_down(DEEPSEEK.model, recipe, 4)
    assert (reduced.tp, reduced.ep) == (4, 4)
    assert [(each.name, each.target, each.measured) for each in reductions] == [("ep", 16, 4)]


def test_context_parallelism_is_never_scaled_down() -> None:
    plan = plan_benchmark(tiny(recipe="cp: 2", per_node=2), cpus(1))
    assert any("cp = 2" in problem for problem in plan.problems)
    assert plan.steps == ()


def test_every_layer_kind_both_ends_and_the_optimizer_are_measured() -> None:
    plan = plan_benchmark(tiny("moe"), cpus(1))
    assert [step.what for step in plan.steps] == ["Dense layer", "MoE layer", "Embedding", "Head and loss", "optimizer step"]
    assert plan.seconds > sum(step.seconds for step in plan.steps) > 0
    assert plan.problems == ()


def test_collectives_are_swept_when_several_devices_are_used() -> None:
    plan = plan_benchmark(tiny(recipe="tp: 2", per_node=2), cpus(2))
    assert plan.used == 2
    assert sum(step.kind is StepKind.COLLECTIVE for step in plan.steps) == 5


def test_what_will_be_restored_is_said() -> None:
    study = tiny("moe", "pp: 2, ep: 2, recompute: full, expert_imbalance: 1.5", nodes=2, per_node=2)
    words = "\n".join(plan_benchmark(study, cpus(1)).restored)
    for expected in ("pp 1 to 2", "ep 1 to 2", "full recompute", "data parallelism", "imbalance 1.5"):
        assert expected in words


def test_no_device_and_too_little_memory_are_problems_in_words() -> None:
    assert plan_benchmark(tiny(), ()).problems == ("no device was found",)
    (problem,) = plan_benchmark(tiny(), cpus(1, memory_bytes=1000)).problems
    assert "needs" in problem and "1,000" in problem


def test_layers_that_pytorch_has_no_kernels_for_are_refused() -> None:
    study = replace(library.study("llama3.1-8b-h100-1x1"), "model", "deepseek-v4-flash")
    assert any("compressed attention" in problem for problem in plan_benchmark(study, cpus(1)).problems)
