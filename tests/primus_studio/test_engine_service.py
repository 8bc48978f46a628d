"""The engine process: the newest request wins, its death is a message, its end leaves nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from pytestqt.qtbot import QtBot

from primus_studio.services import engine as service
from primus_studio.services.engine import EngineService
from primus_studio.services.projection_state import ProjectionState, Status
from projectors.inputs import library
from projectors.inputs.changing import replace
from projectors.inputs.loading import load_study
from projectors.inputs.study import Study
from projectors.projection import project_study

PATIENCE_MS = 20_000

STUDY = load_study("mixtral-8x22b-mi355x-4x8")


@pytest.fixture
def engine(qtbot: QtBot) -> Iterator[EngineService]:
    """A started engine."""
    started = EngineService()
    started.start()
    yield started
    started.shutdown()


def answer(engine: EngineService, qtbot: QtBot) -> ProjectionState:
    """The state that the engine settles in."""
    qtbot.waitUntil(lambda: engine.state.status is not Status.BUSY, timeout=PATIENCE_MS)
    return engine.state


def test_the_process_answers_what_the_engine_answers(engine: EngineService, qtbot: QtBot) -> None:
    engine.request(STUDY)
    assert engine.state.status is Status.BUSY
    state = answer(engine, qtbot)
    assert state.status is Status.DONE
    assert state.study == STUDY
    assert state.projection is not None
    assert state.projection.step == project_study(STUDY).step


def test_the_newest_request_wins(engine: EngineService, qtbot: QtBot) -> None:
    shown: list[Study] = []
    engine.state_changed.connect(lambda state: shown.append(state.study) if state.status is Status.DONE else None)
    studies = [replace(STUDY, "cluster.nodes", nodes) for nodes in (4, 8, 16, 32)]
    for study in studies:
        engine.request(study)
    answer(engine, qtbot)
    assert shown[-1] == studies[-1]
    assert studies[1] not in shown
    assert studies[2] not in shown


def test_an_illegal_recipe_is_a_state_with_reasons(engine: EngineService, qtbot: QtBot) -> None:
    engine.request(replace(STUDY, "recipe.tp", 5))
    state = answer(engine, qtbot)
    assert state.status is Status.ILLEGAL
    assert state.projection is not None
    assert state.projection.violations


def test_while_busy_the_last_answer_stays(engine: EngineService, qtbot: QtBot) -> None:
    engine.request(STUDY)
    first = answer(engine, qtbot).projection
    engine.request(replace(STUDY, "recipe.mbs", 1))
    assert engine.state.status is Status.BUSY
    assert engine.state.projection is first
    answer(engine, qtbot)


def processes(engine: EngineService) -> list[int]:
    assert engine._pool is not None
    return list(engine._pool._processes)


def test_a_killed_process_is_replaced_and_asked_again(engine: EngineService, qtbot: QtBot) -> None:
    engine.request(STUDY)
    answer(engine, qtbot)
    for number in processes(engine):
        os.kill(number, signal.SIGKILL)
    engine.request(replace(STUDY, "recipe.mbs", 1))
    state = answer(engine, qtbot)
    assert state.status is Status.DONE
    assert state.study is not None
    assert state.study.recipe.mbs == 1


def test_an_engine_that_hangs_is_given_up_and_works_again(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    hanging = EngineService(most_seconds=0.5)
    hanging.start()
    try:
        with monkeypatch.context() as patched:
            patched.setattr(service.worker, "projected", time.sleep)
            hanging._newest = 60  # type: ignore[assignment]
            hanging._next()
            qtbot.waitUntil(lambda: hanging.state.status is Status.FAILED, timeout=PATIENCE_MS)
        assert "did not answer within 0.5 s" in hanging.state.message
        hanging._watch.setInterval(PATIENCE_MS)
        hanging.request(STUDY)
        assert answer(hanging, qtbot).status is Status.DONE
    finally:
        hanging.shutdown()


def test_a_fault_of_the_engine_is_words(engine: EngineService, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service.worker, "projected", library.model)  # raises: there is no such model
    engine._newest = "no-such-model"  # type: ignore[assignment]
    engine._next()
    qtbot.waitUntil(lambda: engine.state.status is Status.FAILED, timeout=PATIENCE_MS)
    assert "no-such-model" in engine.state.message


def test_a_new_study_gets_a_recipe_that_fits(engine: EngineService, qtbot: QtBot) -> None:
    made: list[Study] = []
    engine.start_study(library.model("llama3.1-8b"), library.cluster("h100-1x8"), made.append)
    qtbot.waitUntil(lambda: bool(made), timeout=PATIENCE_MS)
    assert project_study(made[0]).feasible


def test_nothing_is_answered_or_left_after_the_end(qtbot: QtBot) -> None:
    ending = EngineService()
    ending.start()
    ending.request(STUDY)
    numbers = processes(ending)
    ending.shutdown()
    assert all(not os.path.exists(f"/proc/{number}") for number in numbers)  # noqa: PTH110
    qtbot.wait(50)
    assert ending.state.status is Status.BUSY
