"""What is known: listings of profiles, and one profile for scripts and for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pydantic import BaseModel

from projectors.inputs import library
from projectors.inputs.cluster import ClusterSpec, NetworkProfile
from projectors.inputs.errors import InputError
from projectors.inputs.framework import FrameworkProfile
from projectors.inputs.hardware import HardwareProfile
from projectors.inputs.library import Kind
from projectors.inputs.model_card import ModelCard, attention_name
from projectors.inputs.study import Study
from projectors.text import UNKNOWN, count_text, number_text, table_text
from projectors.workload.parameters import model_parameters

UNLISTED = ("sources", "measured")
"""Parts of a profile that only its JSON and its file show: too long to read."""

LOADERS: dict[Kind, Callable[[str], BaseModel]] = {
    Kind.MODEL: library.model,
    Kind.HARDWARE: library.hardware,
    Kind.NETWORK: library.network,
    Kind.CLUSTER: library.cluster,
    Kind.FRAMEWORK: library.framework,
    Kind.STUDY: library.study,
}


def profile_json(kind: Kind, name: str) -> dict[str, Any]:
    """One profile as plain data; a model's also has its parameter counts. Raises InputError."""
    profile = LOADERS[kind](name)
    data: dict[str, Any] = profile.model_dump(mode="json")
    if isinstance(profile, ModelCard):
        counted = model_parameters(profile)
        data["parameters"] = {"total": counted.total, "active": counted.active}
    return data


def profile_text(kind: Kind, name: str) -> str:
    """One profile, a line per figure, with units. Raises InputError."""
    profile = LOADERS[kind](name)
    rows = list(_rows(profile))
    if isinstance(profile, ModelCard):
        counted = model_parameters(profile)
        rows += [("parameters", f"{counted.total:,}"), ("active parameters", f"{counted.active:,}")]
    width = max(len(label) for label, _ in rows)
    return "\n".join(f"{label.ljust(width)}  {value}".rstrip() for label, value in rows)


def names_json(kind: Kind) -> list[dict[str, Any]]:
    """What `show KIND --json` lists; no profile is opened."""
    return [
        {"name": entry.name, "title": entry.title, "origin": entry.origin.value, "path": str(entry.path) if entry.path else None}
        for entry in library.entries(kind)
    ]


def names_text(kind: Kind) -> str:
    """What `show KIND` prints: one line per profile with its main figures; a broken profile says so in its line."""
    header, summary = _SUMMARIES[kind]
    rows, broken = [], []
    for name in library.names(kind):
        try:
            rows.append((name, *summary(LOADERS[kind](name))))
        except InputError as error:
            broken.append(f"{name}: {error.problems[0]}")
    return "\n".join([table_text(header, rows), *broken])


def _rows(profile: BaseModel, indent: str = "") -> Iterator[tuple[str, str]]:
    """(label, value with unit) of every field, nested models indented."""
    for name, field in type(profile).model_fields.items():
        if name in UNLISTED:
            continue
        value = getattr(profile, name)
        extra = field.json_schema_extra
        unit = str(extra.get("unit", "")) if isinstance(extra, dict) else ""
        yield from _field_rows(f"{indent}{name}", value, unit, indent)


def _field_rows(label: str, value: Any, unit: str, indent: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, BaseModel):
        yield label, ""
        yield from _rows(value, indent + "  ")
    elif isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
        for member in value:
            yield label, ""
            yield from _rows(member, indent + "  ")
    else:
        yield label, f"{_value_text(value)} {unit if value is not None else ''}".rstrip()


def _value_text(value: Any) -> str:
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else f"{value:g}"
    if isinstance(value, tuple):
        return "; ".join(str(member) for member in value) or UNKNOWN
    if isinstance(value, dict):
        return "; ".join(f"{key}: {member}" for key, member in value.items()) or UNKNOWN
    return str(value)


def _model_summary(card: ModelCard) -> tuple[str, ...]:
    counted = model_parameters(card)
    experts = f"{card.moe.num_experts} top {card.moe.top_k}" if card.moe else UNKNOWN
    sizes = (str(card.num_layers), str(card.hidden_size), attention_name(card), experts, number_text(card.max_seq_len))
    return (count_text(counted.total), count_text(counted.active), *sizes)


def _hardware_summary(profile: HardwareProfile) -> tuple[str, ...]:
    peaks = profile.peak_tflops
    figures = (profile.memory_gib, profile.memory_bandwidth_tb_s, peaks.bf16, peaks.fp8)
    return tuple(UNKNOWN if figure is None else number_text(figure) for figure in figures)


def _network_summary(profile: NetworkProfile) -> tuple[str, ...]:
    return (_tiers_text(profile.tiers),)


def _framework_summary(profile: FrameworkProfile) -> tuple[str, ...]:
    return (profile.title, "fused" if profile.flash_attention else "unfused")


def _cluster_summary(cluster: ClusterSpec) -> tuple[str, ...]:
    return (number_text(cluster.gpus), cluster.hardware.name, _tiers_text(cluster.tiers))


def _tiers_text(tiers: Any) -> str:
    return ", ".join(f"{tier.name} {number_text(tier.bandwidth_gb_s)} GB/s" for tier in tiers)


def _study_summary(study: Study) -> tuple[str, ...]:
    recipe = study.recipe
    degrees = " ".join(f"{name}{getattr(recipe, name)}" for name in ("tp", "pp", "vpp", "cp", "ep") if getattr(recipe, name) > 1)
    return (study.model.name, study.cluster.name, degrees or UNKNOWN, f"{recipe.gbs} x {number_text(recipe.seq_length)}")


_SUMMARIES: dict[Kind, tuple[tuple[str, ...], Callable[[Any], tuple[str, ...]]]] = {
    Kind.MODEL: (("model", "parameters", "active", "layers", "hidden", "attention", "experts", "sequence"), _model_summary),
    Kind.HARDWARE: (("hardware", "HBM\nGiB", "HBM\nTB/s", "bf16\nTFLOP/s", "fp8\nTFLOP/s"), _hardware_summary),
    Kind.NETWORK: (("network", "levels, per GPU and direction"), _network_summary),
    Kind.CLUSTER: (("cluster", "GPUs", "hardware", "levels, per GPU and direction"), _cluster_summary),
    Kind.FRAMEWORK: (("framework", "title", "attention"), _framework_summary),
    Kind.STUDY: (("study", "model", "cluster", "split", "batch x sequence"), _study_summary),
}
