"""One value of a study replaced, by dotted key: what `--set` does on the command line and every edit in the window."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel

from projectors.inputs import words
from projectors.inputs.catalog import Kind
from projectors.inputs.cluster import ClusterSpec
from projectors.inputs.errors import InputError, InputProblem
from projectors.inputs.framework import FrameworkProfile
from projectors.inputs.hardware import HardwareProfile
from projectors.inputs.loading import cluster_name, made_from, usual_tiers, validated
from projectors.inputs.model_card import ModelCard
from projectors.inputs.recipe import Recipe
from projectors.inputs.references import is_path, refused
from projectors.inputs.study import Compute, Search, Study
from projectors.inputs.words import model_within
from projectors.inputs.yaml_text import Document, KeyPath, Mark, describe, dotted, parse_value

SET = "--set"

SECTIONS: dict[str, type[BaseModel]] = {
    "model": ModelCard,
    "cluster": ClusterSpec,
    "recipe": Recipe,
    "framework": FrameworkProfile,
    "compute": Compute,
    "search": Search,
}
KINDS = {"model": Kind.MODEL, "cluster": Kind.CLUSTER, "framework": Kind.FRAMEWORK}

_STEP = re.compile(r"\.?([A-Za-z_][A-Za-z0-9_-]*)|\[(\d+)\]")


def replace(study: Study, path: str, value: Any) -> Study:
    """The study with the value at `path` (such as recipe.tp, cluster.hardware, model) replaced by plain data.

    A model, cluster or hardware may be a name, a path or a mapping. A new hardware or node size brings the usual network
    along where the tiers came from it. Only the part concerned is validated. Raises InputError.
    """
    return _changed(study, [(path, value, Mark("", path))])


def apply_overrides(study: Study, assignments: Sequence[str]) -> Study:
    """The study with every `key=value` applied in order; values are YAML. Raises InputError with every fault found."""
    edits, faults = [], []
    for assignment in assignments:
        path, separator, text = assignment.partition("=")
        path = path.strip()
        mark = Mark(SET, path)
        if not separator or not path:
            faults.append(InputProblem("", f'"{assignment}"', "KEY=VALUE, such as recipe.tp=4", SET))
            continue
        try:
            edits.append((path, parse_value(text, f"{SET} {path}").data, mark))
        except InputError as error:
            faults.extend(error.problems)
    if faults:
        raise InputError(faults)
    return _changed(study, edits)


def key_paths(study: Study) -> list[str]:
    """Dotted keys of everything that may be set: sections, their fields and the fields of nested models."""
    found: list[str] = []
    for section in SECTIONS:
        found.append(section)
        found.extend(_keys_below(getattr(study, section), section))
    return found


def _keys_below(model: BaseModel, start: str) -> Iterable[str]:
    for name in type(model).model_fields:
        yield f"{start}.{name}"
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from _keys_below(value, f"{start}.{name}")


class _Section:
    """One part of a study while it is edited: plain data, where each edit stands, and which keys were touched."""

    def __init__(self, name: str, value: BaseModel) -> None:
        self.name = name
        self.start(value)

    def start(self, value: BaseModel) -> None:
        """Edit from `value` on."""
        self.before = value
        self.data: dict[str, Any] = value.model_dump(mode="json")
        self.marks: dict[KeyPath, Mark] = {}
        self.touched: set[str] = set()

    def result(self) -> BaseModel:
        if not self.touched:
            return self.before
        self.marks.setdefault((), Mark(next(iter(self.marks.values())).file, self.name))
        if isinstance(self.before, ClusterSpec):
            _settle_network(self, self.before)
        return validated(SECTIONS[self.name], Document(self.data, self.marks))


def _changed(study: Study, edits: Iterable[tuple[str, Any, Mark]]) -> Study:
    sections: dict[str, _Section] = {}
    faults: list[InputProblem] = []
    for path, value, mark in edits:
        try:
            steps = _steps(path, mark)
            name = str(steps[0])
            if name not in SECTIONS:
                raise _unknown(study, path, name, list(SECTIONS), mark)
            section = sections.setdefault(name, _Section(name, getattr(study, name)))
            _edit(study, section, steps[1:], value, mark)
        except InputError as error:
            faults.extend(error.problems)
    results: dict[str, BaseModel] = {}
    for name, section in sections.items():
        try:
            results[name] = section.result()
        except InputError as error:
            faults.extend(error.problems)
    if faults:
        raise InputError(faults)
    return study.model_copy(update=results) if any(results[name] is not getattr(study, name) for name in results) else study


def _edit(study: Study, section: _Section, steps: KeyPath, value: Any, mark: Mark) -> None:
    """Write one value into a section's plain data."""
    if not steps:
        model = SECTIONS[section.name]
        section.start(
            made_from(KINDS[section.name], value, mark)
            if section.name in KINDS
            else validated(model, Document(value, {(): mark}))
        )
        return
    holder: Any = section.data
    for position, step in enumerate(steps):
        here = dotted(section.name, steps[:position])
        if isinstance(step, int) and isinstance(holder, list):
            if step >= len(holder):
                raise refused(
                    mark, f"entry {step} of {here}", f"0 to {len(holder) - 1}" if holder else "nothing: the list is empty"
                )
        elif not isinstance(holder, dict):
            raise refused(mark, f"{here}, which is {describe(holder)}", f"a value for {here} itself")
        elif step not in holder and not _is_free_map(SECTIONS[section.name], steps[:position]):
            raise _unknown(study, mark.where, str(step), list(holder), mark, here)
        if position < len(steps) - 1:
            holder = holder[step]
    if section.name == "cluster" and steps == ("hardware",):
        value = made_from(Kind.HARDWARE, value, mark).model_dump(mode="json")
    holder[steps[-1]] = value
    section.marks = {path: old for path, old in section.marks.items() if path[: len(steps)] != steps}
    section.marks[steps] = mark
    section.touched.add(str(steps[0]))


