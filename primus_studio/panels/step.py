"""Panel: where the time of one optimizer step goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QWidget

from primus_studio.panels.follow import follow
from primus_studio.widgets.step_view import StepView
from projectors.inputs.study import Study
from projectors.results import Projection

if TYPE_CHECKING:
    from primus_studio.panels.panel import PanelContext


def create(context: PanelContext) -> QWidget:
    """The panel, following the engine of `context`."""
    view = StepView()

    def draw(_study: Study, projection: Projection) -> None:
        if projection.step is not None:
            view.show_step(projection.step, projection.operators)

    return follow(context, view, draw)
