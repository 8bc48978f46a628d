"""Plain scalars mean what YAML 1.2 says: no sexagesimal numbers, no dates, no yes and no."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projectors.inputs.errors import InputError
from projectors.inputs.yaml_text import is_text, parse_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5:1", "5:1"), ("1f1b", "1f1b"), ("no", "no"), ("on", "on"), ("2024-01-01", "2024-01-01"), ("012", 12), ("1e3", 1000.0),
        ("1.5e-3", 0.0015), ("+7", 7), (".5", 0.5), ("5.", 5.0), ("true", True), ("False", False), ("~", None), ("", None),
        ("null", None), ("'1'", "1"), ('"true"', "true"), ("<<", "<<"), ("=", "="), ("0o17", "0o17"),
    ],
)  # fmt: skip
def test_scalars_follow_the_core_schema(text: str, value: object) -> None:
    found = parse_value(text, "test").data
    assert found == value
    assert type(found) is type(value)


def test_marks_count_from_one_and_name_the_key() -> None:
    mark = parse_value("a:\n  - b: 1\n    c: [2, 3]\n", "test").mark(("a", 0, "c", 1))
    assert (mark.where, mark.line, mark.column) == ("a[0].c[1]", 3, 12)


def test_an_alias_repeats_its_anchor() -> None:
    assert parse_value("a: &x {b: 1}\nc: *x\n", "test").data == {"a": {"b": 1}, "c": {"b": 1}}


@given(st.text(max_size=80))
def test_any_text_is_parsed_or_refused_in_words(text: str) -> None:
    with suppress(InputError):
        parse_value(text, "test")


@given(st.sampled_from(["1", "1.5", "true", "~", "x", "5:1", "1e3", ".5", "no"]))
def test_is_text_agrees_with_parsing(text: str) -> None:
    assert is_text(text) == isinstance(parse_value(f"[{text}]", "test").data[0], str)
