"""Notices when another program writes the open file."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

from PySide6.QtCore import QFileSystemWatcher, QObject, QTimer, Signal

SETTLE_MS = 200
"""Editors write in several steps (truncate and write, or write beside and rename); this long after the last one it is read."""


class FileWatch(QObject):
    """Emits `changed` when the content of the followed file differs from what was last seen here.

    The folder is watched as well: a file that is replaced by another of its name is no longer watched itself.
    """

    changed = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._path: Path | None = None
        self._seen: bytes | None = None
        self._watcher = QFileSystemWatcher(self)
        self._settle = QTimer(self, singleShot=True, interval=SETTLE_MS)
        self._settle.timeout.connect(self._compare)
        self._watcher.fileChanged.connect(self._settle.start)
        self._watcher.directoryChanged.connect(self._settle.start)

    def follow(self, path: Path | None) -> None:
        """Watch this file from its present content on, or nothing."""
        self._settle.stop()
        watched = [*self._watcher.files(), *self._watcher.directories()]
        if watched:
            self._watcher.removePaths(watched)
        self._path, self._seen = path, _content(path)
        if path is not None:
            self._watcher.addPaths([str(path), str(path.parent)])

    def _compare(self) -> None:
        """A file that is gone or cannot be read says nothing: saving writes it anew."""
        if self._path is None:
            return
        content = _content(self._path)
        if content is None or content == self._seen:
            return
        self._seen = content
        if str(self._path) not in self._watcher.files():
            self._watcher.addPath(str(self._path))
        self.changed.emit()


def _content(path: Path | None) -> bytes | None:
    """Digest of a file's bytes, None where it cannot be read."""
    try:
        return None if path is None else blake2b(path.read_bytes()).digest()
    except OSError:
        return None
