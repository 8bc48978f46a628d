"""Rules of the house that no linter sees: what an import costs, what Qt may break, what is pinned."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PACKAGING = ROOT / "packaging"
SOURCES = [path for room in ("projectors", "primus_studio", "packaging", "tests") for path in sorted((ROOT / room).rglob("*.py"))]

MOST_LINES = 400
"""A module has one subject; a reader holds a few hundred lines."""

HEAVY = {"torch", "pandas", "numba", "pyqtgraph", "openai"}
"""Each takes 0.3 s to 3 s to import (measured on two cores), and a first answer from the shell has 0.7 s."""


def loaded_after(statement: str) -> set[str]:
    """Top-level packages that a fresh interpreter holds after a statement."""
    script = f"import json, sys\n{statement}\nprint(json.dumps(sorted({{name.partition('.')[0] for name in sys.modules}})))"
    result = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(json.loads(result.stdout))


def test_the_engine_answers_without_qt_or_anything_heavy() -> None:
    assert not loaded_after("import projectors.projection") & (HEAVY | {"PySide6"})


def test_the_command_line_answers_without_qt_or_anything_heavy() -> None:
    commands = "import primus_studio.commands, projectors.reports"
    assert not loaded_after(commands) & (HEAVY | {"PySide6"})


def test_spawned_workers_find_the_entry_point_empty() -> None:
    """A spawned process imports `__main__` anew: 700 ms with Qt in it, 50 ms without (measured)."""
    loaded = loaded_after("import primus_studio.__main__")
    assert not loaded & (HEAVY | {"PySide6", "numpy", "pydantic"})


def test_the_window_starts_without_anything_heavy() -> None:
    assert not loaded_after("import primus_studio.app") & HEAVY


CALLS = 1_000


def test_qt_calls_that_answer_nothing_keep_none_alive(qapp: object) -> None:
    """PySide6 6.12.0 drops references to None on Python 3.11 until the interpreter aborts: hence the cap in pyproject.

    From Python 3.12 on None is immortal and its count stands still.
    """
    from PySide6.QtWidgets import QLabel

    label = QLabel()
    before = sys.getrefcount(None)
    for number in range(CALLS):
        label.setText(str(number))
        label.update()
    lost = before - sys.getrefcount(None)
    assert lost < CALLS / 10


def test_every_file_can_be_held_in_mind() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert not {name: length for name, length in lengths.items() if length > MOST_LINES}


def imported_names(path: Path) -> set[str]:
    """Dotted names of every import in a file, lazy ones too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("room", ["document", "services"])
def test_what_is_edited_and_asked_for_knows_no_widget(room: str) -> None:
    """The document and the services run in tests and workers without a screen."""
    files = sorted((ROOT / "primus_studio" / room).rglob("*.py"))
    assert files
    assert not [str(path) for path in files if "PySide6.QtWidgets" in imported_names(path)]


def test_torch_is_imported_by_the_benchmark_worker_alone() -> None:
    engine = [path for path in SOURCES if path.is_relative_to(ROOT / "projectors") or path.is_relative_to(ROOT / "primus_studio")]
    importers = [path for path in engine if any(re.match(r"torch(\.|$)", name) for name in imported_names(path))]
    assert all(path.is_relative_to(ROOT / "projectors" / "benchmark") for path in importers)


def pins(name: str) -> dict[str, str]:
    """Package -> version of one lock file."""
    lines = (PACKAGING / name).read_text(encoding="utf-8").splitlines()
    pairs = [line.partition("==") for line in lines if line and not line.startswith(("#", "-r"))]
    assert all(version for _, _, version in pairs), "every line of a lock pins a version"
    return {canonicalize_name(package): version for package, _, version in pairs}


def project() -> dict[str, object]:
    """The project table of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def wishes(*extras: str) -> list[Requirement]:
    """What pyproject.toml asks for, in the core or in some extras."""
    table = project()
    lines = [line for extra in extras for line in table["optional-dependencies"][extra]] if extras else table["dependencies"]
    return [Requirement(line) for line in lines]


@pytest.mark.parametrize("wish", wishes() + wishes("gui", "agent"), ids=str)
def test_what_runs_is_pinned_within_its_range(wish: Requirement) -> None:
    assert wish.specifier.contains(pins("requirements.lock")[canonicalize_name(wish.name)])


@pytest.mark.parametrize("wish", wishes("dev", "benchmark"), ids=str)
def test_what_tests_is_pinned_within_its_range(wish: Requirement) -> None:
    assert wish.specifier.contains(pins("requirements-dev.lock")[canonicalize_name(wish.name)])


def test_a_planner_installs_no_torch() -> None:
    assert "torch" not in pins("requirements.lock")


def test_no_package_is_pinned_twice() -> None:
    assert not pins("requirements.lock").keys() & pins("requirements-dev.lock").keys()
