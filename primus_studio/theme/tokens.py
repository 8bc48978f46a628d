"""The window's colors as roles: one table for dark, one for light. No Qt here; colors are "#rrggbb"."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

SPACE = 8
"""Grid of the layout in device-independent pixels: margins and gaps are multiples or halves of it."""

RADIUS = 6
"""Corner radius of cards in device-independent pixels."""


class Scheme(StrEnum):
    DARK = "dark"
    LIGHT = "light"


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a color is for. Text roles reach 4.5:1 on window, panel and raised; marks reach 3:1 (`tests/.../test_theme.py`)."""

    scheme: Scheme
    window: str  # behind everything
    panel: str  # ground of panels, tables and drawings
    raised: str  # cards, headers, fields' buttons
    field: str  # ground of inputs
    line: str  # hairlines, decoration only
    edge: str  # edges of controls that must be seen
    text: str
    muted: str  # second-rank text
    accent: str  # links, focus, progress
    on_accent: str  # text on accent
    ok: str
    warn: str
    bad: str
    selection: str
    on_selection: str
    hover: str


DARK = Tokens(
    scheme=Scheme.DARK,
    window="#101318",
    panel="#171b21",
    raised="#1f252d",
    field="#11151a",
    line="#2c343e",
    edge="#6d7885",
    text="#e7ebf0",
    muted="#9aa5b1",
    accent="#6aacff",
    on_accent="#0b1520",
    ok="#4fcf97",
    warn="#f0bd55",
    bad="#ff7d72",
    selection="#214b80",
    on_selection="#ffffff",
    hover="#262e38",
)

LIGHT = Tokens(
    scheme=Scheme.LIGHT,
    window="#e9ecf0",
    panel="#fbfcfd",
    raised="#f0f3f6",
    field="#ffffff",
    line="#d3d9e0",
    edge="#818b97",
    text="#18202a",
    muted="#566270",
    accent="#0a60c2",
    on_accent="#ffffff",
    ok="#0f7046",
    warn="#835200",
    bad="#ba241b",
    selection="#c9e0fb",
    on_selection="#0c2947",
    hover="#e4e9ef",
)

TOKENS: dict[Scheme, Tokens] = {Scheme.DARK: DARK, Scheme.LIGHT: LIGHT}


@lru_cache(maxsize=4096)
def mixed(one: str, other: str, share: float) -> str:
    """`one` with `share` (0 to 1) of `other` in it, mixed as the screen codes them."""
    pairs = ((int(one[at : at + 2], 16), int(other[at : at + 2], 16)) for at in (1, 3, 5))
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)
