"""Projected against measured: every case of the measured files, the errors, and their summary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from projectors.inputs import library
from projectors.inputs.framework import FrameworkProfile
from projectors.inputs.library import Kind
from projectors.inputs.measured import MeasuredCase, Measurement, MemoryRank, load_measured
from projectors.inputs.places import shipped_folder
from projectors.projection import project
from projectors.results import MemoryBreakdown, Projection
from projectors.text import GIB, percent_text, table_text

FAR_OFF = 0.15
"""A memory error beyond this is listed with what is known of the case."""

NO_MARGIN = 0.0
"""A run that was measured fitted; how much its planner kept free does not matter."""


@dataclass(frozen=True, slots=True)
class ValidatedCase:
    """One measured case beside its projection; errors are (projected - measured) / measured, None where not measured."""

    case: MeasuredCase
    framework: str                   # name of the profile
    projection: Projection | None
    throughput_error: float | None
    memory_error: float | None
    skipped: str | None              # why there is no projection


@dataclass(frozen=True, slots=True)
class ErrorSummary:
    """Absolute errors of a group of cases, and their signed median."""

    count: int
    bias: float      # signed median
    median: float
    p90: float
    worst: float


def shipped_cases() -> list[MeasuredCase]:
    """Every case under profiles/measured. Raises InputError."""
    return [case for path in sorted((shipped_folder() / "measured").glob("*.yaml")) for case in load_measured(path)]


def load_cases(paths: Sequence[Path]) -> list[MeasuredCase]:
    """Cases of the files, or the shipped ones where none is named. Raises InputError."""
    return [case for path in paths for case in load_measured(path)] if paths else shipped_cases()


def framework_of(text: str) -> FrameworkProfile:
    """The framework profile that a case's free text means: the one with the longest matching words, else the default."""
    best, longest = library.framework("megatron-core"), 0
    for name in library.names(Kind.FRAMEWORK):
        profile = library.framework(name)
        length = max((len(words) for words in profile.matches if words in text.lower()), default=0)
        if length > longest:
            best, longest = profile, length
    return best


def validate(cases: Iterable[MeasuredCase]) -> list[ValidatedCase]:
    """Each case projected."""
    frameworks: dict[str, FrameworkProfile] = {}
    found = []
    for case in cases:
        if case.framework not in frameworks:
            frameworks[case.framework] = framework_of(case.framework)
        found.append(_validated(case, with_options(frameworks[case.framework], case.options)))
    return found


def with_options(framework: FrameworkProfile, options: FrameworkProfile) -> FrameworkProfile:
    """The framework with what a run's command line states otherwise."""
    return framework.model_copy(update={name: getattr(options, name) for name in options.model_fields_set})


def _validated(case: MeasuredCase, framework: FrameworkProfile) -> ValidatedCase:
    projection = project(case.model, case.cluster, case.recipe, memory_margin=NO_MARGIN, framework=framework)
    if projection.throughput is None or projection.memory is None:
        reason = "; ".join(violation.reason for violation in projection.violations)
        return ValidatedCase(case, framework.name, None, None, None, reason)
    tokens, gib = measured_tokens_per_s_per_gpu(case), case.measured.memory_gib
    throughput = None if tokens is None else projection.throughput.tokens_per_s_per_gpu / tokens - 1
    memory = None if gib is None else memory_as_measured(projection.memory, case.measured) / GIB / gib - 1
    return ValidatedCase(case, framework.name, projection, throughput, memory, None)


def memory_as_measured(memory: MemoryBreakdown, measured: Measurement) -> int:
    """Projected bytes of the kind, and on the pipeline rank, that the figure was read on."""
    ranks = {MemoryRank.FIRST: memory.ranks[:1], MemoryRank.LAST: memory.ranks[-1:]}.get(measured.memory_rank, memory.ranks)
    return max(rank.of_kind(measured.memory_kind) for rank in ranks)


def measured_tokens_per_s_per_gpu(case: MeasuredCase) -> float | None:
    """Throughput as measured, or from the step time. TFLOP/s alone say nothing: conventions differ (facts/measured.md)."""
    measured = case.measured
    if measured.tokens_per_s_per_gpu is not None or measured.step_seconds is None:
        return measured.tokens_per_s_per_gpu
    return case.recipe.gbs * case.recipe.seq_length / measured.step_seconds / case.cluster.gpus


