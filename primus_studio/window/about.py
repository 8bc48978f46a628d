"""Help → About."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from PySide6.QtWidgets import QMessageBox, QWidget

WORDS = """Memory and throughput of distributed LLM training, before anyone queues a job.

Every number comes from the engine or from a profile that states its source. Layer times are simulated; measuring them on
a local device needs PyTorch, which the extra "benchmark" brings: pip install 'primus-studio[benchmark]'.

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
