"""Which sizes each schedule runs, and what happens with the others.

legality.json: shared/data/pipeline_vectors.json `legality_grid_ran`, one letter for m = 1 to 24.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from projectors.inputs.recipe import Schedule
from projectors.pipeline import PipelineDeadlock, applicable, assemble, legal_groups, legal_microbatches, order, simulate
from projectors.pipeline.loop_schedules import interleaved

GRID: dict[str, dict[str, dict[str, str]]] = json.loads((Path(__file__).parent / "legality.json").read_text())
SOURCES = {
    Schedule.GPIPE: "torch.GPipe",
    Schedule.ONE_F_ONE_B: "own.1f1b",
    Schedule.ZB_H1: "own.zb_h1",
    Schedule.ZB_H2: "own.zb_h2",
    Schedule.ZBV: "torch.ZBVZeroBubble",
    Schedule.V_HALF: "primus.v-half",
    Schedule.V_MIN: "primus.v-min",
    Schedule.DUALPIPE: "deepseek.DualPipe",
    Schedule.DUALPIPE_V: "torch.DualPipeV",
}


def cells(source: str) -> list[tuple[int, int, int, str]]:
    """(ranks, chunks, microbatches, letter) of every case."""
    return [
        (int(ranks.removeprefix("pp")), int(chunks.removeprefix("vpp")), microbatches, letter)
        for chunks, rows in GRID[source].items()
        for ranks, letters in rows.items()
        for microbatches, letter in enumerate(letters, start=1)
    ]


@pytest.mark.parametrize("schedule", SOURCES)
def test_legal_is_what_the_library_runs_and_all_of_it_runs_to_the_end(schedule: Schedule) -> None:
    for ranks, chunks, microbatches, letter in cells(SOURCES[schedule]):
        reason = applicable(schedule, ranks, chunks, microbatches)
        assert (reason is None) == (letter == "o"), (ranks, chunks, microbatches, reason)
        if reason is None:
            assert len(order(schedule, ranks, chunks, microbatches).run) == len(order(schedule, ranks, chunks, microbatches).kind)


def test_interleaved_takes_multiples_of_pp_and_nothing_that_deadlocks() -> None:
    """sail-sg `vpp` from one microbatch per rank on; in-order execution of other counts deadlocks, at p8 m10 v2 for one.

    Fewer microbatches than ranks: Megatron-Core wants groups of p or more.
    """
    for ranks, chunks, microbatches, letter in cells("zb.vpp"):
        if 1 < ranks <= microbatches:
            assert (applicable(Schedule.INTERLEAVED, ranks, chunks, microbatches) is None) == (letter == "o")
    for ranks, chunks, microbatches, letter in cells("own.interleaved(group=p)"):
        every = [interleaved(rank, ranks, chunks, microbatches, ranks) for rank in range(ranks)]
        passes = assemble(Schedule.INTERLEAVED, ranks, chunks, microbatches, every)
        assert (len(passes.run) < len(passes.kind)) == (letter == "D")
        if letter == "D":
            assert applicable(Schedule.INTERLEAVED, ranks, chunks, microbatches) is not None


def test_a_deadlock_names_who_waits_for_what() -> None:
    passes = assemble(Schedule.INTERLEAVED, 8, 2, 10, [interleaved(rank, 8, 2, 10, 8) for rank in range(8)])
    with pytest.raises(PipelineDeadlock, match=r"rank 0: \w+ of microbatch \d+ on chunk \d of rank 0 waits for \w+ of") as caught:
        simulate(passes, np.ones(16), np.ones(16), np.ones(16), np.zeros(15))
    assert str(caught.value).count("waits for") == 8


@pytest.mark.parametrize(
    ("schedule", "ranks", "chunks", "microbatches", "words"),
    [
        (Schedule.INTERLEAVED, 4, 2, 10, "a multiple of pp = 4 microbatches, found 10"),
        (Schedule.INTERLEAVED, 4, 1, 8, "vpp 2 or more"),
        (Schedule.ZBV, 4, 1, 8, "vpp 2,"),
        (Schedule.ZBV, 4, 4, 8, "vpp 2,"),
        (Schedule.V_HALF, 4, 4, 8, "vpp 2,"),
        (Schedule.ZB_H1, 4, 2, 8, "vpp 1, found 2"),
        (Schedule.DUALPIPE, 3, 2, 8, "even pp and even microbatches, found 3 and 8"),
        (Schedule.DUALPIPE, 4, 2, 9, "even pp and even microbatches, found 4 and 9"),
        (Schedule.DUALPIPE, 4, 2, 6, "at least 2 x pp = 8 microbatches, found 6"),
        (Schedule.DUALPIPE, 4, 4, 8, "vpp 1, found 2"),
        (Schedule.DUALPIPE_V, 4, 2, 7, "at least 2 x pp = 8 microbatches, found 7"),
        (Schedule.ONE_F_ONE_B, 4, 1, 0, "1 microbatch or more"),
        (Schedule.ZB_AUTO, 4, 2, 8, "vpp 1, found 2"),
        (Schedule.AUTO, 4, 1, 8, "no schedule of its own"),
    ],
)
def test_refusals_say_why(schedule: Schedule, ranks: int, chunks: int, microbatches: int, words: str) -> None:
    """shared/data/pipeline_vectors.json `reject_cases`."""
    reason = applicable(schedule, ranks, chunks, microbatches)
    assert reason is not None
    assert words in reason
    assert reason.startswith(schedule.value)
    with pytest.raises(ValueError, match=schedule.value):
        order(schedule, ranks, chunks, microbatches)


@pytest.mark.parametrize(
    ("schedule", "ranks", "chunks", "near", "nearest"),
    [
        (Schedule.INTERLEAVED, 4, 2, 10, (8, 12)),
        (Schedule.INTERLEAVED, 4, 2, 11, (12, 8)),
        (Schedule.INTERLEAVED, 4, 2, 3, (4,)),
        (Schedule.INTERLEAVED, 4, 2, 12, (12,)),
        (Schedule.DUALPIPE, 4, 2, 5, (8,)),
        (Schedule.DUALPIPE, 4, 2, 11, (10, 12)),
        (Schedule.DUALPIPE, 3, 2, 12, ()),
        (Schedule.DUALPIPE_V, 4, 2, 5, (8,)),
        (Schedule.ONE_F_ONE_B, 4, 1, 10, (10,)),
        (Schedule.ZBV, 4, 3, 10, ()),
    ],
)
def test_nearest_legal_microbatches(schedule: Schedule, ranks: int, chunks: int, near: int, nearest: tuple[int, ...]) -> None:
    assert legal_microbatches(schedule, ranks, chunks, near) == nearest


@pytest.mark.parametrize(
    ("microbatches", "group", "words"),
    [
        (10, 4, "groups of pp needs a multiple of pp = 4 microbatches, found 10; other groups can"),
        (10, 3, "needs groups of pp = 4 to 10 microbatches (all there are), found 3"),
        (10, 11, "needs groups of pp = 4 to 10 microbatches (all there are), found 11"),
        (10, 8, "groups of 8 leaves 2 of 10 microbatches for the last one, fewer than pp = 4"),
        (3, 4, "a multiple of pp = 4 microbatches, found 3"),
        (10, 5, None),
        (10, 6, None),
        (10, 10, None),
    ],
)
def test_groups_are_those_of_megatron(microbatches: int, group: int, words: str | None) -> None:
    """facts/pipeline.md, 2: N from p to m, and m mod N is 0 or p or more."""
    reason = applicable(Schedule.INTERLEAVED, 4, 2, microbatches, group)
    assert reason is None if words is None else words in str(reason)
    assert (group in legal_groups(4, microbatches)) == (words is None)


def test_every_legal_group_runs_to_the_end_in_the_time_of_the_closed_form() -> None:
    """(mv + p - 1)t for every legal N, facts/pipeline.md, 2."""
    for ranks, chunks, microbatches in itertools.product((2, 3, 4, 8), (2, 3), range(2, 33)):
        for group in legal_groups(ranks, microbatches):
            passes = order(Schedule.INTERLEAVED, ranks, chunks, microbatches, group)
            stages = ranks * chunks
            makespan = simulate(passes, np.ones(stages), np.ones(stages), np.ones(stages), np.zeros(stages - 1)).makespan
            assert makespan == 3 * (microbatches * chunks + ranks - 1)


def test_an_order_with_a_pass_missing_is_refused() -> None:
    every = [interleaved(rank, 2, 2, 4, 2) for rank in range(2)]
    with pytest.raises(ValueError, match="missing"):
        assemble(Schedule.INTERLEAVED, 2, 2, 4, [every[0][:-1], every[1]])


def test_times_must_be_of_the_same_pipeline() -> None:
    with pytest.raises(ValueError, match="4 virtual stages"):
        simulate(order(Schedule.ONE_F_ONE_B, 4, 1, 8), [1.0] * 3, [1.0] * 3, [1.0] * 3, [0.0] * 2)
