"""Panel: the pipeline schedule, event by event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QWidget

from primus_studio.panels.follow import follow
from primus_studio.widgets.timeline_panel_view import TimelinePanelView
from projectors.inputs.study import Study
from projectors.results import Projection

if TYPE_CHECKING:
    from primus_studio.panels.panel import PanelContext


def create(context: PanelContext) -> QWidget:
    """The panel, following the engine of `context`."""
    view = TimelinePanelView()

    def draw(_study: Study, projection: Projection) -> None:
        if projection.timeline is not None:
            view.show_timeline(projection.timeline)

    return follow(context, view, draw)
