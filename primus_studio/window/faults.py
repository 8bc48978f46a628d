"""A fault of the program: nothing is lost, and the user gets words and a report to copy, never a dead window."""

from __future__ import annotations

import faulthandler
import os
import platform
import re
import sys
import threading
import traceback
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

import platformdirs
from PySide6.QtCore import QObject, Qt, Signal, qVersion
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMessageBox

if TYPE_CHECKING:
    from primus_studio.window.main_window import MainWindow

MOST_REPORTS = 1
"""Report boxes at a time: a fault in a paint routine comes sixty times a second."""


class Faults(QObject):
    """Carries faults of any thread to the window."""

    happened = Signal(str)

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)
        self._window = window
        self._open: list[QMessageBox] = []
        self.happened.connect(self._show, Qt.ConnectionType.QueuedConnection)

    def _show(self, report: str) -> None:
        if len(self._open) >= MOST_REPORTS:
            return
        box = QMessageBox(
            QMessageBox.Icon.Critical, "A fault of the program",
            "Something in Primus Studio went wrong. The study is kept; please report what the details say.", parent=self._window,
        )
        box.setDetailedText(report)
        copy = box.addButton("Copy report", QMessageBox.ButtonRole.ActionRole)
        box.addButton(QMessageBox.StandardButton.Close)
        copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(report))
        box.finished.connect(lambda _result: self._open.remove(box))
        self._open.append(box)
        box.open()


def report_faults(window: MainWindow) -> Faults:
    """From here on every uncaught exception saves the study aside and is reported in a box; crashes leave a trace file."""
    faults = Faults(window)

    def caught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, trace)
            return
        window.document.keep_now()
        report = fault_report(error, trace)
        print(report, file=sys.stderr)
        faults.happened.emit(report)

    sys.excepthook = caught
    threading.excepthook = lambda args: caught(args.exc_type, args.exc_value or RuntimeError("unknown"), args.exc_traceback)
    _trace_crashes()
    return faults


def fault_report(error: BaseException, trace: TracebackType | None) -> str:
    """What a developer needs: versions and the traceback, without keys, tokens or the user's name."""
    lines = traceback.format_exception(type(error), error, trace)
    return scrubbed(f"Python {platform.python_version()}, Qt {qVersion()}, {platform.platform()}\n\n{''.join(lines)}")


SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD")
"""Ends of the names of environment variables whose values never leave the process."""

SHORTEST_SECRET = 6
"""Characters; shorter values of such variables are settings, and would blank out ordinary words."""

_SECRET = re.compile(r"\b(?:sk|hf|ghp|glpat)[-_][\w-]{8,}|(?<=Bearer )\S+|(?<=://)[^/@\s:]+:[^/@\s]+(?=@)")
"""What keys of model providers and hosts, bearer tokens, and passwords in addresses look like."""


def scrubbed(report: str) -> str:
    """A text without what looks like a secret, and with ~ for the home folder."""
    for name, value in os.environ.items():
        if name.upper().endswith(SECRET_NAMES) and len(value) >= SHORTEST_SECRET:
            report = report.replace(value, "***")
    report = _SECRET.sub("***", report)
    home = str(Path.home())
    return report.replace(home, "~") if len(home) > 1 else report


_CRASH_FILES: list[TextIO] = []
"""Kept open as long as the process lives: faulthandler writes to their descriptors."""


def _trace_crashes() -> None:
    """A segmentation fault writes its stack into a file of the log folder."""
    path = Path(platformdirs.user_log_dir("primus-studio")) / "crash.log"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _CRASH_FILES.append(path.open("w", encoding="utf-8"))
    except OSError:
        return  # no place to write: crashes then go to standard error, as they do without this
    faulthandler.enable(_CRASH_FILES[-1])
