"""Our orders against the tables that PyTorch builds for its own runtime (`torch.distributed.pipelining.schedules`).

Built without process groups: a table depends on nothing but sizes. `Schedule1F1B` is left out, its table is not what its own
loop runs (facts/pipeline.md, section 4). GPipe has no table.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from projectors.inputs.recipe import Schedule
from projectors.pipeline import PassKind, order

schedules = pytest.importorskip("torch.distributed.pipelining.schedules")

LETTERS = {PassKind.FORWARD: "F", PassKind.BACKWARD: "B", PassKind.INPUT_GRADIENT: "I", PassKind.WEIGHT_GRADIENT: "W"}
SIZES = {
    Schedule.INTERLEAVED: (
        "ScheduleInterleaved1F1B",
        [(p, v, p * k) for p in (2, 3, 4, 8) for v in (2, 3) for k in (1, 2, 3, 5)],
    ),
    Schedule.ZB_H1: ("ScheduleInterleavedZeroBubble", [(p, 1, p * k) for p in (2, 3, 4, 8) for k in (1, 2, 5)]),
    Schedule.ZBV: ("ScheduleZBVZeroBubble", [(p, 2, m) for p in (1, 2, 3, 4, 8) for m in (1, 2, 5, 7, 16, 33)]),
    Schedule.DUALPIPE_V: ("ScheduleDualPipeV", [(p, 2, 2 * p + k) for p in (1, 2, 3, 4, 8) for k in (0, 1, 2, 9)]),
}
CASES = [(schedule, name, *size) for schedule, (name, sizes) in SIZES.items() for size in sizes]


def pytorch_table(name: str, ranks: int, chunks: int, microbatches: int) -> list[list[str]]:
    """Passes of every rank, such as 3F0: the forward of microbatch 0 on virtual stage 3; a block is its passes in turn."""
    stages = [
        SimpleNamespace(
            num_stages=ranks * chunks, group_size=ranks, group_rank=0, stage_index=chunk * ranks, submod=None, is_last=False
        )
        for chunk in range(chunks)
    ]
    table: dict[int, list[Any]] = getattr(schedules, name)(stages, microbatches).pipeline_order
    return [[str(each) for action in table[rank] if action for each in action.sub_actions or (action,)] for rank in range(ranks)]


def our_table(schedule: Schedule, ranks: int, chunks: int, microbatches: int) -> Iterator[list[str]]:
    passes = order(schedule, ranks, chunks, microbatches)
    columns = zip(passes.stage.tolist(), passes.kind.tolist(), passes.microbatch.tolist(), strict=True)
    names = [f"{stage}{LETTERS[PassKind(kind)]}{microbatch}" for stage, kind, microbatch in columns]
    for first, last in zip(passes.offsets[:-1], passes.offsets[1:], strict=True):
        yield names[first:last]


@pytest.mark.parametrize(("schedule", "name", "ranks", "chunks", "microbatches"), CASES)
def test_orders_are_those_that_pytorch_runs(schedule: Schedule, name: str, ranks: int, chunks: int, microbatches: int) -> None:
    assert list(our_table(schedule, ranks, chunks, microbatches)) == pytorch_table(name, ranks, chunks, microbatches)
