"""A box for one number: steps through legal values, takes whatever is typed, and leaves the judging to others."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Any

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QFocusEvent, QFontMetrics, QKeyEvent, QValidator, QWheelEvent
from PySide6.QtWidgets import QAbstractSpinBox, QWidget

from primus_studio.widgets.form_fields import FormField, Kind

LegalValues = Callable[[str], Sequence[int] | None]
"""Legal values of a field, by its path, in ascending order; None where they are not a list."""

MOST_TYPED = 64
"""Characters that can be typed: far more than a number needs."""

LEFT_MARGIN = 3
"""Beside the figures, in device-independent pixels."""

ROOM, LEAST_ROOM = "0,000,000", "00,000"
"""What fits where there is room, and what always does."""

FINE_BELOW, PARTS = 128, 16
"""Whole numbers below the first step by 1, larger ones by the power of two below a sixteenth of themselves."""


class NumberBox(QAbstractSpinBox):
    """A number with its unit. Emits `edited` with a number, None, or the text typed where that is no number."""

    edited = Signal(object)

    def __init__(self, field: FormField, legal: LegalValues, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._field, self._legal = field, legal
        self._value: float | None = None
        self._offered = False  # an edit was announced that has not been taken: typing the old value back is news too
        self._shown = ""
        self.setAccelerated(True)
        self.setFrame(False)
        self.lineEdit().setTextMargins(LEFT_MARGIN, 0, 0, 0)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.lineEdit().setMaxLength(MOST_TYPED)
        if field.null is not None:
            self.lineEdit().setPlaceholderText(field.null)
        self.editingFinished.connect(self._commit)

    @property
    def value(self) -> float | None:
        """The number last shown."""
        return self._value

    def show_value(self, value: float | None) -> None:
        """Show a number, or what null means; typed text that was not taken is replaced."""
        self._value, self._offered = value, False
        unit = self._field.singular if value == 1 else self._field.unit
        self._shown = "" if value is None else f"{_written(value)} {unit}".rstrip()
        if self.lineEdit().text() != self._shown:
            self.lineEdit().setText(self._shown)
            self.lineEdit().setCursorPosition(0)

    def read(self) -> Any:
        """What stands in the box: a number, None, or text."""
        text = self.lineEdit().text().strip()
        number = text.removesuffix(self._field.unit).removesuffix(self._field.singular).strip().replace(",", "")
        if number == "" or text == self._field.null:
            return None
        try:
            return int(number)
        except ValueError:
            pass
        try:
            parsed = float(number)
        except ValueError:
            return text
        if not math.isfinite(parsed):
            return text
        return int(parsed) if self._field.kind is Kind.WHOLE and parsed.is_integer() else parsed

    def stepBy(self, steps: int) -> None:
        present = self.read()
        number = present if isinstance(present, (int, float)) else self._value
        self._change(self._stepped(number, steps))
        self.lineEdit().selectAll()

    def stepEnabled(self) -> QAbstractSpinBox.StepEnabledFlag:
        return QAbstractSpinBox.StepEnabledFlag.StepUpEnabled | QAbstractSpinBox.StepEnabledFlag.StepDownEnabled

    def validate(self, text: str, position: int) -> tuple[QValidator.State, str, int]:
        """Everything may be typed: what is wrong with it is said in words."""
        return QValidator.State.Acceptable, text, position

    def sizeHint(self) -> QSize:
        return self._size_for(ROOM)

    def minimumSizeHint(self) -> QSize:
        return self._size_for(LEAST_ROOM)

    def _size_for(self, text: str) -> QSize:
        height = super().sizeHint().height()
        return QSize(QFontMetrics(self.font()).horizontalAdvance(text) + 2 * height, height)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape and self.lineEdit().text() != self._shown:
            self._change(self._value)
            return
        super().keyPressEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Only with the keyboard's focus: a wheel that scrolls the form changes nothing."""
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        if event.reason() in (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason):
            self.lineEdit().selectAll()

    def _commit(self) -> None:
        if self.lineEdit().text() != self._shown or self._offered:
            self._change(self.read())

    def _change(self, value: Any) -> None:
        if value == self._value and not self._offered:
            self.show_value(self._value)
            return
        self._offered = True
        self.edited.emit(value)

    def _stepped(self, number: float | None, steps: int) -> float | None:
        """The value some steps on; null lies below the least."""
        legal = self._legal(self._field.path) if self._field.kind is Kind.WHOLE else None
        if legal:
            return self._next_legal(legal, number, steps)
        field = self._field
        if number is None:
            least = field.least if field.least is not None else field.above or 0
            return max(least, 1) if steps > 0 else None
        step = _step(number, whole=field.kind is Kind.WHOLE)
        moved = round(number + steps * step, 12)
        below = (field.least is not None and moved < field.least) or (field.above is not None and moved <= field.above)
        if below and field.null is not None and number == field.least:
            return None
        if below:
            return number if field.least is None else field.least
        return moved if field.most is None or moved <= field.most else type(number)(field.most)

    def _next_legal(self, legal: Sequence[int], number: float | None, steps: int) -> float | None:
        if number is None:
            return legal[min(steps, len(legal)) - 1] if steps > 0 else None
        place = bisect_right(legal, number) - 1 + steps if steps > 0 else bisect_left(legal, number) + steps
        if place < 0:
            return None if self._field.null is not None else min(number, legal[0])
        return legal[place] if place < len(legal) else max(number, legal[-1])


def _written(number: float) -> str:
    """A number with thousands grouped and no trailing zeros."""
    return f"{number:,}" if isinstance(number, int) else f"{number:,.12g}"


def _step(number: float, *, whole: bool) -> float:
    """A step that a value of this size moves by: for reals one in the second digit."""
    size = abs(number)
    if whole:
        return 1 if size < FINE_BELOW else int(2 ** math.floor(math.log2(size / PARTS)))
    return 0.1 if size == 0 else float(10.0 ** (math.floor(math.log10(size)) - 1))
