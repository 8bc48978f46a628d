"""The line over a panel: its name, what it shows, and buttons that float and close it."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QDockWidget, QHBoxLayout, QMainWindow, QToolButton, QWidget

from primus_studio.theme.fonts import Size
from primus_studio.theme.icons import icon
from primus_studio.theme.tokens import SPACE
from primus_studio.widgets.labels import ElidedLabel

BUTTON_SIDE = 12
"""Icons of the buttons in device-independent pixels."""


class DockTitle(QWidget):
    """Title bar of a dock. Beside others in one place, a tab says the name, and the line only what the panel shows.

    The buttons stay out of the tab order: the actions `view.float-panel` and `view.close-panel` do the same.
    """

    def __init__(self, dock: QDockWidget, says: str) -> None:
        super().__init__(dock)
        self.setObjectName("dock-title")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._dock = dock
        self._name = ElidedLabel(dock.windowTitle(), size=Size.SMALL, bold=True, least=4, parent=self)
        words = ElidedLabel(says, size=Size.SMALL, role="muted", least=0, parent=self)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(SPACE, 1, SPACE // 2, 1)
        layout.setSpacing(SPACE)
        layout.addWidget(self._name)
        layout.addWidget(words, 1)
        buttons = QHBoxLayout()
        buttons.setSpacing(0)
        for name, says_of_button, run in (
            ("float", "Float this panel, or put it back", lambda: dock.setFloating(not dock.isFloating())),
            ("close", "Close this panel; the menu View brings it back", dock.close),
        ):
            buttons.addWidget(self._button(name, says_of_button, run))
        layout.addLayout(buttons)
        dock.visibilityChanged.connect(self.show_name)
        dock.topLevelChanged.connect(self.show_name)
        dock.dockLocationChanged.connect(self.show_name)

    def show_name(self, _changed: object = None) -> None:
        """Show the name where no tab does."""
        window = self._dock.parentWidget()
        tabbed = isinstance(window, QMainWindow) and not self._dock.isFloating() and bool(window.tabifiedDockWidgets(self._dock))
        self._name.setVisible(not tabbed)

    def minimumSizeHint(self) -> QSize:
        return QSize(self._dock.minimumWidth(), self.sizeHint().height())

    def _button(self, symbol: str, says: str, run: Callable[[], object]) -> QToolButton:
        button = QToolButton(self, autoRaise=True)
        button.setIcon(icon(symbol))
        button.setIconSize(QSize(BUTTON_SIDE, BUTTON_SIDE))
        button.setToolTip(says)
        button.setAccessibleName(f"{symbol.capitalize()} {self._dock.windowTitle()}")
        button.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        button.clicked.connect(lambda _checked=False: run())
        return button
