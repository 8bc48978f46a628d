"""Prints the Debian packages that Qt needs and this machine lacks, in one line; nothing where all is there.

Each library is looked for the way Qt will look for it: by loading it. The list was found by adding packages to a bare
Debian 12 root one at a time until the window came up.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys

DRAWING = {
    "libglib-2.0.so.0": "libglib2.0-0",
    "libGL.so.1": "libgl1",
    "libEGL.so.1": "libegl1",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libfontconfig.so.1": "libfontconfig1",
    "libdbus-1.so.3": "libdbus-1-3",
}
"""QtGui itself; enough for the offscreen platform."""

WINDOW = {
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-randr.so.0": "libxcb-randr0",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
    "libX11-xcb.so.1": "libx11-xcb1",
}
"""The xcb platform plugin: a window on an X display, real or virtual."""

TEST_PROGRAMS = {"Xvfb": "xvfb", "xauth": "xauth"}
"""A virtual display for the tests that need one."""


def main() -> None:
    """Takes `run` or `dev` as its one argument."""
    libraries = DRAWING | WINDOW
    missing = [package for library, package in libraries.items() if not _loads(library)]
    if sys.argv[1:] == ["dev"]:
        missing += [package for program, package in TEST_PROGRAMS.items() if shutil.which(program) is None]
    print(" ".join(_local_name(package) for package in missing))


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _local_name(package: str) -> str:
    """Ubuntu 24.04 and Debian 13 renamed some libraries in their move to 64-bit time: `libglib2.0-0t64`."""
    renamed = f"{package}t64"
    apt = shutil.which("apt-cache")
    if apt is None:
        return package
    policy = subprocess.run([apt, "policy", renamed], capture_output=True, text=True, check=False).stdout  # noqa: S603
    return renamed if "Candidate: " in policy and "Candidate: (none)" not in policy else package


if __name__ == "__main__":
    main()
