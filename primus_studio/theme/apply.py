"""Dress the application, live: Fusion, a palette and a short style sheet in the colors of one scheme."""

from __future__ import annotations

from enum import StrEnum

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication, QStyleFactory

from primus_studio.theme.style import style_sheet
from primus_studio.theme.tokens import TOKENS, Scheme, Tokens


class Mode(StrEnum):
    """What the user asks for."""

    SYSTEM = "system"
    LIGHT = "light"
    DARK = "dark"


_FOLLOWS = "primusThemeMode"
"""Property of the application that holds the mode; its presence also says that system changes are already followed."""


def apply(app: QApplication, mode: Mode) -> Tokens:
    """Dress `app` in `mode` and keep following the system's scheme while the mode is `system`. May be called at any time."""
    first = app.property(_FOLLOWS) is None
    app.setProperty(_FOLLOWS, mode.value)
    hints = app.styleHints()
    if first:
        app.setStyle(QStyleFactory.create("Fusion"))
        hints.colorSchemeChanged.connect(_system_changed)
    if mode is Mode.SYSTEM:
        hints.unsetColorScheme()
    else:
        hints.setColorScheme(Qt.ColorScheme.Dark if mode is Mode.DARK else Qt.ColorScheme.Light)
    return _dress(app, _scheme(mode))


def tokens() -> Tokens:
    """The colors in use. Read them when painting, not once: the scheme may change while the window is open."""
    app = QGuiApplication.instance()
    stated = app.property(_SCHEME) if app is not None else None
    return TOKENS[Scheme(stated)] if stated else TOKENS[Scheme.LIGHT]


_SCHEME = "primusThemeScheme"


def _scheme(mode: Mode) -> Scheme:
    if mode is Mode.SYSTEM:
        return Scheme.DARK if QGuiApplication.styleHints().colorScheme() is Qt.ColorScheme.Dark else Scheme.LIGHT
    return Scheme(mode.value)


def _system_changed() -> None:
    app = QApplication.instance()
    if isinstance(app, QApplication) and app.property(_FOLLOWS) == Mode.SYSTEM.value:
        _dress(app, _scheme(Mode.SYSTEM))


def _dress(app: QApplication, scheme: Scheme) -> Tokens:
    chosen = TOKENS[scheme]
    app.setProperty(_SCHEME, scheme.value)
    app.setPalette(_palette(chosen))
    app.setStyleSheet(style_sheet(chosen))
    return chosen


def _palette(of: Tokens) -> QPalette:
    role = QPalette.ColorRole
    palette = QPalette()
    for name, color in (
        (role.Window, of.panel),
        (role.WindowText, of.text),
        (role.Base, of.field),
        (role.AlternateBase, of.raised),
        (role.Text, of.text),
        (role.Button, of.raised),
        (role.ButtonText, of.text),
        (role.BrightText, of.bad),
        (role.ToolTipBase, of.raised),
        (role.ToolTipText, of.text),
        (role.PlaceholderText, of.muted),
        (role.Highlight, of.selection),
        (role.HighlightedText, of.on_selection),
        (role.Link, of.accent),
        (role.LinkVisited, of.accent),
        (role.Accent, of.accent),
        (role.Light, of.hover),
        (role.Midlight, of.raised),
        (role.Mid, of.line),
        (role.Dark, of.edge),
        (role.Shadow, of.window),
    ):
        palette.setColor(name, QColor(color))
    for name in (role.WindowText, role.Text, role.ButtonText, role.HighlightedText):
        palette.setColor(QPalette.ColorGroup.Disabled, name, QColor(of.muted))
    palette.setColor(QPalette.ColorGroup.Disabled, role.Highlight, QColor(of.hover))
    return palette
