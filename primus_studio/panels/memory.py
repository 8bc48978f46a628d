"""Panel: memory of every pipeline rank against what the device has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QWidget

from primus_studio.panels.follow import follow
from primus_studio.widgets.memory_view import MemoryView
from projectors.inputs.study import Study
from projectors.results import Projection

if TYPE_CHECKING:
    from primus_studio.panels.panel import PanelContext


def create(context: PanelContext) -> QWidget:
    """The panel, following the engine of `context`."""
    view = MemoryView()

    def draw(_study: Study, projection: Projection) -> None:
        if projection.memory is not None:
            view.show_memory(projection.memory)

    return follow(context, view, draw)
