"""One way to state a field: its description, unit and bounds, from which forms, tooltips and help are made."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo


class Frozen(BaseModel):
    """Base of every input: immutable, no unknown keys, no NaN or infinity, no silent coercion of text to numbers.

    Validation is strict. Plain data (from YAML, JSON, a form) goes through `model_validate_json`, whose strict mode still
    turns lists into tuples and words into enum members; Python code passes enum members and tuples.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, strict=True, use_enum_values=False, validate_default=True
    )


def quantity(
    default: Any = ...,
    *,
    says: str,
    unit: str = "",
    title: str | None = None,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    advanced: bool = False,
) -> Any:
    """A pydantic field with what a form needs.

    `says` is the one-line description, `unit` the unit as shown ("" for plain counts), `title` the label (made from the
    key when None), `least`/`above`/`most` the inclusive, exclusive and inclusive bounds, `advanced` puts it in the
    folded part of a form.
    """
    return Field(
        default,
        description=says,
        title=title,
        ge=least,
        gt=above,
        le=most,
        json_schema_extra={"unit": unit, "advanced": advanced},
    )


_SPELLED = {
    word.lower(): word
    for word in (
        "FFN", "GEMM", "GPU", "GPUs", "KV", "L2", "LoRA", "MLA", "MLP", "MoE", "NICs", "NoPE", "QK", "QKV", "RoPE", "TDP",
        "TFLOPS", "TP",
    )
}
"""Words of keys that are not written in small letters."""

_UNIT_ENDINGS = ("_tb_s", "_gb_s", "_gib", "_mib", "_mhz", "_us", "_w")
"""Ends of keys that state the unit, which is shown beside the value instead."""


def field_title(name: str, field: FieldInfo) -> str:
    """Label of a field: its own title, or one made from its key."""
    if field.title:
        return field.title
    extra = field.json_schema_extra
    if isinstance(extra, dict) and extra.get("unit"):
        name = next((name.removesuffix(ending) for ending in _UNIT_ENDINGS if name.endswith(ending)), name)
    title = " ".join(_SPELLED.get(word, word) for word in name.split("_"))
    return title[:1].upper() + title[1:] if title.split(" ", 1)[0].isalpha() else title
