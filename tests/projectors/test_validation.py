"""Projected against measured: which framework a case means, the errors, and what scripts read."""

from __future__ import annotations

import json

import pytest

from projectors.inputs import library
from projectors.inputs.library import Kind
from projectors.validation import (
    framework_of,
    measured_tokens_per_s_per_gpu,
    shipped_cases,
    summary,
    validate,
    validation_json,
    validation_text,
)


@pytest.mark.parametrize(("text", "name"), [
    ("Megatron-Bridge / Megatron-Core (26.08 container)", "megatron-bridge"),
    ("Megatron-Core r0.8.0", "megatron-core"),
    ("Primus / Megatron-LM (ROCm) primus-pipeline", "primus"),
    ("Megatron-LM + zero-bubble", "zero-bubble"),
    ("NeMo AutoModel", "nemo-automodel"),
    ("llm-foundry/Composer FSDP, FlashAttention", "llm-foundry"),
    ("something else", "megatron-core"),
])
def test_the_framework_is_the_one_with_the_longest_matching_words(text: str, name: str) -> None:
    assert framework_of(text).name == name


def test_every_framework_is_named_as_its_file_and_can_be_matched() -> None:
    for name in library.names(Kind.FRAMEWORK):
        profile = library.framework(name)
        assert profile.name == name
        assert all(framework_of(words).name == name for words in profile.matches)


def test_errors_are_projected_over_measured_less_one() -> None:
    case = next(case for case in shipped_cases() if case.measured.step_seconds and case.measured.tokens_per_s_per_gpu)
    (found,) = validate([case])
    assert found.projection is not None and found.projection.throughput is not None
    ratio = found.projection.throughput.tokens_per_s_per_gpu / case.measured.tokens_per_s_per_gpu  # type: ignore[operator]
    assert found.throughput_error == pytest.approx(ratio - 1)
    slower = case.model_copy(update={"measured": case.measured.model_copy(update={"tokens_per_s_per_gpu": None})})
    assert measured_tokens_per_s_per_gpu(slower) == pytest.approx(case.measured.tokens_per_s_per_gpu, rel=0.03)


def test_an_illegal_case_is_skipped_with_its_reason() -> None:
    case = shipped_cases()[0]
    (found,) = validate([case.model_copy(update={"recipe": case.recipe.model_copy(update={"tp": 7})})])
    assert found.projection is None and found.skipped
    assert found.skipped in validation_text([found])


def test_the_summary_counts_sizes_and_keeps_the_sign_of_the_median() -> None:
    found = summary([-0.1, None, 0.3, -0.2])
    assert found is not None
    assert (found.count, found.bias, found.median, found.worst) == (3, -0.1, 0.2, 0.3)
    assert summary([None]) is None


def test_json_has_every_case_and_its_groups() -> None:
    cases = shipped_cases()[:4]
    answer = json.loads(json.dumps(validation_json(validate(cases)), allow_nan=False))
    assert [each["id"] for each in answer["cases"]] == [case.id for case in cases]
    assert set(answer["summary"]) == {"throughput", "memory", "by_hardware", "by_memory"}
    assert set(answer["summary"]["by_hardware"]) == {case.cluster.hardware.name for case in cases}


def test_memory_is_summed_up_by_framework_and_kind_and_what_is_far_off_is_listed() -> None:
    case = next(case for case in shipped_cases() if case.measured.memory_gib and case.framework == "Megatron-LM CI")
    assert case.measured.memory_gib is not None
    doubled = case.measured.model_copy(update={"memory_gib": 2 * case.measured.memory_gib})
    twice = case.model_copy(update={"id": "twice", "measured": doubled, "notes": "measured twice"})
    found = validate([case, twice])
    (name,) = json.loads(json.dumps(validation_json(found)))["summary"]["by_memory"]
    assert name.endswith(", allocated")
    text = validation_text(found)
    assert name in text
    assert "Memory off by more than 15.0%: 1\ntwice: -" in text
    assert "measured twice" in text
