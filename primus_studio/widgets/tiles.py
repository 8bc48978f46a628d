"""Tiles: one figure each, with what it is and what it rests on."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFocusEvent, QFontMetricsF, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from primus_studio.theme import tokens
from primus_studio.theme.fonts import Size, sized
from primus_studio.theme.icons import draw_icon
from primus_studio.theme.tokens import RADIUS, SPACE
from primus_studio.widgets.draw import draw_elided, focus_ring

TILE_LEAST = 128
"""Least width of a tile in device-independent pixels."""

ICON_SIDE = 20


@dataclass(frozen=True, slots=True)
class Tile:
    """What a tile says. `role` is the token of the figure's color; `says` explains the figure in its tooltip."""

    caption: str
    figure: str
    note: str = ""
    says: str = ""
    icon: str | None = None
    role: str = "text"


class _Explained(QWidget):
    """Shows its tooltip when the tab key reaches it: what the pointer can read, the keyboard can."""

    def __init__(self, parent: QWidget | None) -> None:
        super().__init__(parent)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        if event.reason() in (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason):
            QToolTip.showText(self.mapToGlobal(self.rect().bottomLeft()), self.toolTip(), self)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        QToolTip.hideText()
        self.update()


class TileView(_Explained):
    """Draws one `Tile`; what does not fit is shortened and stands in the tooltip."""

    def __init__(self, tile: Tile, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._small, self._figure = sized(self.font(), Size.SMALL), sized(self.font(), Size.FIGURE, bold=True)
        self.show_tile(tile)

    def show_tile(self, tile: Tile) -> None:
        """Draw another tile."""
        self.tile = tile
        self.setAccessibleName(f"{tile.caption}: {tile.figure}" + (f", {tile.note}" if tile.note else ""))
        self.setAccessibleDescription(tile.says)
        self.setToolTip("\n".join(part for part in (self.accessibleName(), tile.says) if part))
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        small, figure = QFontMetricsF(self._small), QFontMetricsF(self._figure)
        tile = self.tile
        icon = ICON_SIDE + SPACE / 2 if tile.icon else 0
        width = max(icon + figure.horizontalAdvance(tile.figure), small.horizontalAdvance(tile.caption))  # a note may be cut
        return QSize(max(TILE_LEAST, int(width) + 2 * SPACE + 4), int(2 * small.height() + figure.height()) + 2 * SPACE)

    def minimumSizeHint(self) -> QSize:
        return QSize(TILE_LEAST, self.sizeHint().height())

    def paintEvent(self, _event: QPaintEvent) -> None:
        colors, tile = tokens(), self.tile
        small, figure = QFontMetricsF(self._small), QFontMetricsF(self._figure)
        area = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(QPen(QColor(colors.line), 1))
            painter.setBrush(QColor(colors.raised))
            painter.drawRoundedRect(area, RADIUS, RADIUS)
            inner = area.adjusted(SPACE, SPACE - 1, -SPACE, 1 - SPACE)
            painter.setFont(self._small)
            painter.setPen(QColor(colors.muted))
            draw_elided(painter, QRectF(inner.left(), inner.top(), inner.width(), small.height()), tile.caption)
            draw_elided(painter, QRectF(inner.left(), inner.bottom() - small.height(), inner.width(), small.height()), tile.note)
            middle = QRectF(inner.left(), inner.top() + small.height(), inner.width(), figure.height())
            if tile.icon:
                square = QRectF(middle.left(), middle.center().y() - ICON_SIDE / 2, ICON_SIDE, ICON_SIDE)
                draw_icon(painter, tile.icon, square, getattr(colors, tile.role))
                middle.setLeft(square.right() + SPACE / 2)
            painter.setFont(self._figure)
            painter.setPen(QColor(getattr(colors, tile.role)))
            draw_elided(painter, middle, tile.figure)
            if self.hasFocus():
                focus_ring(painter, area.adjusted(1, 1, -1, -1), colors.accent)


class Badge(_Explained):
    """A word in a rounded outline, such as where a number comes from."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._words, self._role = "", "muted"
        self._small = sized(self.font(), Size.SMALL)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def say(self, words: str, role: str, says: str) -> None:
        """Show words in a token's color; `says` is the tooltip."""
        self._words, self._role = words, role
        self.setToolTip(says)
        self.setAccessibleName(words)
        self.setAccessibleDescription(says)
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        metrics = QFontMetricsF(self._small)
        return QSize(int(metrics.horizontalAdvance(self._words)) + 2 * SPACE + 2, int(metrics.height()) + SPACE // 2)

    def paintEvent(self, _event: QPaintEvent) -> None:
        color = QColor(getattr(tokens(), self._role))
        area = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            focused = self.hasFocus()
            painter.setPen(QPen(QColor(tokens().accent), 2) if focused else QPen(color, 1))
            painter.drawRoundedRect(area, area.height() / 2, area.height() / 2)
            painter.setPen(color)
            painter.setFont(self._small)
            draw_elided(painter, area, self._words, align=Qt.AlignmentFlag.AlignHCenter)
