"""Names, paths and `extends:` turned into one merged document, before any of it is validated."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from projectors.inputs import catalog
from projectors.inputs.catalog import LOCAL_MACHINE, Kind
from projectors.inputs.errors import InputError, InputProblem
from projectors.inputs.words import listed, nearest
from projectors.inputs.yaml_text import Document, Mark, describe, read_file

PATH_ENDINGS = (".yaml", ".yml", ".json")
FREE_MAPS = ("sources", "axes")  # maps whose keys are the author's own; null there takes an entry out
NESTED: dict[Kind, dict[str, Kind]] = {
    Kind.STUDY: {"model": Kind.MODEL, "cluster": Kind.CLUSTER, "framework": Kind.FRAMEWORK},
    Kind.CLUSTER: {"hardware": Kind.HARDWARE, "network": Kind.NETWORK},
}

_SIZED_CLUSTER = re.compile(r"(?P<hardware>.+)-(?P<nodes>[1-9][0-9]{0,8})x(?P<gpus>[1-9][0-9]{0,8})")


def is_path(text: str) -> bool:
    """Whether a reference is a path rather than a name."""
    return "/" in text or os.sep in text or text.startswith("~") or text.lower().endswith(PATH_ENDINGS)


def resolve(
    kind: Kind, reference: str, folder: Path, mark: Mark, chain: tuple[str, ...] = (), beside: Path | None = None
) -> Document:
    """The document of a name or path with its `extends` merged in.

    `folder` is what a relative path starts from, `mark` the place that asks (for errors), `chain` the files already
    being extended, `beside` the file that asks. Raises InputError for unknown names, missing files and cycles.
    """
    if is_path(reference):
        path = folder / Path(reference).expanduser()
        if not path.exists():
            raise refused(mark, f'"{reference}", and there is no such file', f"the path of a {kind.word} file, or a known name")
    else:
        found = catalog.find(kind, reference, beside=beside)
        if found is None:
            return _made(kind, reference, mark)
        path = found
    identity = str(path.resolve())
    if identity in chain:
        loop = [Path(step).name.removesuffix(".yaml") for step in (*chain[chain.index(identity) :], identity)]
        raise refused(mark, f"extends that leads back to itself: {' -> '.join(loop)}", "a chain of extends without a cycle")
    return expand(kind, _read(path), path.parent, (*chain, identity), path)


def expand(kind: Kind, document: Document, folder: Path, chain: tuple[str, ...] = (), path: Path | None = None) -> Document:
    """A document with its own `extends` merged in: keys given here override, nested maps merge, null takes a value out."""
    data = _anchored(kind, document.data, folder)
    base_name = data.pop("extends", None)
    own = Document(data, document.marks)
    if base_name is None:
        return own
    mark = document.mark(("extends",))
    if not isinstance(base_name, str) or not base_name:
        raise refused(mark, describe(base_name), f"the name or path of a {kind.word}")
    return merge(kind, resolve(kind, base_name, folder, mark, chain, path), own)


def merge(kind: Kind, base: Document, own: Document) -> Document:
    """`own` over `base`, with the marks of whichever a value comes from."""
    data = _merged(base.data, own.data, NESTED.get(kind, {}))
    if kind is Kind.CLUSTER:
        data = _one_network(data, own.data)
    return Document(data, {**base.marks, **own.marks})


def refused(mark: Mark, found: str, allowed: str, suggestion: str | None = None) -> InputError:
    """An InputError of one problem at a mark."""
    return InputError([InputProblem(mark.where, found, allowed, mark.file, mark.line, mark.column, suggestion)])


def _read(path: Path) -> Document:
    """Parse a file, or take the last parse of it while it has not changed."""
    try:
        status = path.stat()
    except OSError:
        return read_file(path)
    return _read_version(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=256)
def _read_version(path: Path, modified_ns: int, size: int) -> Document:  # noqa: ARG001 - the key of the cache
    return read_file(path)


def _made(kind: Kind, name: str, mark: Mark) -> Document:
    """Profiles that no file holds: this machine, and clusters named HARDWARE-NODESxGPUS."""
    if kind is Kind.HARDWARE and name == LOCAL_MACHINE:
        from projectors.inputs.local_machine import local_machine

        return Document(local_machine(), {(): Mark("this machine", "")})
    known = catalog.names(kind)
    if kind is Kind.CLUSTER:
        sized = _SIZED_CLUSTER.fullmatch(name)
        hardware = catalog.names(Kind.HARDWARE)
        if sized and sized["hardware"] in hardware:
            data = {
                "name": name,
                "hardware": sized["hardware"],
                "nodes": int(sized["nodes"]),
                "gpus_per_node": int(sized["gpus"]),
            }
            return Document(data, {(): mark})
        if sized:
            raise refused(
                mark,
                f'"{name}", and no hardware is named {sized["hardware"]}',
                f"HARDWARE-NODESxGPUS with one of {listed(hardware)}",
                (near := nearest(sized["hardware"], hardware)) and f"{near}-{sized['nodes']}x{sized['gpus']}",
            )
    more = ", or HARDWARE-NODESxGPUS such as h100-16x8" if kind is Kind.CLUSTER else ""
    raise refused(
        mark, f'"{name}", which no {kind.word} is named', f"one of {listed(known)}{more}, or a path", nearest(name, known)
    )


def _anchored(kind: Kind, data: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A copy whose relative paths to other profiles are relative no more, so that it may be merged into another file."""
    anchored = dict(data)
    for key in ("extends", *NESTED.get(kind, {})):
        value = anchored.get(key)
        if isinstance(value, str) and is_path(value):
            anchored[key] = str((folder / Path(value).expanduser()).absolute())
        elif isinstance(value, dict) and key in NESTED.get(kind, {}):
            anchored[key] = _anchored(NESTED[kind][key], value, folder)
    return anchored


def _merged(base: Any, own: Any, nested: dict[str, Kind]) -> Any:
    merged = dict(base)
    for key, value in own.items():
        before = base.get(key)
        if key in nested and isinstance(value, dict) and "extends" not in value:
            inside = {"extends": before} if isinstance(before, str) else before
            merged[key] = _merged(inside, value, NESTED.get(nested[key], {})) if isinstance(inside, dict) else value
        elif isinstance(value, dict) and isinstance(before, dict) and key not in nested:
            merged[key] = _merged(before, value, {})
            if key in FREE_MAPS:
                merged[key] = {name: entry for name, entry in merged[key].items() if entry is not None}
        else:
            merged[key] = value
    return merged


def _one_network(data: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """A cluster that states its network anew does not inherit tiers, and the other way round."""
    if own.get("network") is not None and "tiers" not in own:
        return {key: value for key, value in data.items() if key != "tiers"}
    if own.get("tiers") is not None and "network" not in own:
        return {key: value for key, value in data.items() if key != "network"}
    return data
