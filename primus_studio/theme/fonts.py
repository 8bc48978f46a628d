"""Sizes of type as steps from the application's font, and figures of equal width."""

from __future__ import annotations

from enum import Enum

from PySide6.QtGui import QFont


class Size(float, Enum):
    """Ratio to the application's font size."""

    SMALL = 0.88
    BODY = 1.0
    TITLE = 1.15
    FIGURE = 1.7


def sized(base: QFont, size: Size, *, bold: bool = False) -> QFont:
    """`base` in a size of the scale, with figures of equal width so that changing numbers do not jump."""
    font = QFont(base)
    if base.pointSizeF() > 0:
        font.setPointSizeF(base.pointSizeF() * size)
    else:
        font.setPixelSize(max(1, round(base.pixelSize() * size)))
    font.setWeight(QFont.Weight.DemiBold if bold else QFont.Weight.Normal)
    font.setFeature(QFont.Tag("tnum"), 1)
    return font
