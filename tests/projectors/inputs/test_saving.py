"""What is saved loads as it was; a failed save leaves the old file whole."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from projectors.inputs import InputError, Study, library, load_study
from projectors.inputs.changing import apply_overrides, replace
from projectors.inputs.loading import study_from_text
from projectors.inputs.saving import save_study, study_text

Write = Callable[[str, str], Path]

EDITS: dict[str, st.SearchStrategy[Any]] = {
    "recipe.tp": st.integers(1, 1_000_000),
    "recipe.precision": st.sampled_from(["bf16", "fp8", "mxfp8", "fp16", "fp32"]),
    "recipe.sequence_parallel": st.sampled_from([None, True, False]),
    "recipe.stage_layers": st.none() | st.lists(st.integers(0, 9999), max_size=40),
    "recipe.recompute_modules": st.lists(st.sampled_from(["mlp", "moe", "layernorm"]), max_size=3),
    "recipe.offload_optimizer": st.floats(0, 1),
    "recipe.expert_imbalance": st.floats(1, 1000),
    "model": st.sampled_from(library.names("models")),
    "model.name": st.text(min_size=1, max_size=30),
    "model.num_layers": st.just(60),
    "model.tied_embeddings": st.booleans(),
    "model.published.source": st.none() | st.text(max_size=30),
    "model.sources": st.lists(st.text(max_size=20), max_size=3),
    "cluster": st.sampled_from(["h100-8x8", "mi300x-3x8", "gb200-18x4", "h200-2x4"]),
    "cluster.name": st.text(min_size=1, max_size=30),
    "cluster.nodes": st.integers(1, 1000),
    "cluster.gpus_per_node": st.integers(1, 16),
    "cluster.network": st.sampled_from([None, "dgx-h100", "mi300x-node"]),
    "cluster.hardware": st.sampled_from(["b200", "mi250x"]),
    "cluster.hardware.name": st.text(min_size=1, max_size=10),
    "cluster.hardware.memory_gib": st.floats(1, 500),
    "cluster.hardware.peak_tflops.fp8": st.none() | st.floats(1, 1e6),
    "cluster.hardware.sources": st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=3),
    "cluster.tiers[0].latency_us": st.floats(0, 1e6),
    "cluster.price_per_gpu_hour": st.none() | st.floats(0, 1e6),
    "compute.mode": st.sampled_from(["simulate", "both"]),
    "compute.record": st.none() | st.text(max_size=20),
    "search.memory_margin": st.floats(0, 0.9),
    "search.axes": st.dictionaries(st.text(max_size=8), st.just("auto") | st.lists(st.integers(), max_size=3), max_size=3),
}


@st.composite
def edits(draw: st.DrawFn) -> list[tuple[str, Any]]:
    return [(path, draw(EDITS[path])) for path in draw(st.lists(st.sampled_from(list(EDITS)), max_size=6))]


@given(edits())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)
def test_any_study_loads_as_it_was_saved(changes: list[tuple[str, Any]]) -> None:
    study = load_study("mixtral-8x22b-mi355x-4x8")
    for path, value in changes:
        try:
            study = replace(study, path, value)
        except InputError:  # an edit that this study refuses, such as a layer count its pattern does not fit
            continue
    assert study_from_text(study_text(study)) == study


@pytest.mark.parametrize("name", library.names("studies"))
def test_shipped_studies_are_saved_as_names(name: str) -> None:
    study = load_study(name)
    text = study_text(study)
    assert text.startswith(f"version: 1\nmodel: {study.model.name}\ncluster: {study.cluster.name}\nrecipe:\n  tp:")
    assert study_from_text(text) == study


def test_only_the_difference_to_a_known_profile_is_written() -> None:
    study = apply_overrides(load_study("mixtral-8x22b-mi355x-4x8"), ["model.num_layers=28", "cluster.hardware.memory_gib=192"])
    text = study_text(study)
    assert "model: {extends: mixtral-8x22b, num_layers: 28}\n" in text
    assert "  hardware: {extends: mi355x, memory_gib: 192.0}\n" in text


def test_words_that_yaml_would_read_as_something_else_are_quoted() -> None:
    study = load_study("mixtral-8x22b-mi355x-4x8")
    for name in ("1e3", "5:1", "true", "~", "null", "1", ".5", "- a", "a: b", "# c", " x ", "\u2028"):
        assert study_from_text(study_text(replace(study, "cluster.name", name))).cluster.name == name


def test_saving_keeps_comments_and_keys_left_out(write: Write) -> None:
    path = write(
        "a.study.yaml",
        "# mine\nmodel: llama3.1-8b  # small\ncluster: h100-1x8\nrecipe:\n  tp: 1  # try 2\n  gbs: 8\n  seq_length: 128\n",
    )
    study = apply_overrides(load_study(path), ["recipe.tp=2", "recipe.stage_layers=[16, 16]", "recipe.pp=2"])
    save_study(study, path)
    text = path.read_text()
    assert "# mine\nmodel: llama3.1-8b  # small\n" in text
    assert "  tp: 2  # try 2\n" in text
    assert "stage_layers: [16, 16]" in text
    assert "optimizer" not in text
    assert load_study(path) == study


def test_saving_over_something_else_replaces_it(write: Write) -> None:
    path = write("a.study.yaml", "[not a study")
    study = load_study("llama3.1-8b-h100-1x1")
    save_study(study, path)
    assert load_study(path) == study


def test_a_link_keeps_pointing_at_the_saved_file(write: Write, tmp_path: Path) -> None:
    target = write("real/a.study.yaml", "")
    link = tmp_path / "link.study.yaml"
    link.symlink_to(target)
    save_study(load_study("llama3.1-8b-h100-1x1"), link)
    assert link.is_symlink()
    assert target.read_text().startswith("version: 1")


def test_a_folder_that_may_not_be_written_is_said_in_words() -> None:
    study = load_study("llama3.1-8b-h100-1x1")
    for path in (Path("/proc/a.study.yaml"), Path("/no/such/folder/a.study.yaml"), Path("/proc")):
        with pytest.raises(InputError, match="a file that cannot be written"):
            save_study(study, path)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_full_disk_or_read_only_folder_leaves_the_old_file_and_no_scratch(
    write: Write, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    path = write("folder/a.study.yaml", "model: old\n")

    def refuse(_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(InputError) as caught:
        save_study(load_study("llama3.1-8b-h100-1x1"), path)
    assert os.strerror(code) in caught.value.problems[0].found
    assert caught.value.problems[0].file == str(path)
    assert path.read_text() == "model: old\n"
    assert [entry.name for entry in path.parent.iterdir()] == ["a.study.yaml"]


def test_the_mode_of_a_file_is_kept(write: Write) -> None:
    path = write("a.study.yaml", "")
    path.chmod(0o640)
    save_study(load_study("llama3.1-8b-h100-1x1"), path)
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_study_is_a_value() -> None:
    assert isinstance(load_study("llama3.1-8b-h100-1x1"), Study)
    assert hash(load_study("llama3.1-8b-h100-1x1").recipe) == hash(load_study("llama3.1-8b-h100-1x1").recipe)
