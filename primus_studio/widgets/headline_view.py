"""The headline panel's content: what is projected, whether it fits, and the figures that people quote."""

from __future__ import annotations

from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from primus_studio.theme.fonts import Size
from primus_studio.theme.tokens import SPACE
from primus_studio.widgets.flow_layout import FlowLayout
from primus_studio.widgets.labels import ElidedLabel
from primus_studio.widgets.memory_words import verdict
from primus_studio.widgets.tiles import Badge, Tile, TileView
from projectors.inputs.study import Study
from projectors.pipeline.timeline import bubble_fraction
from projectors.results import Origin, Projection
from projectors.text import bytes_text, count_text, number_text, percent_text, seconds_text

_DEGREES = ("tp", "pp", "vpp", "cp", "ep", "etp")


def study_title(study: Study) -> tuple[str, str]:
    """What is trained, and how it is spread: degrees of 1 are left out."""
    recipe, cluster = study.recipe, study.cluster
    degrees = [f"{name} {getattr(recipe, name)}" for name in _DEGREES if getattr(recipe, name) > 1]
    how = [
        *degrees,
        f"mbs {recipe.mbs}",
        f"gbs {recipe.gbs:,}",
        f"{recipe.seq_length:,} tokens",
        recipe.precision.value,
        recipe.schedule.value,
    ]
    return f"{study.model.name} on {cluster.gpus:,} × {cluster.hardware.name}", " · ".join(how)


def tiles(study: Study, projection: Projection) -> tuple[Tile, ...]:
    """The figures of a legal projection."""
    memory, step, rates, timeline = projection.memory, projection.step, projection.throughput, projection.timeline
    if memory is None or step is None or rates is None:
        raise ValueError("an illegal projection has no figures")
    found = verdict(memory)
    bubble = bubble_fraction(timeline) if timeline is not None else step.bubble / step.seconds
    recipe = study.recipe
    peak = f"{bytes_text(memory.peak_bytes)} at the peak rank {memory.peak_rank}"
    all_gpus = f"{count_text(rates.tokens_per_s)} tok/s in all"
    of_peak = "Model FLOPs over the peak of the recipe's precision; recompute does not count"
    waiting = "Part of the pipeline's makespan in which its ranks wait, mean over ranks"
    tokens = f"{recipe.gbs * recipe.seq_length:,} tokens"
    return (
        Tile("Memory", found.short, found.words, peak, found.fit.icon, found.fit.role),
        Tile("Tokens/s/GPU", number_text(rates.tokens_per_s_per_gpu), all_gpus, "Tokens per second and GPU over the whole step"),
        Tile("MFU", percent_text(rates.mfu), f"{rates.model_tflops_per_gpu:,.0f} TFLOP/s/GPU", of_peak),
        Tile("Pipeline bubble", percent_text(bubble), f"{projection.microbatches:,} microbatches", waiting),
        Tile("Step", seconds_text(step.seconds), tokens, "Seconds of one optimizer step, and tokens in its global batch"),
        Tile("Tokens/day", count_text(rates.tokens_per_day), f"dp {projection.dp:,}", "Tokens per day of uninterrupted training"),
    )


def origin_words(projection: Projection) -> str:
    """Where the figures come from, in one or two words."""
    compute, communication = projection.origin_compute, projection.origin_communication
    return compute.value if compute is communication else f"compute {compute.value}, communication {communication.value}"

MEASURING = """Layer times are simulated. Measuring them on a local device needs PyTorch, which the extra "benchmark" brings:
pip install 'primus-studio[benchmark]'."""


class HeadlineView(QWidget):
    """Draws the figures of a `Projection` and what they are for."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.title = ElidedLabel(size=Size.TITLE, bold=True, least=16)
        self.recipe = ElidedLabel(role="muted", least=8)
        self.warnings, self.origin = Badge(), Badge()
        self._tiles: list[TileView] = []
        top = QHBoxLayout()
        top.setSpacing(SPACE)
        top.addWidget(self.title)
        top.addWidget(self.recipe, 1)
        top.addWidget(self.warnings)
        top.addWidget(self.origin)
        self._flow = FlowLayout(gap=SPACE)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(SPACE, SPACE, SPACE, SPACE)
        layout.setSpacing(SPACE)
        layout.addLayout(top)
        layout.addLayout(self._flow)
        layout.addStretch(1)

    def show_projection(self, study: Study, projection: Projection) -> None:
        """Draw another projection."""
        title, how = study_title(study)
        self.title.setText(title)
        self.recipe.setText(how)
        number = len(projection.warnings)
        self.warnings.setVisible(number > 0)
        self.warnings.say(f"{number} warning{'s' if number != 1 else ''}", "warn", "\n".join(projection.warnings))
        simulated = projection.origin_compute is Origin.SIMULATED
        self.origin.say(
            origin_words(projection),
            "muted" if simulated else "ok",
            MEASURING if simulated else "Where the layer times and the communication times come from",
        )
        found = tiles(study, projection)
        if not self._tiles:
            for tile in found:
                view = TileView(tile, self)
                self._flow.addWidget(view)
                self._tiles.append(view)
        for view, tile in zip(self._tiles, found, strict=True):
            view.show_tile(tile)
        if self.isVisible():  # before, the width is not yet the one it will have
            self._keep_room()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._keep_room()

    def _keep_room(self) -> None:
        """No line of tiles may be cut off; docks know minimum heights, but none that depend on the width."""
        layout = self.layout()
        if layout is not None:
            self.setMinimumHeight(layout.totalHeightForWidth(self.width()))
