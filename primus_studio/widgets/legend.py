"""A legend whose entries can be pressed to bring out one color of a drawing."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QWidget

from primus_studio.theme import tokens
from primus_studio.theme.fonts import Size, sized
from primus_studio.theme.marks import Hue, mark
from primus_studio.theme.tokens import SPACE, mixed
from primus_studio.widgets.draw import draw_elided, focus_ring
from primus_studio.widgets.flow_layout import FlowLayout

SWATCH = 10
"""Side of a color sample in device-independent pixels."""

BUTTON_MOST = 204
"""Width that an entry asks for at most, in device-independent pixels; longer labels are shortened where room is short."""

_VALUE_ROOM, _NOTE_ROOM = "  888.8 GiB", "  88.8%"
"""Texts whose widths the columns of quantities and shares get."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A color, what it means, and (for quantities) how much there is of it."""

    key: Hashable
    hue: Hue
    label: str
    value: str = ""
    note: str = ""
    fade: float = 0.0  # how far its color goes towards the ground, as the drawing has it


class _Button(QAbstractButton):
    """One entry; checked when brought out."""

    def __init__(self, entry: Entry, parent: QWidget) -> None:
        super().__init__(parent)
        self.setCheckable(True)
        self.setFont(sized(self.font(), Size.SMALL))
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._compact = False
        self.show_entry(entry)

    def show_entry(self, entry: Entry) -> None:
        self.entry = entry
        self.setAccessibleName(" ".join(part for part in (entry.label, entry.value, entry.note) if part))
        quantity = f" {entry.value}, {entry.note}" if entry.value else ""
        self.setToolTip(f"{entry.label}{quantity}: press to bring it out")
        self.updateGeometry()
        self.update()

    def show_compact(self, compact: bool) -> None:
        """Leave the quantity to the tooltip, or write it out."""
        if compact != self._compact:
            self._compact = compact
            self.updateGeometry()
            self.update()

    def sizeHint(self) -> QSize:
        metrics = QFontMetricsF(self.font())
        numbers = _VALUE_ROOM + _NOTE_ROOM if self.entry.value and not self._compact else ""
        width = int(SWATCH + 2.5 * SPACE + metrics.horizontalAdvance(self.entry.label + numbers))
        return QSize(min(width, BUTTON_MOST), int(metrics.height()) + SPACE // 2)

    def minimumSizeHint(self) -> QSize:
        return QSize(SWATCH + SPACE, self.sizeHint().height())

    def paintEvent(self, _event: QPaintEvent) -> None:
        colors, entry = tokens(), self.entry
        area = QRectF(self.rect())
        with QPainter(self) as painter:
            if self.isChecked() or self.underMouse():
                painter.fillRect(area, QColor(colors.selection if self.isChecked() else colors.hover))
            painter.fillRect(
                QRectF(SPACE / 2, area.center().y() - SWATCH / 2, SWATCH, SWATCH),
                QColor(mixed(mark(entry.hue, colors.scheme), colors.panel, entry.fade)),
            )
            painter.setFont(self.font())
            metrics = QFontMetricsF(self.font())
            ink = colors.on_selection if self.isChecked() else colors.text
            quiet = colors.on_selection if self.isChecked() else colors.muted
            left, right = SPACE / 2 + SWATCH + SPACE / 2, area.right() - SPACE / 2
            if entry.value and not self._compact:
                numbers = QRectF(left, area.top(), right - left, area.height())
                painter.setPen(QColor(quiet))
                draw_elided(painter, numbers, entry.note, align=Qt.AlignmentFlag.AlignRight)
                numbers.setRight(right - metrics.horizontalAdvance(_NOTE_ROOM))
                painter.setPen(QColor(ink))
                draw_elided(painter, numbers, entry.value, align=Qt.AlignmentFlag.AlignRight)
                right = numbers.right() - metrics.horizontalAdvance(_VALUE_ROOM) + SPACE
            painter.setPen(QColor(quiet))
            draw_elided(painter, QRectF(left, area.top(), right - left, area.height()), entry.label)
            if self.hasFocus():
                focus_ring(painter, area.adjusted(1, 1, -1, -1), colors.accent)


class Legend(QWidget):
    """Entries that wrap; at most one is brought out. `brought_out` carries its key or None."""

    brought_out = Signal(object)

    def __init__(self, name: str, parent: QWidget | None = None, *, fill: bool = True) -> None:
        super().__init__(parent)
        self._compact = False
        self.setAccessibleName(name)
        self._flow = FlowLayout(self, gap=SPACE // 2, fill=fill)
        self._buttons: list[_Button] = []

    def show_entries(self, entries: tuple[Entry, ...]) -> None:
        """Replace the entries; what was brought out stays so while its key is there."""
        if [button.entry.key for button in self._buttons] == [entry.key for entry in entries]:
            for button, entry in zip(self._buttons, entries, strict=True):
                button.show_entry(entry)
            return
        chosen = next((button.entry.key for button in self._buttons if button.isChecked()), None)
        while self._buttons:
            button = self._buttons.pop()
            self._flow.removeWidget(button)
            button.deleteLater()
        for entry in entries:
            button = _Button(entry, self)
            button.show_compact(self._compact)
            button.setChecked(entry.key == chosen)
            button.toggled.connect(self._toggled)
            self._flow.addWidget(button)
            button.show()  # lays its line out at once, so it must have its place by then
            self._buttons.append(button)
        if chosen is not None and all(entry.key != chosen for entry in entries):
            self.brought_out.emit(None)

    def show_compact(self, compact: bool) -> None:
        """Names alone, quantities in the tooltips; or both."""
        self._compact = compact
        for button in self._buttons:
            button.show_compact(compact)

    def buttons(self) -> tuple[QAbstractButton, ...]:
        return tuple(self._buttons)

    def _toggled(self, on: bool) -> None:
        sender = self.sender()
        for button in self._buttons:
            if on and button is not sender and button.isChecked():
                button.blockSignals(True)
                button.setChecked(False)
                button.blockSignals(False)
                button.update()
        chosen = next((button.entry.key for button in self._buttons if button.isChecked()), None)
        self.brought_out.emit(chosen)
