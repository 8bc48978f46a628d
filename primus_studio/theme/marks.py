"""One table of colors for everything that is drawn: passes, memory components, parts of the step.

Eight hues that stay apart for the color-blind and show on both grounds, after the idea of Okabe and Ito's palette
(Color Universal Design, 2008); `tests/primus_studio/test_theme.py` holds the distances. Color is never the only sign: blocks
carry numbers, bars carry labels, rows carry words.
"""

from __future__ import annotations

from enum import StrEnum

from primus_studio.theme.contrast import contrast
from primus_studio.theme.tokens import TOKENS, Scheme, mixed
from projectors.pipeline.timeline import PassKind
from projectors.results import MemoryComponent


class Hue(StrEnum):
    BLUE = "blue"
    SKY = "sky"
    GREEN = "green"
    YELLOW = "yellow"
    ORANGE = "orange"
    VERMILION = "vermilion"
    PURPLE = "purple"
    GREY = "grey"


HUES: dict[Scheme, dict[Hue, str]] = {
    Scheme.DARK: {
        Hue.BLUE: "#4c86ea",
        Hue.SKY: "#a9def5",
        Hue.GREEN: "#2cc493",
        Hue.YELLOW: "#ecd95f",
        Hue.ORANGE: "#ea954f",
        Hue.VERMILION: "#e54434",
        Hue.PURPLE: "#cb62c4",
        Hue.GREY: "#7b828c",
    },
    Scheme.LIGHT: {
        Hue.BLUE: "#1d4a9e",
        Hue.SKY: "#2592dc",
        Hue.GREEN: "#17735a",
        Hue.YELLOW: "#a88d0f",
        Hue.ORANGE: "#c96a35",
        Hue.VERMILION: "#96191f",
        Hue.PURPLE: "#a04aa6",
        Hue.GREY: "#7d8794",
    },
}

FORWARD, BACKWARD, WEIGHT_GRADIENT = Hue.BLUE, Hue.ORANGE, Hue.GREEN
RECOMPUTE, COMMUNICATION, OPTIMIZER, IDLE, OTHER = Hue.PURPLE, Hue.VERMILION, Hue.YELLOW, Hue.GREY, Hue.SKY

PASS_HUES: dict[PassKind, Hue] = {
    PassKind.FORWARD: FORWARD,
    PassKind.BACKWARD: BACKWARD,
    PassKind.INPUT_GRADIENT: BACKWARD,
    PassKind.WEIGHT_GRADIENT: WEIGHT_GRADIENT,
}

MEMORY_HUES: dict[MemoryComponent, Hue] = {
    MemoryComponent.PARAMETERS: Hue.BLUE,
    MemoryComponent.GRADIENTS: Hue.SKY,
    MemoryComponent.OPTIMIZER: Hue.GREEN,
    MemoryComponent.ACTIVATIONS: Hue.ORANGE,
    MemoryComponent.LOGITS: Hue.YELLOW,
    MemoryComponent.COMMUNICATION_BUFFERS: Hue.PURPLE,
    MemoryComponent.TEMPORARY: Hue.VERMILION,
    MemoryComponent.FRAMEWORK: Hue.GREY,
}

STEP_HUES: dict[str, Hue] = {
    "compute": FORWARD,
    "recompute": RECOMPUTE,
    "exposed": COMMUNICATION,  # each axis of it by shade
    "bubble": IDLE,
    "optimizer": OPTIMIZER,
    "other": OTHER,
}

LAST_SHADE = 0.38
"""How far the last shade of a color goes towards white or black; its hue must still be told."""

SHADED_DARKER_BELOW = 6.0
"""On the light ground, colors of less contrast than this are shaded towards black, so that every shade still shows."""


IDLE_FADE = 0.68
"""How far the idle ground of a lane goes from its hue towards the panel's ground: there, but quieter than any pass."""


def idle_color(scheme: Scheme) -> str:
    """Ground of a lane where its rank waits."""
    return mixed(HUES[scheme][IDLE], TOKENS[scheme].panel, IDLE_FADE)


def mark(hue: Hue, scheme: Scheme) -> str:
    """Color of a hue."""
    return HUES[scheme][hue]


def shade(color: str, index: int, count: int, scheme: Scheme) -> str:
    """The `index`-th of `count` shades of a color, the first being itself: model chunks, axes of communication."""
    if count < 2:
        return color
    darker = scheme is Scheme.LIGHT and contrast(color, TOKENS[scheme].panel) < SHADED_DARKER_BELOW
    return mixed(color, "#000000" if darker else "#ffffff", LAST_SHADE * index / (count - 1))


def step_color(key: str, axes: tuple[str, ...], scheme: Scheme) -> str:
    """Color of a part of the step by its key; `axes` are the keys of exposed communication, told apart by shade."""
    color = mark(STEP_HUES[key.split(".", maxsplit=1)[0]], scheme)
    return shade(color, axes.index(key), len(axes), scheme) if key in axes else color
