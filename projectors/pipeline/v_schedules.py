"""Schedules whose second chunk runs from the last rank to the first: ZBV, DualPipeV, DualPipe. Each gives actions of one rank.

Chunk 0 goes down the ranks, chunk 1 up: the second half of the model for a V, a second copy of it for DualPipe.
"""

from __future__ import annotations

from collections import Counter

from projectors.pipeline.actions import CHUNK_SHIFT, Actions, action, backward, forward, input_gradient, weight_gradient
from projectors.pipeline.timeline import PassKind

F0, F1 = forward(0), forward(1)
B0, B1 = backward(0), backward(1)
I0, I1 = input_gradient(0), input_gradient(1)
W0, W1 = weight_gradient(0), weight_gradient(1)
F0_WITH, F1_WITH = action(PassKind.FORWARD, 0, joined=True), action(PassKind.FORWARD, 1, joined=True)


def zbv(rank: int, ranks: int, microbatches: int) -> Actions:
    """ZB-V in its fixed form (arXiv:2401.10241, section 6; torch `ScheduleZBVZeroBubble`).

    The pattern is full from 2p - 1 microbatches on; of fewer, the passes that are not there drop out.
    """
    full = max(microbatches, 2 * ranks - 1)
    down = full - 2 * ranks + 1 + rank  # forwards on chunk 0 that are left when the steady state starts
    actions = (
        [F0] * (2 * (ranks - rank) - 1)
        + [F1, F0] * rank
        + [F1, I1, W1] * (ranks - rank)
        + [F0, I0, W0, F1, I1, W1] * down
        + [I0, W0, F1, I1, W1] * (ranks - 1 - rank)
        + [I0, I1] * rank
        + [I0, W0] * (ranks - rank)
        + [W1] * rank
        + [W0] * rank
    )
    return actions if full == microbatches else _first_of_each(actions, microbatches)


def dualpipe_v(rank: int, ranks: int, microbatches: int) -> Actions:
    """DualPipe cut in half (DeepSeek DualPipe, `dualpipev.py`; torch `ScheduleDualPipeV`). Needs 2p microbatches or more.

    In its long middle part a forward and a backward of different chunks run as one overlapped block.
    """
    after = ranks - 1 - rank
    blocks = [F0_WITH, B1, F1_WITH, B0] * (microbatches - 2 * ranks + rank + 1)
    if rank == ranks - 1:
        blocks[0] = F0
    ending = [B1, B0] * (rank + 1) + [B0] * after
    whole, split = ending[: rank + 1], ending[rank + 1 :]
    late = [(input_gradient(each >> CHUNK_SHIFT), weight_gradient(each >> CHUNK_SHIFT)) for each in split]
    filled = len(late) - after  # input gradients that are done before weight gradients fill the gaps between them
    actions = [F0] * (2 * after) + [F0, F1] * (rank + 1) + [I1, W1, F1] * after + blocks + [B1, F1_WITH, B0] * after + whole
    actions += [gradient for gradient, _ in late[:filled]]
    for (_, weight), (gradient, _) in zip(late, late[filled:], strict=False):
        actions += [weight, gradient]
    return actions + [weight for _, weight in late[after:]]


def dualpipe(rank: int, ranks: int, microbatches: int) -> Actions:
    """DualPipe: both ends feed half of the microbatches each (DeepSeek DualPipe, `dualpipe.py`; arXiv:2412.19437, 3.2.1).

    Chunk 0 is a rank's stage of the copy that runs down the ranks, chunk 1 of the one that runs up. Each half of the ranks
    does what DualPipeV does on as many: its own direction first. Needs even ranks, even microbatches, 2p of them or more.
    """
    half = ranks // 2
    actions = dualpipe_v(min(rank, ranks - 1 - rank), half, microbatches // 2)
    return actions if rank < half else [each ^ (1 << CHUNK_SHIFT) for each in actions]


def _first_of_each(actions: Actions, microbatches: int) -> Actions:
    seen: Counter[int] = Counter()
    kept = []
    for each in actions:
        seen[each] += 1
        if seen[each] <= microbatches:
            kept.append(each)
    return kept
