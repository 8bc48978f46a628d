"""Profiles of the tests' own user folder, never of the person who runs them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from projectors.inputs.places import CONFIG_VARIABLE


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty config folder."""
    folder = tmp_path / "config"
    monkeypatch.setenv(CONFIG_VARIABLE, str(folder))
    return folder


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    """Write a file below the test's folder."""

    def writer(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return writer
