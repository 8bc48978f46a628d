"""Labels: one that shortens what does not fit, one that draws an icon in a role's color."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

from primus_studio.theme import tokens
from primus_studio.theme.fonts import Size, sized
from primus_studio.theme.icons import draw_icon
from primus_studio.widgets.draw import draw_elided


class ElidedLabel(QLabel):
    """One line of text; what does not fit is shortened with an ellipsis and stands in the tooltip.

    `role` names the token of its color; `least` is the number of characters that always keep their room.
    """

    def __init__(
        self,
        text: str = "",
        *,
        size: Size = Size.BODY,
        bold: bool = False,
        role: str = "text",
        least: int = 4,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setFont(sized(self.font(), size, bold=bold))
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self._role, self._least = role, least
        self.setText(text)

    def setText(self, text: str) -> None:
        super().setText(text)
        self.setAccessibleName(text)
        self._hint()
        self.updateGeometry()

    def set_role(self, role: str) -> None:
        """Change the token of the color."""
        self._role = role
        self.update()

    def sizeHint(self) -> QSize:
        metrics = QFontMetricsF(self.font())
        return QSize(int(metrics.horizontalAdvance(self.text())) + 2, int(metrics.height()) + 2)

    def minimumSizeHint(self) -> QSize:
        hint = self.sizeHint()
        room = int(QFontMetricsF(self.font()).averageCharWidth() * self._least) + 2
        return QSize(min(hint.width(), room), hint.height())

    def resizeEvent(self, event: object) -> None:
        self._hint()

    def _hint(self) -> None:
        self.setToolTip(self.text() if self.width() < self.sizeHint().width() - 1 else "")

    def paintEvent(self, _event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.setFont(self.font())
            painter.setPen(getattr(tokens(), self._role))
            right = bool(self.alignment() & Qt.AlignmentFlag.AlignRight)
            draw_elided(
                painter,
                QRectF(self.rect()),
                self.text(),
                align=Qt.AlignmentFlag.AlignRight if right else Qt.AlignmentFlag.AlignLeft,
            )


class Glyph(QWidget):
    """An icon in the color of a token. The words beside it say the same, so screen readers skip it."""

    def __init__(self, name: str, role: str = "text", side: int = 18, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedSize(side, side)
        self._name, self._role = name, role

    def show_icon(self, name: str, role: str) -> None:
        """Change the icon and the token of its color."""
        if (name, role) != (self._name, self._role):
            self._name, self._role = name, role
            self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            draw_icon(painter, self._name, QRectF(self.rect()), getattr(tokens(), self._role))