def _settle_network(section: _Section, before: ClusterSpec) -> None:
    """Tiers follow the network, the hardware and the node size, unless the user stated the tiers themselves."""
    data, touched = section.data, section.touched
    hardware = before.hardware
    if "hardware" in touched:
        hardware = validated(HardwareProfile, Document(section.data, section.marks | {(): Mark("", "cluster")}).part("hardware"))
    named = data["network"]
    if "tiers" in touched:
        data["network"] = None
    elif "network" in touched or (touched & {"hardware", "gpus_per_node"} and follows_network(before)):
        mark = Document(data, section.marks).mark(("network",))
        if named is not None and not isinstance(named, str):
            raise refused(mark, describe(named), "the name or path of a network, or null")
        size = data["gpus_per_node"]
        if isinstance(size, int) and not isinstance(size, bool) and size >= 1:
            data["tiers"] = [tier.model_dump(mode="json") for tier in usual_tiers(hardware, size, named, mark)]
        if named is not None and is_path(named):
            data["network"] = None
    if "name" not in touched and before.name == cluster_name(before.hardware, before.nodes, before.gpus_per_node):
        data["name"] = cluster_name(hardware, data["nodes"], data["gpus_per_node"])


def follows_network(cluster: ClusterSpec) -> bool:
    """Whether a cluster's tiers are those of its network (or of its hardware's usual one), not stated by the user."""
    try:
        return cluster.tiers == usual_tiers(cluster.hardware, cluster.gpus_per_node, cluster.network)
    except InputError:  # the network's file is gone, or was inline
        return False


def _is_free_map(model: type[BaseModel], steps: KeyPath) -> bool:
    """Whether steps lead to a map whose keys are the author's own, such as search.axes."""
    if not steps:
        return False
    field = words.field_of(model, steps)
    return field is not None and model_within(field.annotation) is None


def _unknown(study: Study, path: str, key: str, known: list[str], mark: Mark, holder: str = "") -> InputError:
    """Unknown key; a field named without its section, or with a slip, gets the full key suggested."""
    everything = key_paths(study)
    last = path.rpartition(".")[2]
    same = [full for full in everything if full.rpartition(".")[2] == last]
    near = words.nearest(key, known)
    suggestion = same[0] if same else (f"{holder}.{near}" if holder else near) if near else words.nearest(path, everything)
    return refused(mark, f'an unknown key "{key}"', f"one of {words.listed(known)}", suggestion)


def _steps(path: str, mark: Mark) -> KeyPath:
    """recipe.stage_layers[1] as a key path."""
    steps: list[str | int] = []
    position = 0
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None or (path[position] != "." and match[1] and position):
            raise refused(mark, f'"{path}"', "a dotted key, such as recipe.tp or cluster.tiers[0].bandwidth_gb_s")
        if match[1]:
            steps.append(match[1])
        elif match[2]:
            steps.append(int(match[2]))
        position = match.end()
    if not steps or not isinstance(steps[0], str):
        raise refused(mark, f'"{path}"', "a dotted key, such as recipe.tp")
    return tuple(steps)
