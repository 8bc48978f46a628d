"""What the window remembers between runs: an INI file in the platform's configuration folder."""

from __future__ import annotations

from pathlib import Path

import platformdirs
from PySide6.QtCore import QByteArray, QSettings

from projectors.inputs.places import config_folder

MOST_RECENT = 10

THEMES = ("system", "light", "dark")


class Settings:
    """Typed access; a value that makes no sense counts as not set."""

    def __init__(self, path: Path | None = None) -> None:
        self._store = QSettings(str(path or config_folder() / "window.ini"), QSettings.Format.IniFormat)
        self._remembers = True

    @classmethod
    def forgetful(cls) -> Settings:
        """Reads nothing and writes nothing: for pictures."""
        settings = cls(Path(platformdirs.user_cache_dir("primus-studio")) / "no-such-settings.ini")
        settings._remembers = False
        return settings

    @property
    def theme(self) -> str:
        """system, light or dark."""
        stated = self._read("theme")
        return stated if isinstance(stated, str) and stated in THEMES else THEMES[0]

    @theme.setter
    def theme(self, mode: str) -> None:
        self._write("theme", mode)

    @property
    def geometry(self) -> bytes:
        """Place and size of the window, as Qt saved it."""
        return self._bytes("geometry")

    @geometry.setter
    def geometry(self, state: bytes) -> None:
        self._write("geometry", QByteArray(state))

    @property
    def layout(self) -> bytes:
        """Where the docks stand, as Qt saved it."""
        return self._bytes("layout")

    @layout.setter
    def layout(self, state: bytes) -> None:
        self._write("layout", QByteArray(state))

    @property
    def recent(self) -> list[Path]:
        """Files opened or saved last, newest first."""
        stated = self._read("recent")
        names = [stated] if isinstance(stated, str) else stated
        return [Path(name) for name in names if isinstance(name, str)][:MOST_RECENT] if isinstance(names, list) else []

    def add_recent(self, path: Path) -> None:
        """Put a file at the head of the recent ones."""
        absolute = path.resolve()
        others = [other for other in self.recent if other != absolute]
        self._write("recent", [str(known) for known in [absolute, *others][:MOST_RECENT]])

    def _read(self, key: str) -> object:
        return self._store.value(key) if self._remembers else None

    def _bytes(self, key: str) -> bytes:
        stated = self._read(key)
        return bytes(stated.data()) if isinstance(stated, QByteArray) else b""

    def _write(self, key: str, value: object) -> None:
        if self._remembers:
            self._store.setValue(key, value)
