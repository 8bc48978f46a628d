"""Where profiles lie: the shipped ones beside or inside the package, the user's in the platform's config folder."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

CONFIG_VARIABLE = "PRIMUS_STUDIO_CONFIG"
APPLICATION = "primus-studio"


@lru_cache(maxsize=1)
def shipped_folder() -> Path:
    """Folder of the shipped profiles: `projectors/_profiles` in an installed wheel, `profiles` in a checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "_profiles"
    return inside if inside.is_dir() else package.parent / "profiles"


def config_folder() -> Path:
    """The user's config folder: the environment variable PRIMUS_STUDIO_CONFIG, else the platform's."""
    stated = os.environ.get(CONFIG_VARIABLE)
    return Path(stated).expanduser() if stated else _platform_folder()


@lru_cache(maxsize=1)
def _platform_folder() -> Path:
    import platformdirs

    return Path(platformdirs.user_config_dir(APPLICATION))


def user_folder() -> Path:
    """Folder of the user's profiles; it need not exist. A profile here overrides the shipped one of its name."""
    return config_folder() / "profiles"
