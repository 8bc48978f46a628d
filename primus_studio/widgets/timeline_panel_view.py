"""The timeline panel's content: header, buttons, lanes, legend."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QHBoxLayout, QToolButton, QVBoxLayout, QWidget

from primus_studio.theme.icons import icon
from primus_studio.theme.marks import IDLE, IDLE_FADE, PASS_HUES
from primus_studio.theme.tokens import SPACE
from primus_studio.widgets.labels import ElidedLabel
from primus_studio.widgets.legend import Entry, Legend
from primus_studio.widgets.timeline_gestures import KEY_ZOOM
from primus_studio.widgets.timeline_view import TimelineView
from primus_studio.widgets.timeline_words import PASS_LABELS, timeline_header
from projectors.pipeline.timeline import PassKind, Timeline

BUTTON_SIDE = 16
"""Icons of the buttons in device-independent pixels."""


class TimelinePanelView(QWidget):
    """Draws a `Timeline` with what explains it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.header = ElidedLabel(bold=True, least=16)
        self.followed = ElidedLabel(role="muted", least=0)
        self.view = TimelineView()
        self.legend = Legend("Kinds of passes", fill=False)
        self.legend.brought_out.connect(self._bring_out)
        self.view.selected.connect(self._follow)
        top = QHBoxLayout()
        top.setSpacing(SPACE // 2)
        top.addWidget(self.header)
        top.addWidget(self.followed, 1)
        for name, words, action in (
            ("zoom-in", "Zoom in (W)", lambda: self._zoom(KEY_ZOOM)),
            ("zoom-out", "Zoom out (S)", lambda: self._zoom(1 / KEY_ZOOM)),
            ("fit", "Show the whole step (F)", self.view.fit),
        ):
            button = QToolButton(self)
            button.setIcon(icon(name))
            button.setIconSize(QSize(BUTTON_SIDE, BUTTON_SIDE))
            button.setToolTip(words)
            button.setAccessibleName(words)
            button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
            button.clicked.connect(action)
            top.addWidget(button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(SPACE, SPACE // 2, SPACE, SPACE // 2)
        layout.setSpacing(SPACE // 2)
        layout.addLayout(top)
        layout.addWidget(self.view, 1)
        layout.addWidget(self.legend)

    def show_timeline(self, timeline: Timeline) -> None:
        """Draw another timeline."""
        self.header.setText(timeline_header(timeline))
        self.view.show_timeline(timeline)
        shades = f" · chunks 0–{timeline.chunks - 1} by shade" if timeline.chunks > 1 else ""
        kinds = [PassKind(int(kind)) for kind in np.unique(timeline.kind)]
        self.legend.show_entries(
            (
                *(Entry(kind, PASS_HUES[kind], PASS_LABELS[kind] + shades) for kind in kinds),
                Entry(IDLE, IDLE, "Idle", fade=IDLE_FADE),
            )
        )

    def _bring_out(self, key: object) -> None:
        self.view.bring_out(key)

    def _zoom(self, factor: float) -> None:
        window = self.view.in_view
        self.view.remember()
        self.view.zoom(factor, (window.begin + window.end) / 2)

    def _follow(self, microbatch: int | None) -> None:
        self.followed.setText("" if microbatch is None else f"following microbatch {microbatch} (Esc ends, Shift+F frames it)")
