"""The framework of a study: by name, in part, saved and restored; its memory terms over the device's."""

from __future__ import annotations

import pytest

from projectors.inputs import library
from projectors.inputs.changing import replace
from projectors.inputs.errors import InputError
from projectors.inputs.framework import DEFAULT_FRAMEWORK, overhead_of
from projectors.inputs.loading import study_from_text
from projectors.inputs.saving import study_text
from projectors.projection import project_study

STUDY = library.study("llama3.1-8b-h100-1x1")


def test_a_study_that_names_none_is_trained_by_the_default() -> None:
    assert STUDY.framework == DEFAULT_FRAMEWORK
    assert "framework" not in study_text(STUDY)


def test_a_framework_is_named_changed_and_saved_by_name() -> None:
    changed = replace(STUDY, "framework", "torchtitan")
    assert changed.framework == library.framework("torchtitan")
    text = study_text(changed)
    assert "framework: torchtitan\n" in text
    assert study_from_text(text) == changed


def test_what_differs_from_a_named_framework_is_saved_as_the_difference() -> None:
    changed = replace(replace(STUDY, "framework", "torchtitan"), "framework.workspace_mib", 512)
    text = study_text(changed)
    assert "framework: {extends: torchtitan, workspace_mib: 512.0}" in text
    assert study_from_text(text) == changed


def test_an_unknown_framework_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InputError, match="torchtitan"):
        replace(STUDY, "framework", "torchtitn")


def test_its_memory_terms_replace_those_of_the_device() -> None:
    stated = replace(STUDY, "framework", {"extends": "torchtitan", "context_gib": 3.0})
    hardware = STUDY.cluster.hardware
    overhead = overhead_of(stated.framework, hardware)
    assert (overhead.context_gib, overhead.workspace_mib) == (3.0, hardware.framework.workspace_mib)
    before = replace(STUDY, "framework", {"extends": "torchtitan", "context_gib": 2.0})
    peaks = [memory.peak_bytes for study in (before, stated) if (memory := project_study(study).memory)]
    assert peaks[1] - peaks[0] == pytest.approx(2**30, abs=2)
