"""Unsaved changes are kept beside, two seconds after the last edit, and offered after a crash."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import platformdirs
from PySide6.QtCore import QObject, QTimer

from projectors.inputs.errors import InputError
from projectors.inputs.saving import study_text, write_atomically
from projectors.inputs.study import Study

DELAY_MS = 2000

SUFFIX = ".study.yaml"


def recovery_folder() -> Path:
    """Where unsaved changes are kept."""
    return Path(platformdirs.user_state_dir("primus-studio")) / "recovery"


@dataclass(frozen=True, slots=True)
class Recovery:
    """Unsaved changes that a process left behind."""

    path: Path          # the kept study
    of: Path | None     # the file it belongs to
    title: str
    when: datetime

    @property
    def words(self) -> str:
        """One line for the offer."""
        return f"{self.title}, changed {self.when:%Y-%m-%d %H:%M}" + (f", of {self.of}" if self.of else ", never saved")

    def discard(self) -> None:
        """Remove it."""
        for path in (self.path, _note_of(self.path)):
            with suppress(OSError):
                path.unlink()


def recoverable() -> list[Recovery]:
    """What processes that no longer run left behind, newest first."""
    found = []
    for path in recovery_folder().glob(f"*{SUFFIX}"):
        process = path.name.partition("-")[0]
        if process.isdigit() and _runs(int(process)):
            continue
        with suppress(OSError, ValueError, KeyError, TypeError):
            note = json.loads(_note_of(path).read_text(encoding="utf-8"))
            of = Path(note["of"]) if note["of"] else None
            found.append(Recovery(path, of, str(note["title"]), datetime.fromtimestamp(path.stat().st_mtime).astimezone()))
    return sorted(found, key=lambda recovery: recovery.when, reverse=True)


class Autosave(QObject):
    """Keeps the newest unsaved study of this process."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._pending: tuple[Study, Path | None, str] | None = None
        self._path = recovery_folder() / f"{os.getpid()}-{id(self):x}{SUFFIX}"
        self._timer = QTimer(self, singleShot=True, interval=DELAY_MS)
        self._timer.timeout.connect(self.keep)

    def keep_soon(self, study: Study, of: Path | None, title: str) -> None:
        """Keep `study` once edits pause."""
        self._pending = (study, of, title)
        self._timer.start()

    def keep(self) -> None:
        """Keep what is pending, now. A full or read-only disk must not disturb editing: there is then no copy."""
        self._timer.stop()
        if self._pending is None:
            return
        study, of, title = self._pending
        self._pending = None
        with suppress(OSError, InputError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(_note_of(self._path), json.dumps({"of": str(of) if of else None, "title": title}))
            write_atomically(self._path, study_text(study))

    def forget(self) -> None:
        """Nothing is unsaved any more."""
        self._timer.stop()
        self._pending = None
        for path in (self._path, _note_of(self._path)):
            with suppress(OSError):
                path.unlink()


def _note_of(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(SUFFIX) + ".json")


def _runs(process: int) -> bool:
    """Whether a process with this number is alive (signal 0 asks, it does nothing)."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
