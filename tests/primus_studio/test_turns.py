"""Drawing in turns: one piece per turn, the newest of an owner, nothing for an owner that is gone."""

from __future__ import annotations

from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot
from shiboken6 import delete

from primus_studio.panels.turns import Turns


def test_each_piece_has_a_turn_of_its_own(qtbot: QtBot) -> None:
    turns, done = Turns(), []
    owners = [QObject() for _ in range(3)]
    for number, owner in enumerate(owners):
        turns.later(owner, lambda number=number: done.append(number))
    assert not done
    turns._run_one()
    assert done == [0]
    qtbot.waitUntil(lambda: turns.idle)
    assert done == [0, 1, 2]


def test_the_newest_piece_of_an_owner_is_the_one_that_runs(qtbot: QtBot) -> None:
    turns, owner, done = Turns(), QObject(), []
    turns.later(owner, lambda: done.append("old"))
    turns.later(owner, lambda: done.append("new"))
    qtbot.waitUntil(lambda: turns.idle)
    assert done == ["new"]


def test_nothing_runs_for_an_owner_that_is_gone(qtbot: QtBot) -> None:
    turns, owner, done = Turns(), QObject(), []
    turns.later(owner, lambda: done.append("late"))
    delete(owner)
    qtbot.waitUntil(lambda: turns.idle)
    assert not done
