"""One value replaced by its dotted key, with what must follow it following."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from projectors.inputs import InputError, InputProblem, Study, load_study
from projectors.inputs.changing import apply_overrides, key_paths, replace

MOST_SECONDS = 0.001  # of one edit, so that the window never waits for it


@pytest.fixture
def study() -> Study:
    return load_study("mixtral-8x22b-mi355x-4x8")


def fault(act: Callable[[], object]) -> InputProblem:
    with pytest.raises(InputError) as caught:
        act()
    assert len(caught.value.problems) == 1
    return caught.value.problems[0]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("recipe.tp", 4),
        ("recipe.schedule", "zb-h1"),
        ("recipe.stage_layers", [14, 14, 14, 14]),
        ("recipe.recompute_modules", ["moe", "layernorm"]),
        ("model.num_layers", 28),
        ("model.moe.top_k", 1),
        ("cluster.nodes", 8),
        ("cluster.hardware.memory_gib", 192.0),
        ("cluster.hardware.efficiency.memory", 0.5),
        ("cluster.tiers[1].bandwidth_gb_s", 25.0),
        ("search.memory_margin", 0.0),
        ("search.axes.tp", [1, 2, 4]),
        ("compute.record", "latest"),
    ],
)
def test_a_replaced_value_is_there_and_nothing_else_of_the_study_changed(study: Study, path: str, value: Any) -> None:
    changed = replace(study, path, value)
    section, *steps = path.replace("[", ".").replace("]", "").split(".")
    found = changed.model_dump(mode="json")[section]
    for step in steps:
        found = found[int(step) if step.isdigit() else step]
    assert found == value
    for other in {"model", "cluster", "recipe", "compute", "search"} - {section}:
        assert getattr(changed, other) is getattr(study, other)


def test_a_model_or_cluster_may_be_replaced_by_name(study: Study) -> None:
    changed = apply_overrides(study, ["model=llama3.1-8b", "cluster=h100-1x8", "recipe.ep=1"])
    assert (changed.model.name, changed.cluster.hardware.name, changed.recipe.ep) == ("llama3.1-8b", "h100", 1)


def test_new_hardware_brings_its_usual_network_and_the_cluster_its_name(study: Study) -> None:
    changed = replace(study, "cluster.hardware", "h100")
    assert changed.cluster.tiers == load_study("llama3.1-70b-h100-8x8").cluster.tiers
    assert changed.cluster.name == "h100-4x8"


def test_a_new_node_size_moves_the_node_tier(study: Study) -> None:
    assert [tier.size for tier in replace(study, "cluster.gpus_per_node", 4).cluster.tiers] == [4, None]


def test_tiers_that_the_user_stated_stay(study: Study) -> None:
    stated = replace(study, "cluster.tiers[0].bandwidth_gb_s", 100.0)
    assert replace(stated, "cluster.hardware", "h100").cluster.tiers == stated.cluster.tiers


def test_a_named_network_replaces_the_tiers(study: Study) -> None:
    changed = replace(study, "cluster.network", "dgx-h100").cluster
    assert (changed.network, changed.tiers[0].bandwidth_gb_s) == ("dgx-h100", 450)
    assert replace(study, "cluster.network", "dgx-h100").cluster.hardware is not None


def test_edits_that_agree_only_together_are_checked_together(study: Study) -> None:
    changed = apply_overrides(study, ["model.num_attention_heads=56", "model.num_query_groups=7"])
    assert (changed.model.num_attention_heads, changed.model.num_query_groups) == (56, 7)


def test_an_edit_without_effect_keeps_an_equal_study(study: Study) -> None:
    assert replace(study, "recipe.tp", study.recipe.tp) == study


@pytest.mark.parametrize(
    ("assignment", "where", "found", "suggestion"),
    [
        ("recipe.tpp=4", "recipe.tpp", 'an unknown key "tpp"', "recipe.tp"),
        ("tp=4", "tp", 'an unknown key "tp"', "recipe.tp"),
        ("recpie.tp=4", "recpie.tp", 'an unknown key "recpie"', "recipe.tp"),
        ("recipe.tp=0", "recipe.tp", "0", None),
        ("recipe.tp=four", "recipe.tp", '"four"', None),
        ("recipe.schedule=1f1c", "recipe.schedule", '"1f1c"', "1f1b"),
        ("model=llama3.1-8", "model", '"llama3.1-8", which no model is named', "llama3.1-8b"),
        ("model.moe.top_k=9", "model.moe.top_k", "9", None),
        ("model.mla.v_head_dim=8", "model.mla.v_head_dim", "model.mla, which is null", None),
        ("cluster.hardware=h1000", "cluster.hardware", '"h1000", which no hardware profile is named', "h100"),
        ("cluster.network=dgx-h1000", "cluster.network", '"dgx-h1000", which no network is named', "dgx-h100"),
        ("cluster.tiers[7].size=8", "cluster.tiers[7].size", "entry 7 of cluster.tiers", None),
        ("recipe..tp=4", "recipe..tp", '"recipe..tp"', None),
    ],
)
def test_faults_of_set_name_the_key(study: Study, assignment: str, where: str, found: str, suggestion: str | None) -> None:
    problem = fault(lambda: apply_overrides(study, [assignment]))
    assert (problem.file, problem.where, problem.found, problem.suggestion) == ("--set", where, found, suggestion)


def test_an_assignment_without_equals_sign_is_refused(study: Study) -> None:
    assert fault(lambda: apply_overrides(study, ["recipe.tp"])).allowed == "KEY=VALUE, such as recipe.tp=4"


def test_every_fault_of_several_overrides_is_reported(study: Study) -> None:
    with pytest.raises(InputError) as caught:
        apply_overrides(study, ["recipe.tp=0", "recipe.pp=-1", "model.num_layers=x", "nothing=1"])
    assert {problem.where for problem in caught.value.problems} == {"recipe.tp", "recipe.pp", "model.num_layers", "nothing"}


def test_key_paths_list_what_may_be_set(study: Study) -> None:
    paths = key_paths(study)
    assert {"recipe.tp", "model.moe.top_k", "cluster.hardware.efficiency.memory", "search.budget.trials"} <= set(paths)


def test_an_edit_takes_less_than_a_millisecond(study: Study) -> None:
    for path, value in (("recipe.tp", 4), ("model.num_layers", 28), ("cluster.nodes", 8)):
        replace(study, path, value)
        best = min(_seconds(lambda path=path, value=value: replace(study, path, value)) for _ in range(20))  # type: ignore[misc]
        assert best < MOST_SECONDS


def _seconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def test_a_path_as_model_starts_from_the_working_folder(study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.yaml").write_text("extends: llama3.1-8b\nnum_layers: 2\n")
    monkeypatch.chdir(tmp_path)
    assert apply_overrides(study, ["model=mine.yaml"]).model.num_layers == 2
