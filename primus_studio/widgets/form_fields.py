"""What a form needs to know of a field, read off the typed models: title, unit, bounds, choices, what null means."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import NoneType
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from projectors.inputs.describe import field_title


class Kind(Enum):
    """How a value is entered."""

    WHOLE = auto()     # a whole number
    NUMBER = auto()
    SWITCH = auto()    # true or false
    CHOICE = auto()    # one of some words
    CHOICES = auto()   # any of some words
    NUMBERS = auto()   # a list of whole numbers
    PATTERN = auto()   # a word or a list of whole numbers
    TEXT = auto()


SHORTEST_WORD = 3
"""Letters of a unit that is a word, such as GPUs; shorter ones are symbols."""


@dataclass(frozen=True, slots=True)
class FormField:
    """One line of a form. `path` is the dotted key in the study."""

    path: str
    title: str
    says: str
    kind: Kind
    unit: str = ""
    advanced: bool = False
    choices: tuple[str, ...] = ()
    least: float | None = None   # inclusive
    above: float | None = None   # exclusive
    most: float | None = None    # inclusive
    null: str | None = None      # what null means, in words; None where null is not allowed

    @property
    def name(self) -> str:
        """Last key of the path."""
        return self.path.rpartition(".")[2]

    @property
    def singular(self) -> str:
        """The unit beside a 1: what is counted in words loses its s, symbols such as µs stay."""
        return self.unit.removesuffix("s") if self.unit.isalpha() and len(self.unit) >= SHORTEST_WORD else self.unit


NOT_STATED = "not stated"
"""What null means where the description does not say."""

_NULL = re.compile(r"null = ([^;:]+)")


def form_fields(model: type[BaseModel], prefix: str) -> dict[str, FormField]:
    """Fields of a model that a form can edit, by name; nested models and free maps are left out."""
    made = ((name, form_field(name, info, prefix)) for name, info in model.model_fields.items())
    return {name: field for name, field in made if field is not None}


def form_field(name: str, info: FieldInfo, prefix: str) -> FormField | None:
    """One field, None where no line of a form can edit it."""
    kind = _kind(info.annotation)
    if kind is None:
        return None
    extra: Mapping[str, Any] = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
    bounds = {key: getattr(item, key) for item in info.metadata for key in ("ge", "gt", "le") if hasattr(item, key)}
    says = info.description or ""
    meaning = _NULL.search(says)
    optional = NoneType in get_args(info.annotation)
    return FormField(
        path=f"{prefix}.{name}",
        title=field_title(name, info),
        says=says,
        kind=kind,
        unit=str(extra.get("unit", "")),
        advanced=bool(extra.get("advanced", False)),
        choices=_choices(info.annotation),
        least=bounds.get("ge"),
        above=bounds.get("gt"),
        most=bounds.get("le"),
        null=(meaning[1].strip() if meaning else NOT_STATED) if optional else None,
    )


def value_at(root: BaseModel, path: str) -> Any:
    """Value at a dotted path below a model, None below a part that is null. Raises AttributeError for unknown keys."""
    value: Any = root
    for step in path.split("."):
        if value is None:
            return None
        key, _, index = step.partition("[")
        value = getattr(value, key)
        if index:
            value = value[int(index.rstrip("]"))]
    return value


def plain(value: Any) -> Any:
    """A value as plain data: words for enum members, lists for tuples."""
    if isinstance(value, Enum):
        return value.value
    return [plain(item) for item in value] if isinstance(value, tuple) else value


def _kind(annotation: Any) -> Kind | None:
    options = [option for option in get_args(annotation) if option is not NoneType] or [annotation]
    if get_origin(annotation) is tuple or annotation in _SIMPLE or isinstance(annotation, type):
        options = [annotation]
    if len(options) == 1:
        return _single(options[0])
    return Kind.PATTERN if {_single(option) for option in options} == {Kind.TEXT, Kind.NUMBERS} else None


def _single(option: Any) -> Kind | None:
    if option in _SIMPLE:
        return _SIMPLE[option]
    if get_origin(option) is tuple:
        items = set(get_args(option)) - {Ellipsis}
        if items == {int}:
            return Kind.NUMBERS
        return Kind.CHOICES if len(items) == 1 and _is_enum(items.pop()) else None
    return Kind.CHOICE if _is_enum(option) else None


_SIMPLE = {int: Kind.WHOLE, float: Kind.NUMBER, bool: Kind.SWITCH, str: Kind.TEXT}


def _is_enum(option: Any) -> bool:
    return isinstance(option, type) and issubclass(option, Enum)


def _choices(annotation: Any) -> tuple[str, ...]:
    for option in (annotation, *get_args(annotation)):
        if _is_enum(option):
            return tuple(str(member.value) for member in option)
    return ()
