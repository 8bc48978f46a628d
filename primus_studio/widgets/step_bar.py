"""The step as one stacked bar."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFocusEvent, QFontMetricsF, QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from primus_studio.theme import tokens
from primus_studio.theme.contrast import ink_on
from primus_studio.theme.fonts import Size, sized
from primus_studio.theme.tokens import SPACE, mixed
from primus_studio.widgets.announce import announce
from primus_studio.widgets.cards import Card, HoverCard
from primus_studio.widgets.draw import focus_ring, hatch
from primus_studio.widgets.step_words import Part, part_color, parts, step_table
from projectors.results import StepBreakdown
from projectors.text import percent_text

BAR_HEIGHT = 28
"""In device-independent pixels."""


class StepBar(QWidget):
    """All parts of a step from left to right. Left and right walk through them."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Where the step's time goes")
        self._parts: tuple[Part, ...] = ()
        self._seconds = 0.0
        self._focused: str | None = None
        self._card = HoverCard(self)
        self._small = sized(self.font(), Size.SMALL)

    def show_step(self, step: StepBreakdown) -> None:
        """Draw another breakdown."""
        self._parts, _ = parts(step)
        self._seconds = step.seconds
        self.setAccessibleDescription(step_table(step))
        self._card.dismiss()
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(240, BAR_HEIGHT)

    def rect_of(self, part: Part) -> QRectF:
        """Where a part is drawn."""
        scale = self.width() / self._seconds
        return QRectF(part.begin * scale, 0, part.seconds * scale, self.height())

    def part_at(self, place: QPoint) -> Part | None:
        """The part under a place."""
        return next((part for part in self._parts if self.rect_of(part).contains(QPointF(place))), None)

    def paintEvent(self, _event: QPaintEvent) -> None:
        colors = tokens()
        metrics = QFontMetricsF(self._small)
        with QPainter(self) as painter:
            painter.setFont(self._small)
            for part in self._parts:
                area, color = self.rect_of(part), part_color(part, self._parts, colors.scheme)
                painter.fillRect(area.adjusted(0, 0, -1 if area.width() > 3 else 0, 0), QColor(color))
                if part.key == "bubble":
                    hatch(painter, area, mixed(color, colors.panel, 0.5))
                words = next(
                    (text for text in (f"{part.label} {percent_text(part.share)}", percent_text(part.share))
                     if metrics.horizontalAdvance(text) + SPACE <= area.width()), None,
                )  # fmt: skip
                if words is not None and part.key != "bubble":
                    painter.setPen(QColor(ink_on(color)))
                    painter.drawText(
                        QPointF(area.left() + SPACE / 2, area.center().y() + (metrics.ascent() - metrics.descent()) / 2), words
                    )
            focused = self._focused_part()
            if self.hasFocus() and focused is not None:
                focus_ring(painter, self.rect_of(focused).adjusted(1, 1, -1, -1), colors.accent)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        part = self.part_at(event.position().toPoint())
        if part is None:
            self._card.dismiss()
        else:
            self._explain(part)

    def leaveEvent(self, _event: object) -> None:
        self._card.dismiss()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()))
        if event.key() == Qt.Key.Key_Escape and self._card.isVisible():
            self._card.dismiss()
        elif step is not None and self._parts:
            now = self._focused_part()
            at = self._parts.index(now) + step if now in self._parts else 0
            part = self._parts[max(0, min(len(self._parts) - 1, at))]
            self._focused = part.key
            announce(self, self._explain(part).words)
            self.update()
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        if self._focused_part() is None and self._parts:
            self._focused = self._parts[0].key
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._card.dismiss()
        self.update()

    def _focused_part(self) -> Part | None:
        return next((part for part in self._parts if part.key == self._focused), None)

    def _explain(self, part: Part) -> Card:
        area = self.rect_of(part).toRect()
        card = part.card
        self._card.show_card(card, QRect(self.mapToGlobal(area.topLeft()), area.size()))
        return card