def summary(errors: Iterable[float | None]) -> ErrorSummary | None:
    """Summary of the errors that there are; None when there are none."""
    known = np.array([error for error in errors if error is not None])
    if not known.size:
        return None
    size = np.abs(known)
    return ErrorSummary(
        known.size, float(np.median(known)), float(np.median(size)), float(np.quantile(size, 0.9)), float(size.max())
    )


def validation_json(cases: Sequence[ValidatedCase]) -> dict[str, object]:
    """What `validate --json` prints (design/interface.md)."""
    by_hardware = _groups(cases, lambda each: each.case.cluster.hardware.name)
    by_memory = _groups([each for each in cases if each.memory_error is not None], _framework_and_kind)
    return {
        "cases": [_case_json(each) for each in cases],
        "summary": {
            **_errors_json(cases),
            "by_hardware": {name: _errors_json(group) for name, group in by_hardware},
            "by_memory": {name: _summary_json(summary(each.memory_error for each in group)) for name, group in by_memory},
        },
    }


def _errors_json(cases: Sequence[ValidatedCase]) -> dict[str, object]:
    return {
        "throughput": _summary_json(summary(each.throughput_error for each in cases)),
        "memory": _summary_json(summary(each.memory_error for each in cases)),
    }


def validation_text(cases: Sequence[ValidatedCase]) -> str:
    """Errors by framework and hardware, for people."""
    head = ("", "cases", "bias", "median", "p90", "worst")
    tables = []
    for title, errors, key in (
        ("Throughput", "throughput_error", _framework_on_hardware),
        ("Memory", "memory_error", _framework_and_kind),
    ):
        rows = []
        for name, group in [("all", list(cases)), *_groups(cases, key)]:
            found = summary(getattr(each, errors) for each in group)
            if found:
                rows.append((name, str(found.count), *map(percent_text, (found.bias, found.median, found.p90, found.worst))))
        tables.append(f"{title}: (projected - measured) / measured\n" + table_text(head, rows))
    far = [
        f"{each.case.id}: {percent_text(each.memory_error)}; {each.case.notes or 'no remark'}"
        for each in sorted(cases, key=lambda each: abs(each.memory_error or 0.0), reverse=True)
        if each.memory_error is not None and abs(each.memory_error) > FAR_OFF
    ]
    skipped = [f"{each.case.id}: {each.skipped}" for each in cases if each.skipped]
    lists = (f"Memory off by more than {percent_text(FAR_OFF)}", far), ("Not projected", skipped)
    return "\n\n".join([*tables, *(f"{title}: {len(lines)}\n" + "\n".join(lines) for title, lines in lists if lines)])


def _framework_on_hardware(each: ValidatedCase) -> str:
    return f"{each.framework} on {each.case.cluster.hardware.name}"


def _framework_and_kind(each: ValidatedCase) -> str:
    kind = each.case.measured.memory_kind
    return f"{each.framework}, {kind.value if kind else 'kind not known'}"


def _groups(cases: Sequence[ValidatedCase], key: Callable[[ValidatedCase], str]) -> list[tuple[str, list[ValidatedCase]]]:
    names = sorted({key(each) for each in cases})
    return [(name, [each for each in cases if key(each) == name]) for name in names]


def _summary_json(found: ErrorSummary | None) -> dict[str, float] | None:
    return None if found is None else asdict(found)


def _case_json(each: ValidatedCase) -> dict[str, object]:
    projection, measured = each.projection, each.case.measured
    step, memory, throughput = (
        (projection.step, projection.memory, projection.throughput) if projection else (None, None, None)
    )
    return {
        "id": each.case.id,
        "framework": each.framework,
        "projected": {
            "tokens_per_s_per_gpu": throughput.tokens_per_s_per_gpu if throughput else None,
            "step_seconds": step.seconds if step else None,
            "memory_gib": memory_as_measured(memory, measured) / GIB if memory else None,
        },
        "measured": measured.model_dump(mode="json"),
        "error": {"throughput": each.throughput_error, "memory": each.memory_error},
        "skipped": each.skipped,
    }
