"""The document: every edit can be undone, every bad input leaves it unharmed and is answered in words."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from primus_studio.document.autosave import recoverable, recovery_folder
from primus_studio.document.state import StudyDocument
from projectors.inputs import library
from projectors.inputs.loading import load_study

SHIPPED = "mixtral-8x22b-mi355x-4x8"


@pytest.fixture
def document(qtbot: QtBot) -> StudyDocument:
    """The shipped Mixtral study, open."""
    opened = StudyDocument()
    assert opened.open(SHIPPED) is None
    return opened


def test_an_edit_changes_one_value_and_says_which(document: StudyDocument, qtbot: QtBot) -> None:
    with qtbot.waitSignal(document.study_changed) as heard:
        assert document.edit("recipe.mbs", 1) is None
    study, path = heard.args
    assert (study.recipe.mbs, path) == (1, "recipe.mbs")
    assert document.undo_stack.undoText() == "Set microbatch (mbs) to 1"
    assert document.dirty


def test_undo_restores_the_study_and_its_clean_state(document: StudyDocument) -> None:
    before = document.study
    document.edit("recipe.tp", 2)
    document.edit("cluster.nodes", 8)
    document.undo_stack.undo()
    document.undo_stack.undo()
    assert document.study == before
    assert not document.dirty
    document.undo_stack.redo()
    assert document.study is not None
    assert document.study.recipe.tp == 2


def test_quick_edits_of_one_field_are_one_step(document: StudyDocument) -> None:
    before = document.study
    for nodes in (5, 6, 7):
        document.edit("cluster.nodes", nodes)
    assert document.undo_stack.count() == 1
    document.undo_stack.undo()
    assert document.study == before


def test_edits_of_two_fields_are_two_steps(document: StudyDocument) -> None:
    document.edit("cluster.nodes", 8)
    document.edit("recipe.tp", 2)
    assert document.undo_stack.count() == 2


def test_setting_the_same_value_is_no_step(document: StudyDocument) -> None:
    document.edit("recipe.tp", 1)
    assert document.undo_stack.count() == 0
    assert not document.dirty


@pytest.mark.parametrize(
    ("path", "value", "allowed"),
    [("recipe.tp", 0, "1"), ("recipe.tp", -4, "1"), ("recipe.tp", 10**30, "1000000"), ("recipe.tp", "four", "whole number"),
     ("recipe.schedule", "zbx", "zbv"), ("recipe.tq", 1, "tp"), ("model.num_layers", None, "whole number")],
)
def test_a_refused_edit_says_what_is_allowed_and_changes_nothing(
    document: StudyDocument, path: str, value: object, allowed: str
) -> None:
    before = document.study
    error = document.edit(path, value)
    assert error is not None
    assert allowed in str(error)
    assert document.study == before
    assert document.undo_stack.count() == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"version: 1\nmodel: mixtral-8x22b\ncluster: mi355x-4x8\nrecipe: {gbs: 256, seq_length: 4096, tpp: 2}\n", "tp"),
     (b"version: 1\nmodel: mixtral-8x23b\ncluster: mi355x-4x8\nrecipe: {gbs: 256, seq_length: 4096}\n", "mixtral-8x22b"),
     (b"version: 1\nmodel: {name: x, num_la", "found"), (b"\x00\x01\x02\xff\xfe", "text"), (b"", "found")],
    ids=["unknown key", "missing model", "truncated", "binary", "empty"],
)
def test_a_file_that_cannot_be_read_leaves_the_open_study(
    document: StudyDocument, tmp_path: Path, content: bytes, words: str
) -> None:
    file = tmp_path / "bad.study.yaml"
    file.write_bytes(content)
    before = document.study
    document.edit("recipe.mbs", 1)
    error = document.open(file)
    assert error is not None
    assert words in str(error)
    assert file.name in str(error)
    assert document.study is not None
    assert before is not None
    assert document.study.recipe.mbs == 1
    assert document.undo_stack.canUndo()


def test_a_missing_file_leaves_the_open_study(document: StudyDocument, tmp_path: Path) -> None:
    before = document.study
    assert document.open(tmp_path / "nowhere.study.yaml") is not None
    assert document.study == before


def test_saving_writes_what_loads_again_and_cleans(document: StudyDocument, tmp_path: Path) -> None:
    document.edit("recipe.mbs", 1)
    target = tmp_path / "mine.study.yaml"
    assert document.save(target) is None
    assert load_study(target) == document.study
    assert not document.dirty
    assert document.path == target
    assert document.title == "mine"


def test_a_shipped_study_has_no_file_to_overwrite(document: StudyDocument) -> None:
    assert document.path is None
    assert document.title == SHIPPED


def test_a_folder_that_may_not_be_written_is_said_and_nothing_is_half_written(document: StudyDocument, tmp_path: Path) -> None:
    """As root every folder may be written, so a file stands where the folder should be."""
    blocked = tmp_path / "locked"
    if os.geteuid() == 0:
        blocked.write_text("a file, not a folder")
    else:
        blocked.mkdir()
        blocked.chmod(stat.S_IRUSR | stat.S_IXUSR)
    document.edit("recipe.mbs", 1)
    error = document.save(blocked / "x.study.yaml")
    assert error is not None
    assert "cannot be written" in str(error)
    assert document.dirty
    assert sorted(path.name for path in tmp_path.iterdir()) == ["locked"]


def test_closing_leaves_nothing_open(document: StudyDocument) -> None:
    document.close()
    assert document.study is None
    assert not document.dirty
    assert document.edit("recipe.tp", 2) is None


def test_everything_may_be_replaced_in_one_step(document: StudyDocument) -> None:
    before = document.study
    assert before is not None
    other = before.model_copy(update={"model": library.model("llama3.1-8b")})
    document.put(other, "Start from llama3.1-8b")
    assert document.undo_stack.undoText() == "Start from llama3.1-8b"
    document.undo_stack.undo()
    assert document.study == before


def test_unsaved_changes_are_kept_and_forgotten_once_saved(document: StudyDocument, tmp_path: Path) -> None:
    document.edit("recipe.mbs", 1)
    document.keep_now()
    kept = list(recovery_folder().glob("*.study.yaml"))
    assert [load_study(path) for path in kept] == [document.study]
    assert not recoverable(), "a running process's changes are not offered"
    document.save(tmp_path / "x.study.yaml")
    assert not list(recovery_folder().glob("*"))


def test_what_a_dead_process_left_is_offered_and_restored_unsaved(document: StudyDocument, tmp_path: Path) -> None:
    document.edit("recipe.mbs", 1)
    document.keep_now()
    gone = 2**22 - 1  # above any process number that Linux gives by default
    for path in list(recovery_folder().glob("*")):
        path.rename(path.with_name(f"{gone}-{path.name.partition('-')[2]}"))
    document.close()
    (found,) = recoverable()
    assert SHIPPED in found.words
    assert document.recover(found) is None
    assert document.study is not None
    assert document.study.recipe.mbs == 1
    assert document.dirty
    assert not recoverable()
    document.close()


def opened_copy(document: StudyDocument, tmp_path: Path) -> Path:
    """The study saved as a file of the user's, and open from there."""
    file = tmp_path / "mine.study.yaml"
    assert document.save(file) is None
    return file


