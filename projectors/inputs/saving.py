"""A study as text and as a file: names where a value is the library's, `extends` and the difference where it is not.

Files are written beside themselves and moved into place, so that a full disk or a crash leaves the old file whole.
"""

from __future__ import annotations

import io
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from projectors.inputs.catalog import Kind
from projectors.inputs.changing import follows_network
from projectors.inputs.cluster import ClusterSpec
from projectors.inputs.errors import InputError, InputProblem
from projectors.inputs.framework import DEFAULT_FRAMEWORK
from projectors.inputs.loading import load_cluster, load_framework, load_hardware, load_model, study_from_text
from projectors.inputs.recipe import Recipe
from projectors.inputs.references import FREE_MAPS, is_path
from projectors.inputs.study import Compute, Search, Study
from projectors.inputs.yaml_text import is_text

LINE_WIDTH = 130
LONGEST_FLOW = 100  # characters of a list or map that is still written on one line

_LOADERS: dict[Kind, Any] = {
    Kind.MODEL: load_model,
    Kind.CLUSTER: load_cluster,
    Kind.HARDWARE: load_hardware,
    Kind.FRAMEWORK: load_framework,
}


def study_text(study: Study) -> str:
    """The study as YAML in contract order; loading it gives an equal study."""
    return yaml.dump(_plain(study), Dumper=_Dumper, sort_keys=False, width=LINE_WIDTH, allow_unicode=True)


def save_study(study: Study, path: Path) -> None:
    """Write a study, keeping the comments of a file that is already there.

    Raises InputError in words when the folder is missing or may not be written, or the disk is full; what stood in the
    file before then stands there still.
    """
    path = path.expanduser()
    write_atomically(path, _with_comments(study, path) or study_text(study))


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write text (as UTF-8) or bytes in one step (a file beside it, synchronised, then renamed). Raises InputError in words."""
    target = Path(os.path.realpath(path))  # a link keeps pointing at the file
    scratch = None
    try:
        if target.is_dir():
            raise IsADirectoryError(None, "it is a folder")
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
            scratch = Path(file.name)
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        scratch.chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
        scratch.replace(target)
    except OSError as error:
        if scratch:
            with suppress(OSError):
                scratch.unlink()
        reason = error.strerror or str(error)
        raise InputError(
            [InputProblem("", f"a file that cannot be written ({reason})", "a path in a folder that may be written", str(path))]
        ) from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _plain(study: Study) -> dict[str, Any]:
    plain = {
        "version": study.version,
        "model": _stated(Kind.MODEL, study.model, study.model.model_dump(mode="json")),
        "cluster": _stated(Kind.CLUSTER, study.cluster, _cluster(study.cluster)),
        "recipe": study.recipe.model_dump(mode="json"),
    }
    if study.framework != DEFAULT_FRAMEWORK:
        plain["framework"] = _stated(Kind.FRAMEWORK, study.framework, study.framework.model_dump(mode="json"))
    if study.compute != Compute.model_validate({}):
        plain["compute"] = study.compute.model_dump(mode="json")
    if study.search != Search.model_validate({}):
        plain["search"] = study.search.model_dump(mode="json")
    return plain


def _cluster(cluster: ClusterSpec) -> dict[str, Any]:
    """A cluster as it would stand in a file: hardware by name where it can be, tiers only when the user stated them."""
    follows = follows_network(cluster)
    return {
        "name": cluster.name,
        "hardware": _stated(Kind.HARDWARE, cluster.hardware, cluster.hardware.model_dump(mode="json")),
        "nodes": cluster.nodes,
        "gpus_per_node": cluster.gpus_per_node,
        "network": cluster.network if follows else None,
        "tiers": None if follows else [tier.model_dump(mode="json") for tier in cluster.tiers],
        "price_per_gpu_hour": cluster.price_per_gpu_hour,
    }


def _stated(kind: Kind, value: Any, plain: dict[str, Any]) -> str | dict[str, Any]:
    """The name of an equal library entry; else `extends` of the entry of that name and what differs; else everything."""
    known = _known(kind, value.name)
    if known is None:
        return {key: item for key, item in plain.items() if item is not None or key != "tiers"}
    if known == value:
        return str(value.name)
    before = _cluster(known) if isinstance(known, ClusterSpec) else known.model_dump(mode="json")
    return {"extends": value.name, **_difference(before, plain)}


def _known(kind: Kind, name: str) -> BaseModel | None:
    if is_path(name):
        return None
    try:
        found: BaseModel = _LOADERS[kind](name)
    except InputError:  # no entry of that name, or a user's that does not load
        return None
    return found


def _difference(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """What to write over `before` to get `after`: keys that differ, null for free keys that went away."""
    changed: dict[str, Any] = {}
    for key, value in after.items():
        old = before.get(key)
        if value == old and type(value) is type(old):
            continue
        if key in FREE_MAPS and isinstance(value, dict):
            changed[key] = (
                {name: value.get(name) for name in {**old, **value} if value.get(name) != old.get(name)} if old else value
            )
        elif isinstance(value, dict) and isinstance(old, dict) and "extends" not in value:
            changed[key] = _difference(old, value)
        else:
            changed[key] = value
    return changed


def _with_comments(study: Study, path: Path) -> str | None:
    """The text of an existing file with its values replaced and its comments kept; None when that cannot be done."""
    try:
        old = path.read_text(encoding="utf-8")
        study_from_text(old, str(path), path.absolute().parent)
    except (OSError, UnicodeDecodeError, InputError):
        return None
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    writer = YAML()
    writer.width = LINE_WIDTH
    writer.preserve_quotes = True
    out = io.StringIO()
    try:
        tree = writer.load(old)
        _update(tree, _plain(study))
        writer.dump(tree, out)
        kept = study_from_text(out.getvalue(), str(path), path.absolute().parent) == study
    except (YAMLError, InputError, AttributeError, TypeError, ValueError):
        return None
    return out.getvalue() if kept else None


def _update(tree: Any, plain: dict[str, Any]) -> None:
    """Bring a file's mapping to new values in place; a recipe key that was left out stays out while it has its default."""
    for key in [key for key in tree if key not in plain]:
        del tree[key]
    for key, value in plain.items():
        if key == "recipe" and isinstance(tree.get(key), dict):
            defaults = {name: field.default for name, field in Recipe.model_fields.items()}
            stated = {name: item for name, item in value.items() if name in tree[key] or item != _plain_value(defaults[name])}
            _update(tree[key], stated)
        elif isinstance(value, dict) and isinstance(tree.get(key), dict):
            _update(tree[key], value)
        elif key not in tree or tree[key] != value or isinstance(tree[key], bool) != isinstance(value, bool):
            tree[key] = _on_one_line(value)


