"""The style sheet: what Fusion and the palette leave open."""

from __future__ import annotations

from string import Template

from primus_studio.theme.tokens import RADIUS, SPACE, Tokens

_SHEET = Template("""
QToolTip { background: $raised; color: $text; border: 1px solid $edge; padding: ${half}px; }
QMainWindow::separator { background: $window; width: ${half}px; height: ${half}px; }
QMainWindow::separator:hover { background: $accent; }
#dock-title { background: $raised; border-bottom: 1px solid $line; }
QMenuBar, QStatusBar, QToolBar { background: $window; color: $text; border: none; }
QStatusBar::item { border: none; }
QStatusBar QLabel { padding: ${quarter}px ${space}px; }
QToolBar { spacing: ${half}px; padding: ${half}px; }
QMenu { background: $raised; border: 1px solid $edge; padding: ${half}px 0; }
QMenu::item { padding: ${half}px ${triple}px; }
QMenu::item:selected { background: $selection; color: $on_selection; }
QMenu::item:disabled { color: $muted; }
QMenu::separator { height: 1px; background: $line; margin: ${half}px 0; }
QTabBar { qproperty-drawBase: 0; }
QTabBar::tab { background: transparent; color: $muted; padding: ${half}px ${space}px; }
QTabBar::tab { border: none; border-bottom: 2px solid transparent; }
QTabBar::tab:selected { color: $text; border-bottom-color: $accent; }
QTabBar::tab:hover { color: $text; background: $hover; }
QTabBar::tab:focus { border-bottom-color: $accent; background: $hover; }
QTabWidget::pane { border: none; }
QHeaderView { background: $raised; border: none; }
QHeaderView::section { background: $raised; color: $muted; border: none; border-bottom: 1px solid $line; padding: ${half}px; }
QAbstractScrollArea { border: none; }
QAbstractScrollArea::corner { background: transparent; border: none; }
QTreeView, QTableView, QListView { background: $panel; alternate-background-color: $raised; }
QScrollBar:vertical { background: transparent; width: ${bar}px; margin: 0; }
QScrollBar:horizontal { background: transparent; height: ${bar}px; margin: 0; }
QScrollBar::handle { background: $edge; border-radius: 3px; margin: 2px; min-height: 24px; min-width: 24px; }
QScrollBar::handle:hover { background: $muted; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; }
QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }
*[wrong="true"] { border: 1px solid $bad; border-radius: 3px; }
QFrame[card="true"] { background: $raised; border: 1px solid $line; border-radius: ${radius}px; }
QToolButton { color: $text; border: 1px solid transparent; border-radius: 4px; padding: 3px ${half}px; }
QToolButton:hover { background: $hover; }
QToolButton:checked { background: $selection; color: $on_selection; }
#reason { color: $bad; }
QToolButton#mend { color: $accent; }
QToolButton:focus { border-color: $accent; }
""")


def style_sheet(tokens: Tokens) -> str:
    """The style sheet in the colors of `tokens`."""
    colors = {name: getattr(tokens, name) for name in Tokens.__dataclass_fields__ if name != "scheme"}
    sizes = {"quarter": SPACE // 4, "half": SPACE // 2, "space": SPACE, "triple": SPACE * 3, "bar": SPACE + 2, "radius": RADIUS}
    return _SHEET.substitute(colors, **sizes)
