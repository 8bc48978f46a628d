"""File → New: a model and a cluster; the engine finds a legal recipe that fits."""

from __future__ import annotations

from PySide6.QtWidgets import QDialog, QDialogButtonBox, QFormLayout, QLabel, QVBoxLayout, QWidget

from primus_studio.theme.tokens import SPACE
from primus_studio.widgets.search_box import SearchBox
from projectors.inputs import library

WIDTH = 480


class NewStudy(QDialog):
    """Asks for a model and a cluster out of the library."""

    def __init__(self, parent: QWidget, model: str = "", cluster: str = "") -> None:
        super().__init__(parent)
        self.setWindowTitle("New study")
        self.setMinimumWidth(WIDTH)
        self._model = SearchBox(library.names("models"), "Model")
        self._cluster = SearchBox(library.names("clusters"), "Cluster")
        for box, name in ((self._model, model), (self._cluster, cluster)):
            if name:
                box.show_value(name)
        intro = QLabel(
            "The study starts from a legal recipe with as little model parallelism and recompute as fits. "
            "Any cluster of the form HARDWARE-NODESxGPUS can be typed, such as h200-16x8.",
            self, wordWrap=True,
        )
        form = QFormLayout()
        form.setSpacing(SPACE)
        form.addRow("&Model", self._model)
        form.addRow("&Cluster", self._cluster)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel)
        buttons.button(QDialogButtonBox.StandardButton.Ok).setText("Create")
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.setSpacing(2 * SPACE)
        layout.addWidget(intro)
        layout.addLayout(form)
        layout.addWidget(buttons)

    @property
    def model(self) -> str:
        """Name of the chosen model."""
        return self._model.currentText().strip()

    @property
    def cluster(self) -> str:
        """Name of the chosen cluster."""
        return self._cluster.currentText().strip()
