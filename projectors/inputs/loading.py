"""Studies, model cards, hardware, networks and clusters from files, names and plain data, fully resolved and validated.

Every fault of an input is reported at once, as `InputError` with file, line, column, what was found, what is allowed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from projectors.inputs import words
from projectors.inputs.catalog import Kind
from projectors.inputs.cluster import ClusterSpec, NetworkProfile, Tier
from projectors.inputs.errors import InputError, InputProblem
from projectors.inputs.framework import FrameworkProfile
from projectors.inputs.hardware import HardwareProfile
from projectors.inputs.model_card import ModelCard
from projectors.inputs.recipe import Recipe
from projectors.inputs.references import expand, is_path, refused, resolve
from projectors.inputs.study import Compute, Search, Study
from projectors.inputs.yaml_text import Document, Mark, describe, parse, parse_value, read_text

T = TypeVar("T", bound=BaseModel)
R = TypeVar("R")

NOWHERE = Mark("", "")
SECTIONS: dict[str, type[BaseModel]] = {"recipe": Recipe, "compute": Compute, "search": Search}


def load_study(reference: str | Path) -> Study:
    """The study of a name, a path, or a shipped one.

    Raises InputError with every fault found: unreadable file, unknown key or name, wrong type, value out of bounds,
    cyclic `extends`.
    """
    return _study(_opened(Kind.STUDY, reference))


def study_from_text(text: str, file: str = "", folder: Path | None = None) -> Study:
    """The study that `text` states; relative paths start from `folder` (default: the working folder)."""
    return _study(expand(Kind.STUDY, parse(text, file), folder or Path.cwd()))


def load_model(reference: str | Path) -> ModelCard:
    """The model card of a name or path. Raises InputError."""
    return _card(_opened(Kind.MODEL, reference))


def load_hardware(reference: str | Path) -> HardwareProfile:
    """The hardware profile of a name or path; `cpu` is the machine this runs on. Raises InputError."""
    return validated(HardwareProfile, _opened(Kind.HARDWARE, reference))


def load_framework(reference: str | Path) -> FrameworkProfile:
    """The framework profile of a name or path. Raises InputError."""
    return validated(FrameworkProfile, _opened(Kind.FRAMEWORK, reference))


def load_network(reference: str | Path) -> NetworkProfile:
    """The network profile of a name or path. Raises InputError."""
    return validated(NetworkProfile, _opened(Kind.NETWORK, reference))


def load_cluster(reference: str | Path) -> ClusterSpec:
    """The cluster of a name or path, with hardware and tiers filled in.

    A name HARDWARE-NODESxGPUS that no file has, such as `h200-16x8`, is made of that hardware's usual node. Raises InputError.
    """
    return _cluster(_opened(Kind.CLUSTER, reference))


def made_from(kind: Kind, value: Any, mark: Mark, folder: Path | None = None) -> Any:
    """A model card, hardware profile, cluster or framework from plain data: a name, a path, or a mapping (`extends` or whole)."""
    return referenced(kind, Document(value, {(): mark}), folder or Path.cwd())


def referenced(kind: Kind, document: Document, folder: Path) -> Any:
    """A model card, hardware profile, cluster or framework from a document: a name, a path or a mapping. Raises InputError."""
    return _BUILD[kind](_referenced(kind, document, folder))


def validated(model: type[T], document: Document) -> T:
    """A typed model from plain data. Raises InputError with one problem per faulty key."""
    if not isinstance(document.data, dict):
        raise refused(document.mark(()), describe(document.data), words.type_words(model))
    try:
        return model.model_validate_json(json.dumps(document.data))
    except ValidationError as error:
        raise InputError(words.problems(error, model, document)) from None


def usual_tiers(
    hardware: HardwareProfile, gpus_per_node: int, network: str | None = None, mark: Mark = NOWHERE
) -> tuple[Tier, ...]:
    """Tiers of a named network (None: the hardware's usual one) for nodes of so many accelerators.

    The level that is the hardware's usual node becomes as large as the node stated; a larger inner domain, such as a
    rack of 72, stays. Raises InputError at `mark` for an unknown network.
    """
    profile = validated(NetworkProfile, resolve(Kind.NETWORK, network or hardware.usual_network, Path.cwd(), mark))
    inner = profile.tiers[0]
    if len(profile.tiers) > 1 and inner.size == hardware.usual_gpus_per_node and inner.size != gpus_per_node:
        return (inner.model_copy(update={"size": gpus_per_node}), *profile.tiers[1:])
    return profile.tiers


def _opened(kind: Kind, reference: str | Path) -> Document:
    mark = Mark(str(reference) if isinstance(reference, Path) or is_path(reference) else "", "")
    text = str(reference.expanduser().absolute()) if isinstance(reference, Path) else reference
    return resolve(kind, text, Path.cwd(), mark)


def _study(document: Document) -> Study:
    faults: list[InputProblem] = []
    data, folder = document.data, Path.cwd()
    faults.extend(words.unknown_key(key, Study.model_fields, document, (key,)) for key in data if key not in Study.model_fields)
    parts: dict[str, Any] = {}
    if data.get("version", 1) != 1 or isinstance(data.get("version"), bool):
        mark = document.mark(("version",))
        faults.append(InputProblem(mark.where, describe(data["version"]), "1", mark.file, mark.line, mark.column))
    for key, kind in (("model", Kind.MODEL), ("cluster", Kind.CLUSTER)):
        if data.get(key) is None:
            faults.append(_missing(document, key, f"the name or path of a {kind.word}, or a mapping"))
        else:
            parts[key] = attempt(faults, partial(referenced, kind, document.part(key), folder))
    if data.get("framework") is not None:
        parts["framework"] = attempt(faults, partial(referenced, Kind.FRAMEWORK, document.part("framework"), folder))
    for key, model in SECTIONS.items():
        if data.get(key) is not None:
            parts[key] = attempt(faults, partial(validated, model, document.part(key)))
        elif key == "recipe":
            faults.append(_missing(document, key, words.type_words(model)))
    if faults:
        raise InputError(faults)
    return Study(**parts)


def _cluster(document: Document) -> ClusterSpec:
    faults: list[InputProblem] = []
    data = dict(document.data)
    stated, hardware = data.pop("hardware", None), None
    if stated is None:
        faults.append(_missing(document, "hardware", "the name or path of a hardware profile, or a mapping"))
    else:
        hardware = attempt(faults, lambda: _hardware(_referenced(Kind.HARDWARE, document.part("hardware"), Path.cwd())))
    if hardware is None:
        raise InputError(faults)
    data.setdefault("gpus_per_node", hardware.usual_gpus_per_node)
    if data.get("name") is None:
        data["name"] = cluster_name(hardware, data.get("nodes"), data["gpus_per_node"])
    network, tiers = data.get("network"), data.get("tiers")
    if network is not None and tiers is not None:
        raise refused(document.mark(("network",)), "both network and tiers", "one of them: the name of a network, or its tiers")
    if tiers is None and _counts(data):
        if network is not None and not isinstance(network, str):
            raise refused(document.mark(("network",)), describe(network), "the name or path of a network, or null")
        found = usual_tiers(hardware, data["gpus_per_node"], network, document.mark(("network",)))
        data["tiers"] = [tier.model_dump(mode="json") for tier in found]
        if network is not None and is_path(network):
            data["network"] = None
    elif tiers is None:
        data["tiers"] = [_ANY_TIER]  # the counts are at fault and get reported; tiers would follow from them
    whole = {**data, "hardware": hardware.model_dump(mode="json")}
    return validated(ClusterSpec, Document(whole, document.marks))


def cluster_name(hardware: HardwareProfile, nodes: Any, gpus_per_node: Any) -> str:
    """The usual name of a cluster: HARDWARE-NODESxGPUS."""
    return f"{hardware.name}-{nodes}x{gpus_per_node}"


_ANY_TIER: dict[str, Any] = {"name": "any", "size": None, "bandwidth_gb_s": 1.0, "latency_us": 1.0}


def _counts(data: dict[str, Any]) -> bool:
    """Whether the node size is a count that tiers can be made for."""
    size = data["gpus_per_node"]
    return isinstance(size, int) and not isinstance(size, bool) and size >= 1


def _hardware(document: Document) -> HardwareProfile:
    return validated(HardwareProfile, document)


def _card(document: Document) -> ModelCard:
    data = document.data
    hidden, heads = data.get("hidden_size"), data.get("num_attention_heads")
    if data.get("head_dim") is None:
        if isinstance(hidden, int) and isinstance(heads, int) and heads > 0 and hidden % heads:
            raise refused(
                document.mark(("head_dim",)),
                "no value",
                f"the width of one head, for hidden_size {hidden} is no multiple of num_attention_heads {heads}",
            )
        data = {key: value for key, value in data.items() if key != "head_dim"}
    return validated(ModelCard, Document(data, document.marks))


_BUILD: dict[Kind, Callable[[Document], Any]] = {
    Kind.MODEL: _card,
    Kind.HARDWARE: _hardware,
    Kind.CLUSTER: _cluster,
    Kind.FRAMEWORK: partial(validated, FrameworkProfile),
}


def _referenced(kind: Kind, document: Document, folder: Path) -> Document:
    """The document that a name, a path or an inline mapping stands for."""
    value = document.data
    if isinstance(value, str):
        return resolve(kind, value, folder, document.mark(()))
    if isinstance(value, dict):
        return expand(kind, document, folder)
    raise refused(document.mark(()), describe(value), f"the name or path of a {kind.word}, or a mapping")


def attempt(faults: list[InputProblem], build: Callable[[], R]) -> R | None:
    """What `build` returns, or None with its faults noted."""
    try:
        return build()
    except InputError as error:
        faults.extend(error.problems)
        return None


def _missing(document: Document, key: str, allowed: str) -> InputProblem:
    mark = document.mark((key,))
    return InputProblem(mark.where, "no value", allowed, mark.file, mark.line, mark.column)


def load_list(path: Path) -> list[Document]:
    """The entries of a file whose top level is a list, such as measured results. Raises InputError."""
    document = parse_value(read_text(path), str(path))
    if not isinstance(document.data, list):
        raise refused(document.mark(()), describe(document.data), "a list at the top level")
    return [document.part(position) for position in range(len(document.data))]
