"""What every test stands on: no screen, no profiles or settings of the person who runs it, nothing left behind."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# Before any test module imports Qt or asks platformdirs for a folder; worker processes inherit both.
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
_home = tempfile.TemporaryDirectory(prefix="primus-studio-tests-")
for _kind in ("CONFIG", "DATA", "STATE"):
    os.environ[f"XDG_{_kind}_HOME"] = str(Path(_home.name) / _kind.lower())


def pytest_unconfigure() -> None:
    """Remove the folders that stood in for the user's."""
    _home.cleanup()


@pytest.fixture(autouse=True)
def _nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that draws closes its windows, and ends the processes that it started."""
    if "qtbot" not in request.fixturenames:
        yield
        return
    from PySide6.QtWidgets import QApplication

    windows = {id(widget) for widget in QApplication.topLevelWidgets()}
    workers = set(multiprocessing.active_children())
    yield
    left = [widget for widget in QApplication.topLevelWidgets() if widget.isVisible() and id(widget) not in windows]
    assert not left, f"windows still open: {left}"
    running = set(multiprocessing.active_children()) - workers
    assert not running, f"processes still running: {running}"
