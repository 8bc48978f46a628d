"""The command line: exit status, JSON, and words for every kind of bad input."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from primus_studio import cli
from primus_studio.cli import Exit

START = "version: 1\nmodel: mixtral-8x22b\ncluster: mi355x-4x8\n"
MIXTRAL = "mixtral-8x22b-mi355x-4x8"
FITTING = (MIXTRAL, "--set", "recipe.recompute=full")
"""A recipe with room to spare, whatever the activations come to."""

SHIPPED = (
    MIXTRAL, "llama3.1-70b-h100-8x8", "deepseek-v3-h100-128x8", "qwen3-235b-a22b-mi355x-32x8", "llama3.1-8b-h100-1x1",
)
"""Studies that the contract promises."""


def program(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the program in a fresh process."""
    return subprocess.run(
        [sys.executable, "-m", "primus_studio", *map(str, arguments)],
        capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "PYTHONUTF8": "1", **environment},
    )


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    """Run the command line in this process: exit status, standard output, standard error."""
    status = cli.run([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "my.study.yaml"
    path.write_text(
        START + "recipe:\n  pp: 4\n  ep: 8\n  mbs: 2\n  gbs: 256\n  seq_length: 8192\n"
    )
    return path


@pytest.mark.parametrize("name", SHIPPED)
def test_every_promised_study_is_projected_and_fits(capsys: pytest.CaptureFixture[str], name: str) -> None:
    status, out, err = run(capsys, "project", name, "--json")
    data = json.loads(out)
    assert (status, err) == (Exit.ANSWERED, "")
    assert data["legal"]
    assert data["feasible"]
    parts = [data["step"][key] for key in ("compute", "recompute", "bubble", "optimizer", "other")]
    assert sum(parts) + sum(data["step"]["exposed"].values()) == pytest.approx(data["step"]["seconds"], rel=1e-12)
    for rank in data["memory"]["ranks"]:
        assert sum(value for key, value in rank.items() if key not in ("rank", "total", "in_flight")) == rank["total"]


def test_mixtral_has_eight_replicas_of_sixteen_microbatches(capsys: pytest.CaptureFixture[str]) -> None:
    """The contract's example."""
    _, out, _ = run(capsys, "project", MIXTRAL, "--json")
    data = json.loads(out)
    assert (data["dp"], data["gpus"], data["microbatches"], data["pipeline"]["schedule"]) == (8, 32, 16, "1f1b")
    assert data["parameters"]["total"] == 140_620_634_112  # profiles/models, published


def test_a_fresh_process_answers_in_words() -> None:
    done = program("project", *FITTING)
    assert (done.returncode, done.stderr) == (0, "")
    for words in ("mixtral-8x22b", "tok/s/GPU", "MFU", "Fits with", "Memory per GPU, GiB", "Step"):
        assert words in done.stdout


def test_set_changes_one_value_and_may_be_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "memory", *FITTING, "--json", "--set", "recipe.tp=2", "--set", "recipe.mbs=1")
    data = json.loads(out)
    assert (status, data["dp"], data["microbatches"]) == (0, 4, 64)


def test_memory_gives_ranks_and_components(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "memory", *FITTING)
    assert status == 0
    assert "Activations" in out
    assert "tok/s" not in out


def test_an_illegal_recipe_ends_with_1_and_all_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "project", MIXTRAL, "--json", "--set", "recipe.tp=3")
    data = json.loads(out)
    assert status == Exit.ILLEGAL
    assert not data["legal"]
    assert data["memory"] is None
    assert {violation["rule"] for violation in data["illegal"]} >= {"tp-fits-query-groups", "replicas-fill-the-cluster"}
    assert len(err.splitlines()) == len(data["illegal"])
    assert "nearest legal recipe.tp is 2" in err


def test_a_recipe_that_does_not_fit_ends_with_1_and_says_by_how_much(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "project", MIXTRAL, "--json", "--set", "recipe.mbs=16")
    data = json.loads(out)
    assert (status, data["legal"], data["feasible"]) == (Exit.ILLEGAL, True, False)
    assert "Does not fit by" in err
    assert data["memory"]["peak_bytes"] > data["memory"]["capacity_bytes"] * 0.9


def test_the_timeline_lists_every_pass(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "timeline", *FITTING, "--json")
    data = json.loads(out)
    assert status == 0
    assert len(data["events"]) == 4 * 16 * 2  # ranks x microbatches x (forward, backward)
    assert max(event["end"] for event in data["events"]) == pytest.approx(data["pipeline"]["makespan"])


