"""A fault of the program loses nothing and tells nothing that is private."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMainWindow, QMessageBox
from pytestqt.qtbot import QtBot

from primus_studio.document.autosave import recovery_folder
from primus_studio.document.state import StudyDocument
from primus_studio.window import faults
from primus_studio.window.faults import report_faults, scrubbed
from projectors.inputs.loading import load_study


class Host(QMainWindow):
    """What a fault needs of the window: the open document."""

    def __init__(self) -> None:
        super().__init__()
        self.document = StudyDocument(self)
        assert self.document.open("mixtral-8x22b-mi355x-4x8") is None


@pytest.fixture
def host(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Host]:
    """A window whose faults are reported, the hooks put back afterwards."""
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    monkeypatch.setattr(faults, "_trace_crashes", lambda: None)
    opened = Host()
    report_faults(opened)  # type: ignore[arg-type]
    yield opened
    for box in opened.findChildren(QMessageBox):
        box.close()
    opened.document.close()
    opened.deleteLater()
    qtbot.wait(1)


def fail() -> None:
    raise RuntimeError("the pipeline kernel answered with key sk-abcdef0123456789")


def hooked() -> None:
    try:
        fail()
    except RuntimeError as error:
        sys.excepthook(type(error), error, error.__traceback__)


def boxes(host: Host) -> list[QMessageBox]:
    return [box for box in host.findChildren(QMessageBox) if box.isVisible()]


def test_an_uncaught_fault_keeps_the_study_and_shows_a_report(host: Host, qtbot: QtBot) -> None:
    before = set(recovery_folder().glob("*.study.yaml"))
    host.document.edit("recipe.mbs", 1)
    hooked()
    kept = set(recovery_folder().glob("*.study.yaml")) - before
    assert [load_study(path).recipe.mbs for path in kept] == [1]
    qtbot.waitUntil(lambda: bool(boxes(host)))
    (box,) = boxes(host)
    report = box.detailedText()
    assert "the pipeline kernel answered" in report
    assert "PySide6" not in box.text()
    (copy,) = [button for button in box.buttons() if button.text() == "Copy report"]
    copy.click()
    assert QGuiApplication.clipboard().text() == report
    assert "sk-abcdef" not in report


def test_a_storm_of_faults_is_one_box(host: Host, qtbot: QtBot) -> None:
    for _ in range(20):
        hooked()
    qtbot.waitUntil(lambda: bool(boxes(host)))
    assert len(boxes(host)) == 1


def test_a_fault_of_a_thread_is_reported_too(host: Host, qtbot: QtBot) -> None:
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    qtbot.waitUntil(lambda: bool(boxes(host)))


def test_reports_hold_no_secret_and_no_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "quite-secret-value")
    text = f"quite-secret-value {Path.home()}/work Bearer abc.def https://me:word@host/x hf_0123456789abc tp=4"
    assert scrubbed(text) == "*** ~/work Bearer *** https://***@host/x *** tp=4"
