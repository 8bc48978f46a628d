"""Writes requirements.lock and requirements-dev.lock: what a clean environment resolves pyproject.toml to, pinned.

Run it with the oldest supported Python, since a newer one may resolve to releases that the oldest cannot install:

    python3.11 packaging/lock.py
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUN_EXTRAS = ("gui", "agent")
DEV_EXTRAS = ("dev", "benchmark")

TORCH = "torch==2.13.0"
"""Pinned by hand: plain `torch` resolves to a CUDA build of several GB, and the tests need the CPU alone."""

RUN_HEADER = """\
# What `make run` installs: the engine, the command line, the window and the agent. No torch.
# Written by packaging/lock.py on Python 3.11; installs on 3.11 to 3.13. Change pyproject.toml, then write it again.
"""
DEV_HEADER = """\
# What `make test` adds: checkers, test runners, and torch for the benchmark worker.
# Written by packaging/lock.py; change pyproject.toml, then write it again.
# A CPU build of torch serves. Where pip would take a CUDA build, install the CPU wheel of this release into .venv first,
# from an index of your choice (`.venv/bin/pip install --index-url ... torch==...`): the pin is then already satisfied.
-r requirements.lock
"""


def main() -> None:
    """Resolves twice in one fresh environment: what runs, then what the tests add."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        run = _freeze(python, project["dependencies"] + [wish for extra in RUN_EXTRAS for wish in extras[extra]])
        dev = _freeze(python, [TORCH] + [wish for extra in DEV_EXTRAS for wish in extras[extra]])
    if missing := set(run) - set(dev):
        sys.exit(f"the test tools change what runs: {', '.join(sorted(missing))}")
    _write("requirements.lock", RUN_HEADER, run)
    _write("requirements-dev.lock", DEV_HEADER, [pin for pin in dev if pin not in set(run)])


def _freeze(python: Path, wishes: list[str]) -> list[str]:
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", *wishes], check=True)  # noqa: S603 - our own pyproject's words
    frozen = subprocess.run([*pip, "freeze"], check=True, capture_output=True, text=True).stdout  # noqa: S603
    return [_without_build(line) for line in frozen.splitlines()]


def _without_build(line: str) -> str:
    """`torch @ file:///...` and `torch==2.13.0+cpu` both name a build of one machine; the pin names the release."""
    if line.partition("==")[0].partition(" @ ")[0] == TORCH.partition("==")[0]:
        return TORCH
    return re.sub(r"\+\S+$", "", line)


def _write(name: str, header: str, pins: list[str]) -> None:
    (ROOT / "packaging" / name).write_text(header + "".join(f"{pin}\n" for pin in pins), encoding="utf-8")


if __name__ == "__main__":
    main()
