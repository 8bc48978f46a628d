"""How well one color shows on another, and how colors look to color-blind eyes.

Colors are "#rrggbb" in sRGB.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

TEXT_CONTRAST = 4.5
"""Least contrast of text on its ground (WCAG 2.2, 1.4.3 level AA)."""

MARK_CONTRAST = 3.0
"""Least contrast of a mark, a focus ring or a control's edge on its ground (WCAG 2.2, 1.4.11 level AA)."""

INK_DARK, INK_LIGHT = "#000000", "#ffffff"
"""Of these two, one always reaches 4.58:1: the best that any color leaves."""

COLOR_BLINDNESS: dict[str, NDArray[np.float64]] = {
    "protanopia": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
    "tritanopia": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
}
"""Linear RGB -> what is seen at full severity (Machado, Oliveira, Fernandes 2009, table of severity 1.0)."""

_LINEAR_TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
"""IEC 61966-2-1, white D65."""


def linear(color: str) -> NDArray[np.float64]:
    """Linear red, green and blue, each 0 to 1."""
    coded = np.array([int(color[start : start + 2], 16) for start in (1, 3, 5)]) / 255
    return np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)


def luminance(color: str) -> float:
    """Relative luminance, 0 to 1."""
    return float(_LINEAR_TO_XYZ[1] @ linear(color))


def contrast(one: str, other: str) -> float:
    """Contrast ratio, 1 to 21 (WCAG 2.2)."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@lru_cache(maxsize=4096)
def ink_on(ground: str) -> str:
    """The more readable of dark and light ink on a ground."""
    return max((INK_DARK, INK_LIGHT), key=lambda ink: contrast(ink, ground))


def difference(one: str, other: str, blindness: str | None = None) -> float:
    """Distance in CIELAB (CIE76), as seen with a color blindness of `COLOR_BLINDNESS` or without one."""
    return float(np.linalg.norm(_lab(one, blindness) - _lab(other, blindness)))


def _lab(color: str, blindness: str | None) -> NDArray[np.float64]:
    seen = linear(color)
    if blindness is not None:
        seen = np.clip(COLOR_BLINDNESS[blindness] @ seen, 0, 1)
    x, y, z = np.cbrt(np.maximum(_LINEAR_TO_XYZ @ seen / _LINEAR_TO_XYZ.sum(axis=1), 0.008856))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])
