"""Where the window's own files lie: beside the packages in a checkout, inside the package once installed."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path


@lru_cache(maxsize=1)
def resources_folder() -> Path:
    """Folder of icons and help."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "_resources"
    return inside if inside.is_dir() else package.parent / "resources"
