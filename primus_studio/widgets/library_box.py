"""Choice of a profile by name: finds names by any part of them, and takes a name or path that is typed."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QComboBox, QSizePolicy, QVBoxLayout, QWidget

from primus_studio.theme.fonts import Size
from primus_studio.theme.tokens import SPACE
from primus_studio.widgets.form_row import Outline, Reason
from primus_studio.widgets.labels import ElidedLabel
from primus_studio.widgets.search_box import SearchBox


class LibraryBox(QWidget):
    """A titled search box with room for what is wrong with the name."""

    chosen = Signal(str)

    def __init__(self, title: str, says: str, names: Sequence[str], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self._says = says
        self.box = SearchBox(names, title)
        self.box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.box.view().setAccessibleName(title)
        self.box.committed.connect(lambda name: self.chosen.emit(str(name)))
        label = ElidedLabel(title, size=Size.SMALL, role="muted", parent=self)
        label.setBuddy(self.box)
        self.reason = Reason(title, lambda name: self.chosen.emit(str(name)), self)
        self.outline = Outline(self.box, self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(SPACE // 4)
        layout.addWidget(label)
        layout.addWidget(self.outline)
        layout.addWidget(self.reason)
        self.explain("")
        self.setFocusProxy(self.box)

    def show_name(self, name: str, details: str = "") -> None:
        """Show the name in use; the fault of a name that was refused goes."""
        self.box.show_value(name)
        self.say("")
        self.explain(details)

    def say(self, words: str, nearest: str | None = None) -> None:
        """Say what is wrong with the name that was typed."""
        self.outline.mark(bool(words))
        self.reason.say(words, nearest)

    def explain(self, details: str) -> None:
        """What the box chooses, and more about what is chosen."""
        words = "\n".join(part for part in (self._says, details) if part)
        self.box.setToolTip(words)
        self.box.setAccessibleDescription(words)
