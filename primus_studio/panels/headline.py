"""Panel: the figures that people quote, and whether the recipe fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QWidget

from primus_studio.panels.follow import follow
from primus_studio.widgets.headline_view import HeadlineView

if TYPE_CHECKING:
    from primus_studio.panels.panel import PanelContext


def create(context: PanelContext) -> QWidget:
    """The panel, following the engine of `context`. It lists the reasons when a recipe is illegal."""
    view = HeadlineView()
    return follow(context, view, view.show_projection, explains=True)
