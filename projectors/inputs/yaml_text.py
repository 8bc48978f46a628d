"""YAML text to plain data, with the place of every key; YAML 1.2 core types, and limits on size, depth and aliases.

PyYAML resolves YAML 1.1 words (`5:1` is 301, `no` is false, `1e3` is text, a date is a date). A study means what it
says, so scalars are typed here by the core schema of YAML 1.2.2 (section 10.3.2) from the parser's events.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from projectors.inputs.errors import InputError, InputProblem

MOST_BYTES = 1_000_000  # size of one file; a study with its card inline has about 5 kB
MOST_NODES = 100_000  # values in one file with every alias written out; the largest profile has about 1,000
MOST_DEPTH = 40  # nesting; the deepest profile has 6
MOST_DIGITS = 40  # digits of one number; a 64-bit integer has 20

KeyPath = tuple[str | int, ...]

_INTEGER = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS: dict[str, bool | None] = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_TEXT_TAGS = (None, "!", "tag:yaml.org,2002:str")
_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Mark(NamedTuple):
    """Place of a value and of its key; lines and columns count from 1, 0 = unknown. `where` is the dotted key in its file."""

    file: str
    where: str
    line: int = 0
    column: int = 0
    key_line: int = 0
    key_column: int = 0


@dataclass(frozen=True, slots=True)
class Document:
    """Plain data and the place of each of its values by key path; `()` is the whole."""

    data: Any
    marks: dict[KeyPath, Mark]

    def part(self, *path: str | int) -> Document:
        """The value under `path` as a document of its own."""
        data = self.data
        for step in path:
            data = data[step]
        length = len(path)
        marks = {key[length:]: mark for key, mark in self.marks.items() if key[:length] == path}
        marks.setdefault((), self.mark(path))
        return Document(data, marks)

    def mark(self, path: KeyPath) -> Mark:
        """Place of a value; for one that is not written, its nearest written ancestor's place under the full key."""
        for length in range(len(path), -1, -1):
            found = self.marks.get(path[:length])
            if found:
                return found if length == len(path) else found._replace(where=dotted(found.where, path[length:]))
        return Mark("", dotted("", path))


def dotted(start: str, path: KeyPath) -> str:
    """A key path as words: recipe.stage_layers[1]."""
    for step in path:
        start = f"{start}[{step}]" if isinstance(step, int) else f"{start}.{step}" if start else step
    return start


def read_file(path: Path) -> Document:
    """Parse one YAML file whose top level is a mapping. Raises InputError; see `read_text` and `parse`."""
    return parse(read_text(path), str(path))


def read_text(path: Path) -> str:
    """The text of a file. Raises InputError when it is missing, a folder, not readable, too large, or not UTF-8."""
    file = str(path)
    try:
        if path.is_dir():
            raise _fault(file, "a folder", "a YAML file")
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise _fault(file, f"a file of {size:,} bytes", f"at most {MOST_BYTES:,} bytes")
        raw = path.read_bytes()
    except FileNotFoundError:
        raise _fault(file, "no such file", "the path of a YAML file, or a known name") from None
    except (OSError, ValueError) as error:
        raise _fault(
            file, f"a file that cannot be read ({getattr(error, 'strerror', None) or error})", "a readable YAML file"
        ) from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _fault(file, f"byte 0x{raw[error.start]:02x} that is not UTF-8 (a binary file?)", "UTF-8 text", line, 1) from None


def parse(text: str, file: str) -> Document:
    """Parse text whose top level must be a mapping.

    Raises InputError when it is empty, malformed, not a mapping, or beyond the limits of this module.
    """
    document = parse_value(text, file)
    if document.data is None:
        raise _fault(file, "an empty file" if not text.strip() else "nothing but null or comments", "a mapping of keys to values")
    if not isinstance(document.data, dict):
        mark = document.mark(())
        raise _fault(file, describe(document.data), "a mapping of keys to values at the top level", mark.line, mark.column)
    return document


def parse_value(text: str, file: str) -> Document:
    """Parse one YAML value of any kind, such as what follows `--set key=`; an empty text is null."""
    try:
        return _Builder(text, file).build()
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        character = error.character if isinstance(error.character, int) else ord(error.character)
        raise _fault(file, f"the character U+{character:04X} (a binary file?)", "printable text", line, column) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        reason = " ".join(str(part) for part in (error.context, error.problem) if part)
        raise _fault(file, f"malformed YAML: {reason}", "complete YAML (is the file cut off?)", *place) from None
    except yaml.YAMLError as error:
        raise _fault(file, f"malformed YAML: {error}", "YAML text") from None


def is_text(plain: str) -> bool:
    """Whether a plain (unquoted) scalar is text in YAML 1.2, not null, a boolean or a number."""
    return plain not in _WORDS and not any(pattern.fullmatch(plain) for pattern in (_INTEGER, _FLOAT, _NOT_FINITE))