def test_the_trace_loads_in_trace_viewers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Trace-event format: complete events (ph X) with ts and dur in microseconds."""
    status, out, _ = run(capsys, "timeline", *FITTING, "--chrome-trace", tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert status == 0
    assert "makespan" in out
    complete = [event for event in events if event["ph"] == "X"]
    assert len([event for event in complete if event["cat"] != "optimizer"]) == 4 * 16 * 2
    assert sorted(event["pid"] for event in complete if event["cat"] == "optimizer") == [0, 1, 2, 3]
    assert all(event["dur"] > 0 and event["ts"] >= 0 for event in complete)
    assert {event["ph"] for event in events} == {"M", "X", "s", "f", "C"}


def test_events_go_into_a_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, _, _ = run(capsys, "timeline", *FITTING, "--csv", tmp_path / "events.csv")
    lines = (tmp_path / "events.csv").read_text().splitlines()
    assert status == 0
    assert lines[0] == "rank,chunk,virtual_stage,microbatch,kind,start_s,end_s"
    assert len(lines) == 1 + 4 * 16 * 2


def test_a_trace_that_cannot_be_written_is_answered_in_words(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, _, err = run(capsys, "timeline", *FITTING, "--chrome-trace", tmp_path / "missing" / "trace.json")
    assert status == Exit.USAGE
    assert "cannot be written" in err


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        (START + "recipe:\n  gbs: 256\n  seq_length: 8192\n  tpp: 4\n", ":7:3", "tp"),
        (START + "recipe:\n  gbs: many\n  seq_length: 8192\n", ":5:", "many"),
        ("version: 1\nmodel: mixtral-8x22\ncluster: mi355x-4x8\nrecipe: {gbs: 256, seq_length: 8192}\n", ":2:", "mixtral-8x22b"),
        (START + "recipe: {gbs: 256, seq_length: 8192, tp: 0}\n", ":4:", "tp"),
        (START + "recipe: {gbs: 256, seq_length: 8192, tp: -4}\n", ":4:", "-4"),
        (START + "recipe: {gbs: 1e40, seq_length: 8192}\n", ":4:", "gbs"),
        (START + "recipe: {gbs: 256, seq_length: [81", ":5:1", "cut off"),
        ("version: 1\nmodel: {extends: nowhere}\ncluster: mi355x-4x8\nrecipe: {gbs: 256, seq_length: 8192}\n", ":2:", "nowhere"),
    ],
    ids=["unknown key", "wrong type", "missing model", "zero", "negative", "huge", "truncated", "missing base"],
)
def test_bad_studies_end_with_2_and_name_file_line_and_fault(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, place: str, words: str
) -> None:
    path = tmp_path / "bad.study.yaml"
    path.write_text(text)
    status, out, err = run(capsys, "project", path)
    assert (status, out) == (Exit.USAGE, "")
    assert f"bad.study.yaml{place}" in err
    assert words in err
    assert "Traceback" not in err


def test_cyclic_extends_is_named(capsys: pytest.CaptureFixture[str], study: Path) -> None:
    for name, base in (("a", "b"), ("b", "a")):
        (study.parent / f"{name}.yaml").write_text(f"name: {name}\nextends: ./{base}.yaml\n")
    status, _, err = run(capsys, "project", study, "--set", f"model={study.parent / 'a.yaml'}")
    assert status == Exit.USAGE
    assert "a -> b -> a" in err


def test_files_that_are_no_study_are_refused_in_words(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    binary, empty, missing = tmp_path / "binary.yaml", tmp_path / "empty.yaml", tmp_path / "missing.yaml"
    binary.write_bytes(bytes(range(256)))
    empty.write_text("")
    for path in (binary, empty, missing, tmp_path):
        status, out, err = run(capsys, "project", path)
        assert (status, out) == (Exit.USAGE, "")
        assert err.startswith(str(path))
        assert "Traceback" not in err


def test_a_huge_value_is_illegal_or_refused_never_a_crash(capsys: pytest.CaptureFixture[str], study: Path) -> None:
    refused = dict.fromkeys(("1000001", "9" * 5000, "0", "-1"), Exit.USAGE)
    for value, status in {"1000000": Exit.ILLEGAL, **refused}.items():
        found, _, err = run(capsys, "project", study, "--set", f"recipe.tp={value}")
        assert found == status
        assert "tp" in err


@pytest.mark.parametrize("assignment", ["recipe.tpp=4", "recipe.tp", "recipe.tp=four", "=4", "no.such=1", "recipe.precision=fp9"])
def test_overrides_are_checked_like_files(capsys: pytest.CaptureFixture[str], assignment: str) -> None:
    status, out, err = run(capsys, "project", MIXTRAL, "--set", assignment)
    assert (status, out) == (Exit.USAGE, "")
    assert err.startswith("--set")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("project",), "STUDY"),
        (("show",), "KIND"),
        (("show", "cars"), "models"),
        (("projct", MIXTRAL, "--json"), "did you mean project?"),
        (("project", MIXTRAL, "--jsn"), "--jsn"),
        (("screenshot", MIXTRAL, "out.png", "--size", "0x800"), "1280x800"),
        (("screenshot", MIXTRAL, "out.png", "--scale", "nan"), "above 0"),
        (("screenshot", MIXTRAL, "out.png", "--theme", "blue"), "dark"),
    ],
)
def test_bad_usage_ends_with_2_and_says_what_is_allowed(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    status, _, err = run(capsys, *arguments)
    assert status == Exit.USAGE
    assert words in err


def test_help_and_version_need_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "--help")
    assert status == 0
    for command in ("project", "memory", "timeline", "show", "screenshot"):
        assert command in out
    assert run(capsys, "--version")[1].startswith("primus-studio")


@pytest.mark.parametrize("kind", cli.KINDS)
def test_show_lists_every_profile_of_a_kind(capsys: pytest.CaptureFixture[str], kind: str) -> None:
    status, out, _ = run(capsys, "show", kind, "--json")
    names = [entry["name"] for entry in json.loads(out)]
    assert status == 0
    assert names == sorted(names)
    status, out, _ = run(capsys, "show", kind)
    assert status == 0
    assert all(any(line.split()[0] == name for line in out.splitlines()) for name in names)


@pytest.mark.parametrize(
    ("kind", "name"), [("models", "deepseek-v3"), ("hardware", "h100"), ("clusters", "gb200-18x4"), ("studies", MIXTRAL)]
)
def test_show_gives_one_profile_in_full(capsys: pytest.CaptureFixture[str], kind: str, name: str) -> None:
    assert name.partition("-")[0] in run(capsys, "show", kind, name)[1]
    data: dict[str, Any] = json.loads(run(capsys, "show", kind, name, "--json")[1])
    assert data


def test_a_models_json_is_its_card_with_parameter_counts(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(run(capsys, "show", "models", "mixtral-8x22b", "--json")[1])
    assert data["num_layers"] == 56
    assert data["parameters"] == {"total": 140_620_634_112, "active": 39_152_031_744}


def test_an_unknown_profile_ends_with_2_and_names_near_ones(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, "show", "models", "mixtral-8x22")
    assert status == Exit.USAGE
    assert "mixtral-8x22b" in err


def test_a_broken_user_profile_does_not_hide_the_others(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "profiles" / "models"
    folder.mkdir(parents=True)
    (folder / "broken.yaml").write_text("name: broken\nnum_layers: many\n")
    monkeypatch.setenv("PRIMUS_STUDIO_CONFIG", str(tmp_path))
    status, out, _ = run(capsys, "show", "models")
    assert status == 0
    assert "mixtral-8x22b" in out
    assert "broken:" in out


def test_a_reader_that_leaves_early_is_no_fault() -> None:
    """`primus-studio show models NAME --json | head -0`."""
    with subprocess.Popen(
        [sys.executable, "-m", "primus_studio", "timeline", "deepseek-v3-h100-128x8", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode in (Exit.ANSWERED, -signal.SIGPIPE)


def test_a_fault_of_the_program_is_one_line_and_a_log(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from projectors import projection

    def fail(_: object) -> None:
        raise RuntimeError("the unexpected")

    monkeypatch.setattr(projection, "project_study", fail)
    monkeypatch.setattr("platformdirs.user_log_dir", lambda _: str(tmp_path))
    status, _, err = run(capsys, "project", MIXTRAL)
    (log,) = tmp_path.iterdir()
    assert status == Exit.FAULT
    assert len(err.splitlines()) == 1
    assert str(log) in err
    assert "the unexpected" in log.read_text()
    assert "Traceback" in log.read_text()


def test_a_terminal_without_special_characters_still_gets_its_answer() -> None:
    done = program("timeline", *FITTING, PYTHONUTF8="0", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert (done.returncode, done.stderr) == (0, "")
    assert "makespan" in done.stdout


def test_the_command_line_loads_neither_window_nor_compiler() -> None:
    heavy = ("PySide6", "pyqtgraph", "torch", "pandas", "numba", "typer", "rich", "ruamel", "openai")
    code = (
        f"import sys; from primus_studio.cli import run; run(['project', *{FITTING!r}, '--json']); "
        f"sys.exit(','.join(name for name in {heavy!r} if name in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
