"""One line of a form: label, control, and under them what is wrong with the value, with a click that mends it."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, QRectF, Qt
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QCheckBox,
    QComboBox,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QSizePolicy,
    QToolButton,
    QWidget,
)

from primus_studio.theme import tokens
from primus_studio.theme.fonts import Size, sized
from primus_studio.theme.tokens import SPACE
from primus_studio.widgets.announce import announce
from primus_studio.widgets.form_controls import AnyControl, described
from primus_studio.widgets.form_fields import FormField
from primus_studio.widgets.labels import ElidedLabel, Glyph

MARK_WIDTH = 1.5
"""Of the edge of a control that is illegal or has the keyboard, in device-independent pixels."""

CORNER = 3
"""Radius of a control's edge."""

GLYPH_SIDE = 14

MOST_REASONS = 2
"""Reasons written out under a field; the tooltip has all."""


class FieldLabel(ElidedLabel):
    """The label of a control: a click on it goes there; its tooltip explains the field."""

    def __init__(self, field: FormField, control: QWidget, parent: QWidget | None = None) -> None:
        self._says = described(field)
        super().__init__(field.title, least=8, parent=parent)
        self.setBuddy(control)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        control = self.buddy()
        control.setFocus(Qt.FocusReason.MouseFocusReason)
        if isinstance(control, QCheckBox) and event.button() is Qt.MouseButton.LeftButton:
            control.click()

    def _hint(self) -> None:
        self.setToolTip(f"{self.text()}\n{self._says}")


class Outline(QWidget):
    """Holds a control and draws its edge: red while its value is illegal, in the accent color with the keyboard's focus."""

    def __init__(self, control: QWidget, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._marked = False
        self._control = control
        self._edged = isinstance(control, (QAbstractSpinBox, QLineEdit, QComboBox))
        control.installEventFilter(self)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(1, 1, 1, 1)
        layout.addWidget(control)
        if control.sizePolicy().horizontalPolicy() is not QSizePolicy.Policy.Expanding and isinstance(control, QCheckBox):
            layout.addStretch(1)
        else:
            control.setSizePolicy(QSizePolicy.Policy.Expanding, control.sizePolicy().verticalPolicy())

    def mark(self, marked: bool) -> None:
        """Draw the line, or not."""
        if marked != self._marked:
            self._marked = marked
            self.update()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.FocusIn, QEvent.Type.FocusOut, QEvent.Type.EnabledChange):
            self.update()
        return super().eventFilter(watched, event)

    def paintEvent(self, _event: QPaintEvent) -> None:
        if not self._marked and not self._edged:
            return
        colors, focused = tokens(), self._control.hasFocus()
        color = colors.bad if self._marked else colors.accent if focused else colors.edge
        if not self._control.isEnabled() and not self._marked:
            color = colors.line
        width = MARK_WIDTH if self._marked or focused else 1.0
        inset = width / 2
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(QPen(QColor(color), width))
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(inset, inset, -inset, -inset), CORNER, CORNER)


class Reason(QWidget):
    """Icon, words that wrap, and a button that puts the nearest legal value."""

    def __init__(self, title: str, mend: Callable[[object], None], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._title, self._nearest = title, None  # type: str, object
        self.glyph = Glyph("warning", "bad", GLYPH_SIDE, self)
        self.words = QLabel(self, wordWrap=True, textFormat=Qt.TextFormat.PlainText)
        self.words.setObjectName("reason")
        self.words.setFont(sized(self.font(), Size.SMALL))
        policy = QSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)  # the form's width rules
        policy.setHeightForWidth(True)
        self.words.setSizePolicy(policy)
        self.button = QToolButton(self)
        self.button.setObjectName("mend")
        self.button.setFont(sized(self.font(), Size.SMALL))
        self.button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.button.setAccessibleName(f"Mend {title}")
        self.button.clicked.connect(lambda: mend(self._nearest))
        layout = QHBoxLayout(self)
        layout.setContentsMargins(2, 0, 2, SPACE // 2)
        layout.setSpacing(SPACE // 2)
        layout.addWidget(self.glyph, 0, Qt.AlignmentFlag.AlignTop)
        layout.addWidget(self.words, 1)
        layout.addWidget(self.button, 0, Qt.AlignmentFlag.AlignTop)
        self.hide()

    def say(self, words: str, nearest: object | None) -> None:
        """Show the words, and a button where a nearest legal value is known; nothing for no words."""
        if words and words != self.words.toolTip():
            announce(self, f"{self._title}: {words}")
        self._nearest = nearest
        lines = words.splitlines()
        more = f"\nand {len(lines) - MOST_REASONS} more" if len(lines) > MOST_REASONS else ""
        self.words.setText("\n".join(lines[:MOST_REASONS]) + more)
        self.words.setToolTip(words)
        self.button.setVisible(nearest is not None)
        shown = f"{nearest:,}" if isinstance(nearest, int) and not isinstance(nearest, bool) else str(nearest)
        self.button.setText(f"Use {shown}")
        self.button.setToolTip(f"Set {self._title} to {shown}, the nearest legal value")
        self.button.setAccessibleName(f"Set {self._title} to {shown}")
        self.setVisible(bool(words))


class Row:
    """The widgets of one field."""

    def __init__(self, field: FormField, control: AnyControl, mend: Callable[[object], None]) -> None:
        self.field, self.control = field, control
        self.label = FieldLabel(field, control)
        self.outline = Outline(control)
        self.reason = Reason(field.title, mend)
        self._said: tuple[str, object | None] = ("", None)

    def say(self, words: str, nearest: object | None = None) -> None:
        """Mark the value and say why; no words take the mark away."""
        if (words, nearest) == self._said:
            return
        self._said = words, nearest
        self.outline.mark(bool(words))
        self.reason.say(words, nearest)
        self.control.setAccessibleDescription(f"{words}. {described(self.field)}" if words else described(self.field))

    def explain(self, source: str) -> None:
        """Add where the figure comes from to the tooltip."""
        self.control.setToolTip(f"{described(self.field)}\nSource: {source}" if source else described(self.field))