def describe(value: Any, limit: int = 60) -> str:
    """What stands in a file, in words and shortened."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"' if len(value) <= limit else f'"{value[:limit]}…" ({len(value):,} characters)'
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)}" if value else "an empty list"
    return str(value)


def _fault(file: str, found: str, allowed: str, line: int = 0, column: int = 0, where: str = "") -> InputError:
    return InputError([InputProblem(where, found, allowed, file, line, column)])


class _Builder:
    """Turns the parser's events into plain data and marks; its own recursion is bounded by MOST_DEPTH."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.parser = _PARSER(text)
        self.marks: dict[KeyPath, Mark] = {}
        self.anchors: dict[str, tuple[Any, int]] = {}
        self.nodes = 0

    def build(self) -> Document:
        self.parser.get_event()  # start of stream
        event = self.parser.get_event()
        if isinstance(event, yaml.StreamEndEvent):
            return Document(None, {(): Mark(self.file, "")})
        data = self.value(self.parser.get_event(), (), None)
        self.parser.get_event()  # end of document
        event = self.parser.get_event()
        if not isinstance(event, yaml.StreamEndEvent):
            raise self.fault(event, "a second document", "one document per file", ())
        return Document(data, self.marks)

    def fault(self, event: Any, found: str, allowed: str, path: KeyPath) -> InputError:
        mark = event.start_mark
        return _fault(self.file, found, allowed, mark.line + 1, mark.column + 1, dotted("", path))

    def value(self, event: Any, path: KeyPath, key: Any) -> Any:
        mark = event.start_mark
        place = (key.start_mark.line + 1, key.start_mark.column + 1) if key else (0, 0)
        self.marks[path] = Mark(self.file, dotted("", path), mark.line + 1, mark.column + 1, *place)
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event, path)
        start = self.nodes
        self.count(1, event, path)
        if isinstance(event, yaml.ScalarEvent):
            data = self.scalar(event, path)
        else:
            if len(path) >= MOST_DEPTH:
                raise self.fault(event, f"nesting deeper than {MOST_DEPTH} levels", f"at most {MOST_DEPTH} levels", path)
            if event.tag is not None and event.tag not in ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"):
                raise self.fault(event, f"the tag {event.tag}", "plain mappings and lists, without tags", path)
            data = self.mapping(path) if isinstance(event, yaml.MappingStartEvent) else self.sequence(path)
        if event.anchor:
            self.anchors[event.anchor] = (data, self.nodes - start)
        return data

    def count(self, number: int, event: Any, path: KeyPath) -> None:
        self.nodes += number
        if self.nodes > MOST_NODES:
            raise self.fault(
                event, f"more than {MOST_NODES:,} values with aliases written out", f"at most {MOST_NODES:,} values", path
            )

    def alias(self, event: Any, path: KeyPath) -> Any:
        known = self.anchors.get(event.anchor)
        if known is None:
            raise self.fault(
                event, f"the alias *{event.anchor} of nothing before it (or of itself)", "an alias of an earlier anchor", path
            )
        self.count(known[1], event, path)
        return known[0]

    def mapping(self, path: KeyPath) -> dict[str, Any]:
        data: dict[str, Any] = {}
        while not isinstance(event := self.parser.get_event(), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise self.fault(event, "a key that is a list, a mapping or an alias", "keys that are words", path)
            name = event.value
            if name in data:
                first = self.marks[(*path, name)]
                raise self.fault(
                    event, f'the key "{name}" a second time (first in line {first.key_line})', "each key once", (*path, name)
                )
            data[name] = self.value(self.parser.get_event(), (*path, name), event)
        return data

    def sequence(self, path: KeyPath) -> list[Any]:
        data: list[Any] = []
        while not isinstance(event := self.parser.get_event(), yaml.SequenceEndEvent):
            data.append(self.value(event, (*path, len(data)), None))
        return data

    def scalar(self, event: Any, path: KeyPath) -> Any:
        text: str = event.value
        if event.tag not in _TEXT_TAGS:
            raise self.fault(event, f"the tag {event.tag}", "plain values, without tags", path)
        if event.tag is not None or not event.implicit[0]:  # quoted, or tagged as text
            return text
        if text in _WORDS:
            return _WORDS[text]
        if _NOT_FINITE.fullmatch(text):
            raise self.fault(event, f"{text}, a number that is not finite", "finite numbers", path)
        for pattern, make in _NUMBERS:
            if pattern.fullmatch(text):
                if len(text) > MOST_DIGITS:
                    raise self.fault(
                        event, f"a number of {len(text):,} characters", f"numbers of at most {MOST_DIGITS} characters", path
                    )
                number = make(text)
                if not math.isfinite(number):
                    raise self.fault(event, f"{text}, a number that is not finite", "finite numbers", path)
                return number
        return text


_NUMBERS: tuple[tuple[re.Pattern[str], Callable[[str], int | float]], ...] = ((_INTEGER, int), (_FLOAT, float))
