"""Published training results: what was trained, on what, how, and what was measured."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field

from projectors.inputs import words
from projectors.inputs.catalog import Kind
from projectors.inputs.cluster import ClusterSpec
from projectors.inputs.describe import Frozen, quantity
from projectors.inputs.errors import InputError, InputProblem
from projectors.inputs.framework import DEFAULT_FRAMEWORK, FrameworkProfile
from projectors.inputs.loading import attempt, load_list, referenced, validated
from projectors.inputs.model_card import ModelCard
from projectors.inputs.recipe import Recipe
from projectors.inputs.yaml_text import Document


class MemoryKind(StrEnum):
    """What a measured memory figure counts: tensors, what the allocator holds, or the whole device."""

    ALLOCATED = "allocated"
    RESERVED = "reserved"
    DEVICE = "device"


class MemoryRank(StrEnum):
    """Which pipeline rank a memory figure was read on."""

    PEAK = "peak"
    FIRST = "first"
    LAST = "last"


class Measurement(Frozen):
    """Measured figures of one run; null = not published."""

    tokens_per_s_per_gpu: float | None = quantity(None, says="Throughput", unit="tokens/s/GPU", above=0, most=1e9)
    step_seconds: float | None = quantity(None, says="Time of one optimizer step", unit="s", above=0, most=1e6)
    model_tflops_per_gpu: float | None = quantity(None, says="Model FLOPs per second", unit="TFLOP/s/GPU", above=0, most=1e6)
    memory_gib: float | None = quantity(None, says="Peak memory", unit="GiB", above=0, most=65536)
    memory_kind: MemoryKind | None = quantity(None, says="What the memory figure counts")
    memory_rank: MemoryRank = quantity(MemoryRank.PEAK, says="Pipeline rank that it was read on")


class MeasuredCase(Frozen):
    """One published result with the study it was measured on."""

    id: str = Field(description="Name of the case", min_length=1)
    source: str = Field(description="Where it is published", min_length=1)
    model: ModelCard = Field(description="The model")
    cluster: ClusterSpec = Field(description="The cluster")
    recipe: Recipe = Field(description="The recipe")
    framework: str = Field(default="", description="Framework and version")
    options: FrameworkProfile = Field(
        default=DEFAULT_FRAMEWORK, description="What the run's command line states otherwise than the framework's profile"
    )
    measured: Measurement = Field(description="What was measured")
    notes: str | None = Field(default=None, description="Remarks")


PLAIN = ("id", "source", "framework", "notes")


def load_measured(path: Path) -> tuple[MeasuredCase, ...]:
    """Every case of a file in the contract's form. Raises InputError with every fault found."""
    faults: list[InputProblem] = []
    cases = [attempt(faults, partial(_case, entry, path.absolute().parent)) for entry in load_list(path)]
    if faults:
        raise InputError(faults)
    return tuple(case for case in cases if case is not None)


def _case(document: Document, folder: Path) -> MeasuredCase:
    if not isinstance(document.data, dict):
        mark = document.mark(())
        raise InputError(
            [InputProblem(mark.where, "no mapping", words.type_words(MeasuredCase), mark.file, mark.line, mark.column)]
        )
    faults = [
        words.unknown_key(key, MeasuredCase.model_fields, document, (key,))
        for key in document.data
        if key not in MeasuredCase.model_fields
    ]
    parts: dict[str, Any] = {key: document.data[key] for key in PLAIN if key in document.data}
    for key, kind in (("model", Kind.MODEL), ("cluster", Kind.CLUSTER)):
        if key in document.data:
            parts[key] = attempt(faults, partial(referenced, kind, document.part(key), folder))
    for key, model in (("recipe", Recipe), ("measured", Measurement), ("options", FrameworkProfile)):
        if key in document.data:
            parts[key] = attempt(faults, partial(validated, model, document.part(key)))
    for key, field in MeasuredCase.model_fields.items():
        if field.is_required() and key not in document.data:
            mark = document.mark((key,))
            faults.append(
                InputProblem(mark.where, "no value", words.type_words(field.annotation), mark.file, mark.line, mark.column)
            )
    if faults:
        raise InputError(faults)
    return MeasuredCase(**parts)
