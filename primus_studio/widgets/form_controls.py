"""One control per kind of field. Each shows a value, says what the user made of it, and judges nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from PySide6.QtCore import QRectF, Qt, Signal, SignalInstance
from PySide6.QtGui import QColor, QKeyEvent, QPainter, QPaintEvent, QPen, QWheelEvent
from PySide6.QtWidgets import QCheckBox, QComboBox, QGridLayout, QLineEdit, QSizePolicy, QStyle, QStyleOptionButton, QWidget

from primus_studio.theme import tokens
from primus_studio.theme.tokens import SPACE
from primus_studio.widgets.form_fields import FormField, Kind, plain
from primus_studio.widgets.form_number import LegalValues, NumberBox

FOCUS_WIDTH = 1.5
"""Of the edge of the control that has the keyboard, in device-independent pixels."""

ON, OFF, AUTO = "on", "off", "auto"

FRAMELESS_MARGIN = 4
"""Left and right of text whose edge is drawn by the row, in device-independent pixels."""

CONTROL_MARGIN = 10
"""Height of every control over that of its text, in device-independent pixels."""

SHOWN_CHARACTERS = 5
"""Width that a choice always has; longer words are seen in the list."""


class Control(Protocol):
    """What all controls share; each is a QWidget too."""

    edited: SignalInstance  # plain data

    def show_value(self, value: Any) -> None:
        """Show a value of the model without emitting `edited`."""


class CheckBox(QCheckBox):
    """A check box whose edge is seen on every ground, in the accent color with the keyboard's focus."""

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        option = QStyleOptionButton()
        self.initStyleOption(option)
        square = self.style().subElementRect(QStyle.SubElement.SE_CheckBoxIndicator, option, self)
        colors = tokens()
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            edge = colors.accent if self.hasFocus() else colors.edge if self.isEnabled() else colors.line
            painter.setPen(QPen(QColor(edge), FOCUS_WIDTH if self.hasFocus() else 1))
            painter.drawRoundedRect(QRectF(square).adjusted(0.5, 0.5, -0.5, -0.5), 2, 2)


class SwitchBox(CheckBox):
    """True or false."""

    edited = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.clicked.connect(lambda: self.edited.emit(self.isChecked()))

    def show_value(self, value: Any) -> None:
        """Show true or false."""
        self.setChecked(bool(value))


class ChoiceBox(QComboBox):
    """One of some values, each with its words. The wheel changes nothing unless the box has the keyboard."""

    edited = Signal(object)

    def __init__(self, values: Sequence[Any], words: Sequence[str], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._values = list(values)
        self.addItems(list(words))
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(SHOWN_CHARACTERS)
        self._value: Any = None
        self.activated.connect(self._choose)

    def show_value(self, value: Any) -> None:
        """Show one of the values."""
        self._value = plain(value)
        self.setCurrentIndex(self._values.index(self._value))

    def _choose(self, index: int) -> None:
        if self._values[index] != self._value:
            self.edited.emit(self._values[index])

    def wheelEvent(self, event: QWheelEvent) -> None:
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()


class ChoicesBox(QWidget):
    """Any of some words: check boxes in two columns."""

    edited = Signal(object)

    def __init__(self, field: FormField, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        layout = QGridLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setHorizontalSpacing(SPACE)
        layout.setVerticalSpacing(SPACE // 2)
        self.boxes: dict[str, CheckBox] = {}
        for place, word in enumerate(field.choices):
            box = CheckBox(word.replace("_", " "), self)
            box.setAccessibleName(f"{field.title}: {box.text()}")
            box.setToolTip(field.says)
            box.clicked.connect(self._tell)
            layout.addWidget(box, *divmod(place, 2))
            self.boxes[word] = box
        self.setFocusProxy(next(iter(self.boxes.values())))

    def show_value(self, value: Any) -> None:
        """Check the words of the value."""
        words = plain(value)
        for word, box in self.boxes.items():
            box.setChecked(word in words)

    def _tell(self) -> None:
        self.edited.emit([word for word, box in self.boxes.items() if box.isChecked()])


class TextBox(QLineEdit):
    """Text, or a list of whole numbers with commas; `edited` on Enter or when the keyboard leaves."""

    edited = Signal(object)

    def __init__(self, field: FormField, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._field = field
        self._shown = ""
        self._offered = False  # an edit was announced that has not been taken: typing the old text back is news too
        self.setFrame(False)
        self.setTextMargins(FRAMELESS_MARGIN, 0, FRAMELESS_MARGIN, 0)
        self.setPlaceholderText(field.null or "")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.editingFinished.connect(self._commit)

    def show_value(self, value: Any) -> None:
        """Show text, or numbers with commas."""
        data, self._offered = plain(value), False
        self._shown = "" if data is None else ", ".join(str(item) for item in data) if isinstance(data, list) else str(data)
        if self.text() != self._shown:
            self.setText(self._shown)
            self.setCursorPosition(0)

    def read(self) -> Any:
        """Plain data of what stands in the box; text that should be numbers and is not stays text."""
        text = self.text().strip()
        if text == "" and self._field.null is not None:
            return None
        if self._field.kind is Kind.TEXT:
            return text
        words = text.replace(",", " ").split()
        try:
            return [int(word) for word in words]
        except ValueError:
            return text

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape and self.text() != self._shown:
            self.setText(self._shown)
            self._commit()
            return
        super().keyPressEvent(event)

    def _commit(self) -> None:
        if self.text() != self._shown or self._offered:
            self._offered = True
            self.edited.emit(self.read())


AnyControl = NumberBox | SwitchBox | ChoiceBox | ChoicesBox | TextBox


def control_for(field: FormField, legal: LegalValues) -> AnyControl:
    """The control that edits a field, named and described for assistive technology."""
    control = _made(field, legal)
    control.setObjectName(field.path)
    control.setAccessibleName(field.title)
    control.setAccessibleDescription(described(field))
    control.setToolTip(described(field))
    if not isinstance(control, ChoicesBox):
        control.setFixedHeight(control.fontMetrics().height() + CONTROL_MARGIN)
    if isinstance(control, NumberBox):
        control.lineEdit().setAccessibleName(field.title)
    if isinstance(control, ChoiceBox):
        control.view().setAccessibleName(field.title)
    return control


def described(field: FormField) -> str:
    """What a field is, with its unit and key."""
    unit = f" ({field.unit})" if field.unit else ""
    return f"{field.says}{unit}\n{field.path}"


def _made(field: FormField, legal: LegalValues) -> AnyControl:
    if field.kind in (Kind.WHOLE, Kind.NUMBER):
        return NumberBox(field, legal)
    if field.kind is Kind.SWITCH and field.null is not None:
        return ChoiceBox([None, True, False], [AUTO, ON, OFF])
    if field.kind is Kind.SWITCH:
        return SwitchBox()
    if field.kind is Kind.CHOICE:
        return ChoiceBox(field.choices, field.choices)
    if field.kind is Kind.CHOICES:
        return ChoicesBox(field)
    return TextBox(field)
