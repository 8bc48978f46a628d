"""How a panel of results follows the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QWidget

from primus_studio.panels.state_pane import StatePane
from primus_studio.services.projection_state import ProjectionState
from projectors.inputs.study import Study
from projectors.results import Projection

if TYPE_CHECKING:
    from primus_studio.panels.panel import PanelContext

EMPTY = "Nothing is projected yet. Open a study or make one with File → New."


def follow(
    context: PanelContext, content: QWidget, draw: Callable[[Study, Projection], None], *, explains: bool = False
) -> StatePane:
    """`content` in a pane that shows every state of the engine, the present one included."""

    def draw_state(state: ProjectionState) -> None:
        if state.study is not None and state.projection is not None:
            draw(state.study, state.projection)

    pane = StatePane(content, draw_state, EMPTY, explains=explains)
    context.engine.state_changed.connect(lambda state: context.turns.later(pane, lambda: pane.show_state(state)))
    pane.show_state(context.engine.state)
    return pane