@pytest.mark.parametrize("way", ["written in place", "replaced"])
def test_a_file_written_by_another_program_is_noticed_and_reloaded_only_when_asked(
    document: StudyDocument, tmp_path: Path, qtbot: QtBot, way: str
) -> None:
    file = opened_copy(document, tmp_path)
    text = file.read_text().replace("mbs: 2", "mbs: 1")
    with qtbot.waitSignal(document.file_changed, timeout=5_000):
        if way == "replaced":
            (tmp_path / "beside").write_text(text)
            (tmp_path / "beside").replace(file)
        else:
            file.write_text(text)
    assert document.study is not None
    assert document.study.recipe.mbs == 2
    assert document.reload() is None
    assert document.study.recipe.mbs == 1
    assert not document.dirty


def test_keeping_the_open_study_makes_it_unsaved(document: StudyDocument, tmp_path: Path, qtbot: QtBot) -> None:
    file = opened_copy(document, tmp_path)
    with qtbot.waitSignal(document.file_changed, timeout=5_000):
        file.write_text(file.read_text().replace("mbs: 2", "mbs: 1"))
    document.keep_mine()
    assert document.dirty


def test_a_reload_of_a_file_that_became_unreadable_keeps_the_study(document: StudyDocument, tmp_path: Path, qtbot: QtBot) -> None:
    file = opened_copy(document, tmp_path)
    before = document.study
    with qtbot.waitSignal(document.file_changed, timeout=5_000):
        file.write_text("version: 1\nmodel: {name: x, num_la")
    assert document.reload() is not None
    assert document.study == before


def test_our_own_saves_and_a_mere_touch_are_no_change_from_outside(
    document: StudyDocument, tmp_path: Path, qtbot: QtBot
) -> None:
    file = opened_copy(document, tmp_path)
    with qtbot.assertNotEmitted(document.file_changed, wait=600):
        document.edit("recipe.mbs", 1)
        assert document.save() is None
        file.touch()
