"""Profiles by name: what is shipped and what the user has, the latter overriding the former."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from projectors.inputs.places import shipped_folder, user_folder

LOCAL_MACHINE = "cpu"  # hardware profile made at load time for the machine it runs on
TITLE_BYTES = 2_000  # a title stands in the first lines of a profile

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_TITLE = re.compile(r"^title: *(.+?) *$", re.MULTILINE)


class Kind(StrEnum):
    """Kinds of profile; the value is the folder."""

    MODEL = "models"
    HARDWARE = "hardware"
    NETWORK = "networks"
    CLUSTER = "clusters"
    FRAMEWORK = "frameworks"
    STUDY = "studies"

    @property
    def word(self) -> str:
        """One of the kind, in words."""
        return {
            "models": "model",
            "hardware": "hardware profile",
            "networks": "network",
            "clusters": "cluster",
            "frameworks": "framework",
            "studies": "study",
        }[self]

    @property
    def endings(self) -> tuple[str, ...]:
        """File name endings, longest first."""
        return (".study.yaml", ".yaml", ".yml") if self is Kind.STUDY else (".yaml", ".yml")


class Origin(StrEnum):
    SHIPPED = "shipped"
    USER = "user"
    MADE = "made"  # computed at load time


@dataclass(frozen=True, slots=True)
class Entry:
    """One profile in a listing. `path` is None for the local machine's, which no file holds."""

    name: str
    title: str
    path: Path | None
    origin: Origin


def is_name(text: str) -> bool:
    """Whether a text can name a profile, and so a file in its folder."""
    return _NAME.fullmatch(text) is not None


def names(kind: Kind | str) -> list[str]:
    """Names of a kind, sorted, user profiles included."""
    return sorted(_found(Kind(kind)))


def entries(kind: Kind | str) -> list[Entry]:
    """Listing of a kind for `show` and File > New, sorted by name; no file is validated."""
    return [Entry(name, _title(path), path, origin) for name, (path, origin) in sorted(_found(Kind(kind)).items())]


def find(kind: Kind, name: str, *, beside: Path | None = None) -> Path | None:
    """File of a name: the user's, else the shipped one; None when there is none.

    `beside` is the file that asks: a user profile that extends its own name means the shipped one.
    """
    if not is_name(name):
        return None
    users = user_folder()
    for folder in (users, shipped_folder()):
        for ending in kind.endings:
            path = folder / kind.value / (name + ending)
            asks_for_itself = folder == users and beside is not None and path.resolve() == beside.resolve()
            if path.is_file() and not asks_for_itself:
                return path
    return None


def _found(kind: Kind) -> dict[str, tuple[Path | None, Origin]]:
    found: dict[str, tuple[Path | None, Origin]] = {LOCAL_MACHINE: (None, Origin.MADE)} if kind is Kind.HARDWARE else {}
    for folder, origin in ((shipped_folder(), Origin.SHIPPED), (user_folder(), Origin.USER)):
        try:
            paths = sorted((folder / kind.value).iterdir())
        except OSError:  # a user without profiles has no such folder
            continue
        for path in paths:
            ending = next((ending for ending in kind.endings if path.name.endswith(ending)), None)
            if ending:
                found[path.name.removesuffix(ending)] = (path, origin)
    return found


def _title(path: Path | None) -> str:
    if path is None:
        return "The machine this runs on (estimate)"
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            match = _TITLE.search(file.read(TITLE_BYTES))
    except OSError:
        return ""
    return match[1].strip("'\"") if match else ""
