"""What a field allows and what pydantic found, in words with the place in the file and the nearest known name."""

from __future__ import annotations

import difflib
import re
import types
from collections.abc import Iterable
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from projectors.inputs.errors import InputProblem
from projectors.inputs.yaml_text import Document, KeyPath, describe

MOST_NAMES_LISTED = 40
NEAR = 0.55  # similarity from which a name is worth suggesting (difflib ratio)

_OWN_WORDS = re.compile(r"Value error, (?:(?P<key>[a-z_.0-9]+)(?::| is| has| names) )?(?P<rest>.*)", re.DOTALL)


def nearest(word: object, known: Iterable[str]) -> str | None:
    """The known name most like `word`, or None when none is near."""
    names = list(known)
    text = str(word)
    by_lower = {name.lower(): name for name in names}
    if text.lower() in by_lower:
        return by_lower[text.lower()]
    close = difflib.get_close_matches(text, names, 1, NEAR)
    return close[0] if close else None


def listed(names: Iterable[str]) -> str:
    """Names with commas, cut when there are very many."""
    all_names = list(names)
    shown = ", ".join(all_names[:MOST_NAMES_LISTED])
    return shown if len(all_names) <= MOST_NAMES_LISTED else f"{shown} … ({len(all_names)} in all)"


def field_of(model: type[BaseModel], path: KeyPath) -> FieldInfo | None:
    """The field that a key path leads to, through nested models, optionals and lists; None for unknown keys."""
    field: FieldInfo | None = None
    current: type[BaseModel] | None = model
    for step in path:
        if isinstance(step, int):
            continue
        field = current.model_fields.get(step) if current else None
        if field is None:
            return None
        current = model_within(field.annotation)
    return field


def model_within(annotation: Any) -> type[BaseModel] | None:
    """The model that an annotation holds, also as `Model | None` or in a tuple."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in get_args(annotation):
        inner = model_within(argument)
        if inner:
            return inner
    return None


def allowed_words(field: FieldInfo) -> str:
    """What a field allows: its type, bounds, unit and choices."""
    bounds = {
        name: getattr(item, name)
        for item in field.metadata
        for name in ("ge", "gt", "le")
        if getattr(item, name, None) is not None
    }
    words = type_words(field.annotation)
    low = f"from {_number(bounds['ge'])}" if "ge" in bounds else f"above {_number(bounds['gt'])}" if "gt" in bounds else ""
    high = f"to {_number(bounds['le'])}" if "le" in bounds else ""
    limits = " ".join(part for part in (low, high) if part)
    extra = field.json_schema_extra
    unit = str(extra.get("unit") or "") if isinstance(extra, dict) else ""
    if limits:
        kind, separator, rest = words.partition(" or null")
        words = f"{kind} {limits}" + (f" ({unit})" if unit else "") + separator + rest
    return words


def type_words(annotation: Any) -> str:
    """An annotation in words: a whole number, one of a, b, c, a list of whole numbers, ..."""
    simple = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "null"}
    if isinstance(annotation, type):
        if annotation in simple:
            return simple[annotation]
        if issubclass(annotation, Enum):
            return f"one of {listed(str(member.value) for member in annotation)}"
        if issubclass(annotation, BaseModel):
            return f"a mapping with {listed(annotation.model_fields)}"
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return " or ".join(type_words(argument) for argument in arguments)
    if origin is Literal:
        return " or ".join(str(argument) for argument in arguments)
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            return f"a list, each {type_words(arguments[0])}"
        return f"a list of {len(arguments)}, each {type_words(arguments[0])}"
    if origin is dict:
        return f"a mapping of names, each {type_words(arguments[1])}"
    return str(annotation)


def choices(annotation: Any) -> list[str]:
    """Words that an enum or literal annotation allows, also inside a list or optional."""
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return [str(member.value) for member in annotation]
    if get_origin(annotation) is Literal:
        return [str(argument) for argument in get_args(annotation)]
    return [word for argument in get_args(annotation) for word in choices(argument)]


def problems(error: ValidationError, model: type[BaseModel], document: Document) -> list[InputProblem]:
    """Every fault that pydantic found, one per key, placed by the document's marks."""
    found: dict[KeyPath, InputProblem] = {}
    for item in error.errors(include_url=False):
        if item["type"] == "default_factory_not_called":  # follows from another fault
            continue
        path = _written_path(item["loc"], document.data, missing=item["type"] in ("missing", "extra_forbidden"))
        problem = _problem(item, path, model, document)
        found.setdefault(path if item["type"] != "value_error" else (*path, item["msg"]), problem)
    return list(found.values())


def unknown_key(key: str, known: Iterable[str], document: Document, path: KeyPath) -> InputProblem:
    """The fault of a key that is none of the known ones; `path` includes the key."""
    names = list(known)
    mark = document.mark(path)
    return InputProblem(
        mark.where,
        f'an unknown key "{key}"',
        f"one of {listed(names)}",
        mark.file,
        mark.key_line or mark.line,
        mark.key_column or mark.column,
        nearest(key, names),
    )


def _problem(item: Any, path: KeyPath, model: type[BaseModel], document: Document) -> InputProblem:
    kind = item["type"]
    mark = document.mark(path)
    if kind == "extra_forbidden":
        holder = model_within(field.annotation) if (field := field_of(model, path[:-1])) else model
        return unknown_key(str(path[-1]), (holder or model).model_fields, document, path)
    if kind == "value_error":
        return _own_problem(item["msg"], path, model, document)
    field = field_of(model, path)
    allowed = allowed_words(field) if field else item["msg"]
    if kind == "missing":
        says = field.description if field else ""
        return InputProblem(mark.where, "no value", f"{allowed} ({says})" if says else allowed, mark.file, mark.line, mark.column)
    value = item["input"]
    hint = nearest(value, choices(field.annotation)) if field and isinstance(value, str) else None
    return InputProblem(mark.where, describe(value), allowed, mark.file, mark.line, mark.column, hint)


def _own_problem(message: str, path: KeyPath, model: type[BaseModel], document: Document) -> InputProblem:
    """Our own validators say `KEY is FOUND, allowed is ALLOWED`; place that at KEY."""
    match = _OWN_WORDS.fullmatch(message)
    text = match["rest"] if match else message
    key: KeyPath = ()
    if match and match["key"]:
        key = tuple(match["key"].split("."))
        if field_of(model, (*path, *key)) is None:
            key, text = (), message.removeprefix("Value error, ")
    found, separator, allowed = re.split(r"(, allowed (?:is|are) )", text, maxsplit=1) if ", allowed " in text else (text, "", "")
    mark = document.mark((*path, *key))
    return InputProblem(
        mark.where, found, allowed if separator else "values that agree with each other", mark.file, mark.line, mark.column
    )


def _written_path(location: tuple[int | str, ...], data: Any, *, missing: bool) -> KeyPath:
    """The location that pydantic states without the union branches it adds: only steps that the data has (and a missing key)."""
    path: list[str | int] = []
    for step in location:
        if (isinstance(data, dict) and step in data) or (isinstance(data, list) and isinstance(step, int) and step < len(data)):
            data = data[step]  # type: ignore[index]
        elif missing and isinstance(data, dict) and step == location[-1]:
            data = None
        else:
            break
        path.append(step)
    return tuple(path)


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:g}"
