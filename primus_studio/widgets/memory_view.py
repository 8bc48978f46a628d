"""The memory panel's content: headline, bars per rank, legend with bytes and percent of the peak rank."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QHBoxLayout, QVBoxLayout, QWidget

from primus_studio.theme.fonts import Size
from primus_studio.theme.marks import MEMORY_HUES
from primus_studio.theme.tokens import SPACE
from primus_studio.widgets.labels import ElidedLabel, Glyph
from primus_studio.widgets.legend import BUTTON_MOST, Entry, Legend
from primus_studio.widgets.memory_bar import MemoryBars
from primus_studio.widgets.memory_words import headline, segments, share, verdict
from projectors.results import MemoryBreakdown
from projectors.text import bytes_text

WIDE = 680
"""Width in device-independent pixels from which the legend stands beside the bars."""

LEGEND_WIDTH = 264
"""Width of the legend beside the bars in device-independent pixels."""

TWO_COLUMNS = 2 * (BUTTON_MOST + SPACE) + SPACE
"""Width in device-independent pixels below which the legend has no room for quantities in two columns."""

QWIDGETSIZE_MAX = 16_777_215
"""Qt's word for no limit; PySide does not name it."""


class MemoryView(QWidget):
    """Draws a `MemoryBreakdown`."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.headline = ElidedLabel(size=Size.TITLE, bold=True, least=12)
        self.glyph = Glyph("ok", "ok")
        self.verdict = ElidedLabel(bold=True, least=10)
        self.verdict.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.bars = MemoryBars()
        self.legend = Legend("Memory components")
        self.legend.brought_out.connect(self.bars.bring_out)
        top = QHBoxLayout()
        top.setSpacing(SPACE // 2)
        top.addWidget(self.headline, 1)
        top.addWidget(self.glyph)
        top.addWidget(self.verdict)
        self._body = QBoxLayout(QBoxLayout.Direction.TopToBottom)
        self._body.setSpacing(SPACE)
        self._body.addWidget(self.bars, 1)
        self._body.addWidget(self.legend)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(SPACE, SPACE, SPACE, SPACE)
        layout.setSpacing(SPACE)
        layout.addLayout(top)
        layout.addLayout(self._body, 1)

    def show_memory(self, memory: MemoryBreakdown) -> None:
        """Draw another breakdown."""
        found = verdict(memory)
        self.headline.setText(headline(memory))
        self.glyph.show_icon(found.fit.icon, found.fit.role)
        self.verdict.set_role(found.fit.role)
        self.verdict.setText(found.words)
        self.bars.show_memory(memory)
        peak = memory.ranks[memory.peak_rank]
        self.legend.show_entries(
            tuple(
                Entry(
                    part.component,
                    MEMORY_HUES[part.component],
                    part.component.label,
                    bytes_text(part.nbytes),
                    share(part.nbytes, peak.total),
                )
                for part in segments(peak)
            )
        )

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        wide = self.width() >= WIDE
        self._body.setDirection(QBoxLayout.Direction.LeftToRight if wide else QBoxLayout.Direction.TopToBottom)
        self.legend.show_compact(self.width() < TWO_COLUMNS)
        self.legend.setMaximumWidth(LEGEND_WIDTH if wide else QWIDGETSIZE_MAX)
        self.legend.setMinimumWidth(LEGEND_WIDTH if wide else 0)
