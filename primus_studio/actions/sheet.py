"""The sheet of shortcuts, made from the actions themselves."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QHeaderView, QTableWidget, QTableWidgetItem, QVBoxLayout, QWidget

from primus_studio.actions.build import keys_text
from primus_studio.actions.palette import plain_title

WIDTH, HEIGHT = 620, 560

TIMELINE_KEYS = (
    ("W, S or Ctrl+wheel", "Timeline: zoom in and out at the cursor"),
    ("A, D, arrows or Shift+drag", "Timeline: pan"),
    ("F or double-click", "Timeline: show everything"),
    ("Alt+Left, Alt+Right", "Timeline: back and forward through zooms"),
    ("Click on a pass", "Timeline: follow its microbatch through all ranks"),
)
"""Keys of a widget that holds them itself, as in Perfetto."""


def show_sheet(parent: QWidget, actions: Sequence[QAction]) -> QDialog:
    """Open the sheet; it closes with Escape."""
    dialog = QDialog(parent)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.setWindowTitle("Keyboard shortcuts")
    dialog.resize(WIDTH, HEIGHT)
    rows = [
        (keys_text(action.shortcut()), plain_title(action), action.statusTip())
        for action in actions
        if not action.shortcut().isEmpty()
    ] + [(keys, does.partition(": ")[2].capitalize(), does) for keys, does in TIMELINE_KEYS]
    table = QTableWidget(len(rows), 3, dialog)
    table.setAccessibleName("Keyboard shortcuts")
    table.setHorizontalHeaderLabels(["Keys", "Action", "What it does"])
    table.verticalHeader().hide()
    table.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
    table.setShowGrid(False)
    table.setAlternatingRowColors(True)
    for line, cells in enumerate(rows):
        for column, text in enumerate(cells):
            table.setItem(line, column, QTableWidgetItem(text))
    table.resizeColumnsToContents()
    table.horizontalHeader().setSectionResizeMode(2, QHeaderView.ResizeMode.Stretch)
    buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
    buttons.rejected.connect(dialog.reject)
    layout = QVBoxLayout(dialog)
    layout.addWidget(table)
    layout.addWidget(buttons)
    dialog.open()
    return dialog
