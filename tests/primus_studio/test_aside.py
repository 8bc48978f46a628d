"""Longer questions: answered beside projections, replaced by newer ones, canceled within a second, survived by the window."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
from pytestqt.qtbot import QtBot

from primus_studio.services.aside import AsideService

PATIENCE_MS = 20_000


@pytest.fixture
def aside(qtbot: QtBot) -> Iterator[AsideService]:
    made = AsideService()
    yield made
    made.shutdown()


class Answers:
    """What was called back."""

    def __init__(self) -> None:
        self.done: list[object] = []
        self.failed: list[str] = []


def ask(aside: AsideService, kind: str, function: object, *arguments: object) -> Answers:
    answers = Answers()
    aside.ask(kind, function, arguments, answers.done.append, answers.failed.append)  # type: ignore[arg-type]
    return answers


def test_a_question_is_answered(aside: AsideService, qtbot: QtBot) -> None:
    answers = ask(aside, "sum", sum, (1, 2, 3))
    assert aside.is_busy("sum")
    qtbot.waitUntil(lambda: answers.done == [6], timeout=PATIENCE_MS)
    assert not aside.is_busy("sum")


def test_kinds_wait_for_each_other_and_all_are_answered(aside: AsideService, qtbot: QtBot) -> None:
    first, second = ask(aside, "a", sum, (1, 2)), ask(aside, "b", max, 3, 4)
    qtbot.waitUntil(lambda: first.done == [3] and second.done == [4], timeout=PATIENCE_MS)


def test_the_newest_of_a_kind_counts_and_is_not_kept_waiting(aside: AsideService, qtbot: QtBot) -> None:
    slow = ask(aside, "a", time.sleep, 60)
    newest = ask(aside, "a", sum, (1, 1))
    qtbot.waitUntil(lambda: newest.done == [2], timeout=PATIENCE_MS)
    assert slow.done == slow.failed == []


def test_canceling_ends_the_work_at_once(aside: AsideService, qtbot: QtBot) -> None:
    slow = ask(aside, "a", time.sleep, 60)
    qtbot.wait(200)
    began = time.monotonic()
    aside.cancel("a")
    assert time.monotonic() - began < 1
    assert not aside.is_busy("a")
    again = ask(aside, "a", sum, (2, 2))
    qtbot.waitUntil(lambda: again.done == [4], timeout=PATIENCE_MS)
    assert slow.done == slow.failed == []


def test_what_raises_is_answered_in_words(aside: AsideService, qtbot: QtBot) -> None:
    answers = ask(aside, "a", int, "seven")
    qtbot.waitUntil(lambda: bool(answers.failed), timeout=PATIENCE_MS)
    assert "seven" in answers.failed[0]


def test_a_process_that_dies_is_said_and_replaced(aside: AsideService, qtbot: QtBot) -> None:
    answers = ask(aside, "a", os._exit, 3)
    qtbot.waitUntil(lambda: bool(answers.failed), timeout=PATIENCE_MS)
    assert "ended" in answers.failed[0]
    again = ask(aside, "a", sum, (5, 5))
    qtbot.waitUntil(lambda: again.done == [10], timeout=PATIENCE_MS)


def test_nothing_is_answered_after_the_end(aside: AsideService, qtbot: QtBot) -> None:
    answers = ask(aside, "a", sum, (1, 2))
    aside.shutdown()
    qtbot.wait(200)
    ask(aside, "a", sum, (1, 2))
    assert answers.done == answers.failed == []
    assert not aside.is_busy("b")
