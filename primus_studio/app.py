"""Puts the window together: application, document, engine, panels. Everything Qt starts here."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from PySide6.QtCore import QMessageLogContext, QtMsgType
    from PySide6.QtWidgets import QApplication, QWidget

    from primus_studio.window.main_window import MainWindow
    from projectors.inputs.study import Study

FIRST_STUDY = "mixtral-8x22b-mi355x-4x8"
"""Shipped study that the window opens with when none is named."""

PICTURE_WITHOUT_DISPLAY = "primus-studio.png"

PICTURE_SIZE = (1280, 800)
"""Of the window in a picture whose size nobody named, in logical pixels."""

OFFSCREEN_NOTES = ("This plugin does not support raise()", "This plugin does not support propagateSizeHints()")
"""What Qt's offscreen plugin says about windows that nobody sees."""

EVENT_PAUSE_SECONDS = 0.005

SETTLE_SECONDS = 0.25
"""For layouts and delayed states to come to rest before a picture is taken."""

DRAW_SECONDS = 20.0
"""How long a picture waits for the engine: a cold worker takes two to three seconds."""


def run_window(study_reference: str | None) -> int:
    """Open the window on a study (a file or a shipped name) and run until it is closed; the exit status.

    Without a display the window is drawn into a picture in the current folder instead. Raises InputError where that
    picture's study cannot be read; a study named for a window on a display is reported in the window.
    """
    missing = _missing_library()
    if missing:
        print(missing, file=sys.stderr)
        return 2
    if not _has_display():
        return _draw_without_display(study_reference or FIRST_STUDY)
    from PySide6.QtCore import QTimer

    from primus_studio.window.faults import report_faults

    application = _application()
    window = _window()
    report_faults(window)
    window.show()
    QTimer.singleShot(0, window, lambda: _start(window, study_reference))
    return int(application.exec())


def screenshot(
    study: Study, out: Path, panel: str | None, theme: str, size: tuple[int, int] | None, scale: float
) -> None:
    """Draw the window, or one panel of it, offscreen into a PNG.

    `size` is in logical pixels; None draws a panel as large as it stands in the window. `scale` is the device pixels per
    logical one. Raises InputError for an unknown panel or a place that cannot be written.
    """
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    os.environ["QT_SCALE_FACTOR"] = str(scale)
    from primus_studio import theme as themes
    from primus_studio.panels.table import PANELS
    from primus_studio.services.projection_state import Status
    from projectors.inputs.errors import InputError, InputProblem

    names = [entry.id for entry in PANELS]
    if panel is not None and panel not in names:
        raise InputError([InputProblem(where="--panel", found=panel, allowed=", ".join(names), file="command line")])
    application = _application()
    themes.apply(application, themes.Mode(theme))
    with _without_offscreen_notes():
        window = _window(remembers=False)
        window.resize(*(size if size and not panel else PICTURE_SIZE))
        window.show()
        window.rearrange()
        window.engine.start()
        window.document.new(study, "Open")
        _wait(application, lambda: window.engine.state.status not in (Status.EMPTY, Status.BUSY))
        shown = window if panel is None else _alone(window, panel, size)
        _wait(application, lambda: False, SETTLE_SECONDS)
        try:
            _save_picture(shown, out)
        finally:
            window.leave()


def _start(window: MainWindow, study_reference: str | None) -> None:
    """What comes after the first paint: the engine, the study, what a crash left behind."""
    window.engine.start()
    window.open(study_reference or FIRST_STUDY)
    window.offer_recovery()


def _draw_without_display(study_reference: str) -> int:
    from projectors.inputs.loading import load_study

    study = load_study(study_reference)
    out = Path(PICTURE_WITHOUT_DISPLAY).resolve()
    print("There is no display (neither DISPLAY nor WAYLAND_DISPLAY is set), so the window is drawn into a picture:", flush=True)
    screenshot(study, out, None, "dark", None, 1.0)
    print(out)
    return 0


def _missing_library() -> str:
    """What to install where Qt cannot be loaded, empty where it can."""
    try:
        import PySide6.QtWidgets  # noqa: F401
    except ModuleNotFoundError:
        return "The window needs PySide6, which the extra gui brings: pip install 'primus-studio[gui]'"
    except ImportError as error:
        return f"Qt cannot start: {error}. `make setup` names and installs the system libraries that it needs."
    return ""


def _has_display() -> bool:
    """Whether there is something to show a window on. Only X11 and Wayland can be missing."""
    if sys.platform != "linux" or os.environ.get("QT_QPA_PLATFORM"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _application() -> QApplication:
    """The one application of this process."""
    from PySide6.QtWidgets import QApplication

    running = QApplication.instance()
    if isinstance(running, QApplication):
        return running
    application = QApplication(sys.argv[:1])
    application.setApplicationName("primus-studio")
    application.setApplicationDisplayName("Primus Studio")
    application.setDesktopFileName("primus-studio")
    return application


def _window(*, remembers: bool = True) -> MainWindow:
    """A window with an empty document and an engine that is not started."""
    from PySide6.QtWidgets import QApplication

    from primus_studio import theme as themes
    from primus_studio.document.state import StudyDocument
    from primus_studio.panels.panel import PanelContext
    from primus_studio.services.engine import EngineService
    from primus_studio.services.settings import Settings
    from primus_studio.window.main_window import MainWindow

    settings = Settings() if remembers else Settings.forgetful()
    application = QApplication.instance()
    if remembers and isinstance(application, QApplication):
        themes.apply(application, themes.Mode(settings.theme))
    return MainWindow(PanelContext(StudyDocument(), EngineService()), settings)


def _alone(window: MainWindow, panel: str, size: tuple[int, int] | None) -> QWidget:
    """One panel: in its place before all that share it, or floating in the size asked for."""
    dock = window.docks[panel]
    dock.show()
    dock.raise_()
    content = dock.widget()
    if size is not None:
        dock.setFloating(True)
        content.setFixedSize(*size)
    return content


@contextlib.contextmanager
def _without_offscreen_notes() -> Iterator[None]:
    """Leave out what Qt's offscreen plugin cannot do, and pass on what else Qt says."""
    from PySide6.QtCore import qFormatLogMessage, qInstallMessageHandler

    def pass_on(kind: QtMsgType, context: QMessageLogContext, text: str) -> None:
        if text in OFFSCREEN_NOTES:
            return
        if before is None:
            print(qFormatLogMessage(kind, context, text), file=sys.stderr)
        else:
            before(kind, context, text)

    before = qInstallMessageHandler(pass_on)
    try:
        yield
    finally:
        qInstallMessageHandler(before)


def _wait(application: QApplication, done: Callable[[], bool], seconds: float = DRAW_SECONDS) -> None:
    """Let Qt work until `done` or the time is up."""
    end = time.monotonic() + seconds
    while not done() and time.monotonic() < end:
        application.processEvents()
        time.sleep(EVENT_PAUSE_SECONDS)


def _save_picture(shown: QWidget, out: Path) -> None:
    """Write a PNG whole or not at all."""
    from PySide6.QtCore import QBuffer, QIODevice

    from projectors.inputs.saving import write_atomically

    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    shown.grab().save(buffer, "PNG")
    write_atomically(out, bytes(buffer.data().data()))
