"""Strokes that several drawings share."""

from __future__ import annotations

from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen

HATCH_SPACING = 6.0
"""Distance of hatch lines along x, in device-independent pixels."""


def hatch(painter: QPainter, rect: QRectF, color: str, spacing: float = HATCH_SPACING, width: float = 1.2) -> None:
    """Fill `rect` with diagonal lines. Lines continue across neighboring rects: their phase hangs on the origin."""
    if rect.width() <= 0 or rect.height() <= 0:
        return
    painter.save()
    painter.setClipRect(rect, Qt.ClipOperation.IntersectClip)
    painter.setPen(QPen(QColor(color), width))
    first = int((rect.left() + rect.top()) // spacing)
    last = int((rect.right() + rect.bottom()) // spacing) + 1
    painter.drawLines(
        [
            QLineF(number * spacing - rect.top(), rect.top(), number * spacing - rect.bottom(), rect.bottom())
            for number in range(first, last + 1)
        ]
    )
    painter.restore()


def focus_ring(painter: QPainter, rect: QRectF, color: str) -> None:
    """Two-pixel frame around what has the keyboard."""
    painter.setPen(QPen(QColor(color), 2))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawRect(rect)


def draw_elided(painter: QPainter, rect: QRectF, text: str, *, align: Qt.AlignmentFlag = Qt.AlignmentFlag.AlignLeft) -> None:
    """One line of text in the painter's font, shortened at its end to the width of `rect`, centered vertically."""
    metrics = QFontMetricsF(painter.font())
    shown = metrics.elidedText(text, Qt.TextElideMode.ElideRight, rect.width())
    width = metrics.horizontalAdvance(shown)
    left = (
        rect.left()
        if align is Qt.AlignmentFlag.AlignLeft
        else rect.right() - width
        if align is Qt.AlignmentFlag.AlignRight
        else rect.center().x() - width / 2
    )
    painter.drawText(QPointF(left, rect.center().y() + (metrics.ascent() - metrics.descent()) / 2), shown)
