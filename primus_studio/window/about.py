"""Help → About."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from PySide6.QtWidgets import QMessageBox, QWidget

from primus_studio.widgets.headline_view import MEASURING

WORDS = f"""Memory and throughput of distributed LLM training, before anyone queues a job.

Every number comes from the engine or from a profile that states its source. {MEASURING}

Apache License 2.0."""


def show_about(parent: QWidget) -> QMessageBox:
    """Open the box, without blocking."""
    try:
        number = version("primus-studio")
    except PackageNotFoundError:
        number = "(not installed)"
    box = QMessageBox(QMessageBox.Icon.Information, "About Primus Studio", f"Primus Studio {number}", parent=parent)
    box.setInformativeText(WORDS)
    box.open()
    return box