def _plain_value(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _on_one_line(value: Any) -> Any:
    """A list or map as ruamel writes it on one line, when it is short."""
    from ruamel.yaml.comments import CommentedMap, CommentedSeq

    made: CommentedMap | CommentedSeq
    if isinstance(value, dict):
        made = CommentedMap((key, _on_one_line(item)) for key, item in value.items())
    elif isinstance(value, list):
        made = CommentedSeq(_on_one_line(item) for item in value)
    else:
        return value
    if _is_short(value):
        made.fa.set_flow_style()
    return made


def _is_short(value: dict[str, Any] | list[Any]) -> bool:
    inside = value.values() if isinstance(value, dict) else value
    return len(str(value)) <= LONGEST_FLOW and not any(isinstance(item, (dict, list)) and item for item in inside)


class _Dumper(yaml.SafeDumper):
    """Short lists and maps on one line; text quoted where YAML 1.2 would read something else."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True


def _list(dumper: yaml.SafeDumper, value: list[Any]) -> yaml.Node:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=_is_short(value))


def _map(dumper: yaml.SafeDumper, value: dict[str, Any]) -> yaml.Node:
    return dumper.represent_mapping("tag:yaml.org,2002:map", value.items(), flow_style=_is_short(value))


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    style = '"' if not value.isprintable() else None if is_text(value) else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(list, _list)
_Dumper.add_representer(dict, _map)
_Dumper.add_representer(str, _text)
