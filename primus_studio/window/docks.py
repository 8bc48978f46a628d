"""Docks of the panels and where they stand at first: editors on the left, the answer beside them."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QEvent, QObject, Qt, QTimer
from PySide6.QtWidgets import QDockWidget, QMainWindow, QTabBar, QTabWidget

from primus_studio.panels.editor import Editor
from primus_studio.panels.panel import PanelContext
from primus_studio.panels.table import PANELS
from primus_studio.theme.icons import icon
from primus_studio.window.dock_title import DockTitle

EDITOR_WIDTH = 352
"""Of the column of editors: the widest label and its field, without wrapping."""

HEADLINE_HEIGHT, TIMELINE_HEIGHT, DETAILS_HEIGHT = 112, 300, 290


def make_docks(window: QMainWindow, context: PanelContext) -> dict[str, QDockWidget]:
    """One dock per panel, by its id. Object names are part of saved layouts."""
    docks: dict[str, QDockWidget] = {}
    for panel in PANELS:
        dock = QDockWidget(panel.title, window)
        dock.setObjectName(f"dock.{panel.id}")
        dock.setWindowIcon(icon(panel.icon))
        dock.setTitleBarWidget(DockTitle(dock, panel.says))
        content = panel.create(context)
        content.setAccessibleName(content.accessibleName() or panel.title)
        content.setAccessibleDescription(content.accessibleDescription() or panel.says)
        dock.setWidget(content)
        if isinstance(content, Editor):
            dock.visibilityChanged.connect(content.be_seen)
        docks[panel.id] = dock
    Hug(window, docks["headline"], docks["timeline"])
    window.setDockNestingEnabled(True)
    window.setTabPosition(Qt.DockWidgetArea.AllDockWidgetAreas, QTabWidget.TabPosition.North)
    return docks


def arrange(window: QMainWindow, docks: Mapping[str, QDockWidget]) -> None:
    """The layout that the window opens with and returns to."""
    for dock in docks.values():
        dock.setFloating(False)
        window.removeDockWidget(dock)
    left, right = Qt.DockWidgetArea.LeftDockWidgetArea, Qt.DockWidgetArea.RightDockWidgetArea
    window.addDockWidget(left, docks["recipe"])
    window.tabifyDockWidget(docks["recipe"], docks["model"])
    window.tabifyDockWidget(docks["model"], docks["cluster"])
    window.addDockWidget(right, docks["headline"])
    window.splitDockWidget(docks["headline"], docks["timeline"], Qt.Orientation.Vertical)
    window.splitDockWidget(docks["timeline"], docks["memory"], Qt.Orientation.Vertical)
    window.splitDockWidget(docks["memory"], docks["step"], Qt.Orientation.Horizontal)
    window.tabifyDockWidget(docks["timeline"], docks["benchmark"])
    for dock in docks.values():
        dock.show()
    docks["recipe"].raise_()
    docks["timeline"].raise_()
    beside = max(window.width() - EDITOR_WIDTH, EDITOR_WIDTH)
    window.resizeDocks([docks["recipe"], docks["headline"]], [EDITOR_WIDTH, beside], Qt.Orientation.Horizontal)
    window.resizeDocks(
        [docks["headline"], docks["timeline"], docks["memory"]], [HEADLINE_HEIGHT, TIMELINE_HEIGHT, DETAILS_HEIGHT],
        Qt.Orientation.Vertical,
    )
    name_titles(docks)
    _show_tabs(window, docks)
    window.resizeDocks([docks["memory"], docks["step"]], [beside * 3 // 5, beside * 2 // 5], Qt.Orientation.Horizontal)


def _show_tabs(window: QMainWindow, docks: Mapping[str, QDockWidget]) -> None:
    """Show the bars whose tabs are docks in one place, and no other.

    Qt hides the bars of docks that are taken out, uses them again for docks that are put in, and may leave them hidden; one
    that it uses no more may keep its tabs.
    """
    layout = window.layout()
    if layout is not None:
        layout.activate()
    places = ([dock, *window.tabifiedDockWidgets(dock)] for dock in docks.values())
    together = [{dock.windowTitle() for dock in place} for place in places]
    for bar in window.findChildren(QTabBar, options=Qt.FindChildOption.FindDirectChildrenOnly):
        titles = {bar.tabText(tab) for tab in range(bar.count())}
        bar.setVisible(len(titles) > 1 and titles in together)


def name_titles(docks: Mapping[str, QDockWidget]) -> None:
    """Say each panel's name where no tab does, after docks were put somewhere."""
    for dock in docks.values():
        title = dock.titleBarWidget()
        if isinstance(title, DockTitle):
            title.show_name()


class Hug(QObject):
    """Keeps a dock as low as its content while the user leaves its height alone: when less is needed, `heir` gets the room."""

    def __init__(self, window: QMainWindow, dock: QDockWidget, heir: QDockWidget) -> None:
        super().__init__(dock)
        self._window, self._dock, self._heir = window, dock, heir
        self._needed = 0
        self._soon = QTimer(self, singleShot=True, interval=0)
        self._soon.timeout.connect(self._shrink)
        dock.widget().installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() is QEvent.Type.LayoutRequest:
            self._soon.start()
        return super().eventFilter(watched, event)

    def _shrink(self) -> None:
        content = self._dock.widget()
        needed, before = content.minimumSizeHint().height(), self._needed
        self._needed = needed
        if needed < before and content.height() <= before and not self._dock.isFloating():
            spare = content.height() - needed
            docks = [self._dock, self._heir]
            heights = [self._dock.height() - spare, self._heir.height() + spare]
            self._window.resizeDocks(docks, heights, Qt.Orientation.Vertical)
