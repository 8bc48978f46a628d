"""One table of colors for everything that is drawn: passes, memory components, parts of the step.

Eight hues that stay apart for the color-blind and show on both grounds, after the idea of Okabe and Ito's palette
(Color Universal Design, 2008); `tests/primus_studio/test_theme.py` holds the distances. Color is never the only sign: blocks carry
numbers, bars carry labels, rows carry words.
"""

from __future__ import annotations

from enum import StrEnum

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

DEEPEST_SHADE = 0.55
"""How far the last chunk's color may go towards the ground; its hue must still be told."""


def mark(hue: Hue, scheme: Scheme) -> str:
    """Color of a hue."""
    return HUES[scheme][hue]


def shade(color: str, index: int, count: int, scheme: Scheme) -> str:
    """The `index`-th of `count` shades of a color, from itself towards the panel's ground."""
    if count < 2:
        return color
    return mixed(color, TOKENS[scheme].panel, DEEPEST_SHADE * index / (count - 1))


def step_color(key: str, axes: tuple[str, ...], scheme: Scheme) -> str:
    """Color of a part of the step by its key; `axes` are the keys of exposed communication, told apart by shade."""
    color = mark(STEP_HUES[key.split(".")[0]], scheme)
    return shade(color, axes.index(key), len(axes), scheme) if key in axes else color
