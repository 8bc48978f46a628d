"""QActions from the table: one per row, handed to whoever shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby

from PySide6.QtGui import QAction, QActionGroup, QKeySequence
from PySide6.QtWidgets import QMainWindow, QMenu, QToolBar

from primus_studio.actions.table import ACTIONS, Action, Menu, When
from primus_studio.theme.icons import icon


def build_actions(window: QMainWindow, run: Mapping[str, Callable[[], object]]) -> dict[str, QAction]:
    """One QAction per row, by id, each calling `run[id]`. Raises KeyError for an action that nothing runs."""
    groups: dict[str, QActionGroup] = {}
    built: dict[str, QAction] = {}
    for row in ACTIONS:
        action = QAction(row.title, window)
        action.setObjectName(row.id)
        action.setStatusTip(row.says)
        action.setToolTip(tooltip(row))
        if row.icon:
            action.setIcon(icon(row.icon))
        if row.shortcut:
            action.setShortcut(QKeySequence(row.shortcut))
        if row.choice:
            action.setCheckable(True)
            groups.setdefault(row.choice, QActionGroup(window)).addAction(action)
        callback = run[row.id]
        action.triggered.connect(lambda _checked=False, callback=callback: callback())
        built[row.id] = action
    return built


def tooltip(row: Action) -> str:
    """What an action does and its shortcut."""
    return f"{row.says} ({keys_text(QKeySequence(row.shortcut))})" if row.shortcut else row.says


def keys_text(keys: QKeySequence) -> str:
    """A shortcut as this platform writes it."""
    return keys.toString(QKeySequence.SequenceFormat.NativeText)


def fill_menus(window: QMainWindow, built: Mapping[str, QAction]) -> dict[Menu, QMenu]:
    """A menu per `Menu`, its groups apart."""
    menus: dict[Menu, QMenu] = {}
    for menu in Menu:
        menus[menu] = window.menuBar().addMenu(menu.value)
        rows = sorted((row for row in ACTIONS if row.menu is menu), key=lambda row: row.group)
        for number, (_, group) in enumerate(groupby(rows, key=lambda row: row.group)):
            if number:
                menus[menu].addSeparator()
            for row in group:
                menus[menu].addAction(built[row.id])
    return menus


def fill_toolbar(toolbar: QToolBar, built: Mapping[str, QAction]) -> None:
    """The rows that are marked for the toolbar, a gap between menus."""
    rows = [row for row in ACTIONS if row.toolbar]
    for number, (_, group) in enumerate(groupby(rows, key=lambda row: row.menu)):
        if number:
            toolbar.addSeparator()
        for row in group:
            toolbar.addAction(built[row.id])


def enable(built: Mapping[str, QAction], holds: Mapping[When, bool]) -> None:
    """Enable what may be asked for now."""
    for row in ACTIONS:
        built[row.id].setEnabled(row.when is When.ALWAYS or holds[row.when])
