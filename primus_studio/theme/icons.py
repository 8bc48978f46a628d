"""Icons from our own SVG files, drawn in the color of the moment, so that a change of scheme needs no new icon.

A file in `resources/icons` is a 24 x 24 line drawing in `currentColor`.
"""

from __future__ import annotations

from functools import lru_cache

from PySide6.QtCore import QByteArray, QPoint, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QIcon, QIconEngine, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

from primus_studio.theme.apply import tokens
from primus_studio.theme.resources import resources_folder


@lru_cache(maxsize=1)
def icon_names() -> tuple[str, ...]:
    """Every icon there is."""
    return tuple(sorted(path.stem for path in (resources_folder() / "icons").glob("*.svg")))


@lru_cache(maxsize=256)
def _renderer(name: str, color: str) -> QSvgRenderer:
    source = (resources_folder() / "icons" / f"{name}.svg").read_text(encoding="utf-8")
    return QSvgRenderer(QByteArray(source.replace("currentColor", color).encode()))


def draw_icon(painter: QPainter, name: str, rect: QRectF, color: str) -> None:
    """Draw an icon into `rect` in a color. Raises FileNotFoundError for a name that is not in `icon_names()`."""
    _renderer(name, color).render(painter, rect)


class _Engine(QIconEngine):
    """Draws one icon in the text color of the scheme in use; muted when disabled."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def paint(self, painter: QPainter, rect: QRect, mode: QIcon.Mode, _state: QIcon.State) -> None:
        colors = tokens()
        color = {QIcon.Mode.Disabled: colors.edge, QIcon.Mode.Selected: colors.on_selection}.get(mode, colors.text)
        side = min(rect.width(), rect.height())
        square = QRectF(0, 0, side, side)
        square.moveCenter(QRectF(rect).center())
        draw_icon(painter, self._name, square, color)

    def pixmap(self, size: QSize, mode: QIcon.Mode, state: QIcon.State) -> QPixmap:
        drawn = QPixmap(size)
        drawn.fill(Qt.GlobalColor.transparent)
        with QPainter(drawn) as painter:
            self.paint(painter, QRect(QPoint(0, 0), size), mode, state)
        return drawn

    def clone(self) -> QIconEngine:
        return _Engine(self._name)


@lru_cache(maxsize=256)
def icon(name: str) -> QIcon:
    """An icon for actions, buttons and docks. Raises FileNotFoundError for an unknown name."""
    if name not in icon_names():
        raise FileNotFoundError(f"there is no icon {name!r} in {resources_folder() / 'icons'}")
    return QIcon(_Engine(name))
