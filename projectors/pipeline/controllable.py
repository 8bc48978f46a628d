"""V-Half and V-Min: pipelines whose activation memory is chosen first (arXiv:2405.15362).

A block of six slots per microbatch is laid out so that few activations live at once, and repeated. Then passes move to
earlier free slots: all of them as far as memory stays below the peak of the repeated block, and those of the cooldown
without regard to it, with weight gradients last. Offsets of the block: the paper's and its authors' code
(sail-sg/zero-bubble-pipeline-parallelism); moving in slot order, rank after rank: Primus `v-half`, `v-min`.
"""

from __future__ import annotations

from dataclasses import dataclass

from projectors.inputs.recipe import Schedule
from projectors.pipeline.actions import Actions
from projectors.pipeline.v_schedules import F0, F1, I0, I1, W0, W1

PERIOD = 6
"""Slots of one microbatch on a rank: F, B and W of two chunks."""

CODES = (F0, F1, I1, I0, W1, W0)
"""Passes in the order of the block; a pass is named by its position here and its microbatch."""

DOWN, UP, BACK_DOWN, BACK_UP, WEIGHT = 0, 1, 2, 3, 4
"""Positions in CODES: forward down, forward up, input gradient down again, up again, first of the weight gradients."""

FREE = -1


def half_block(rank: int, ranks: int) -> tuple[int, int, int, int]:
    """Slots of F0, F1, B1, B0 in V-Half: half the activations of 1F1B."""
    wait = 3 if ranks % 2 == 0 else 0
    return 2 * rank, 3 * ranks - rank - 2, 3 * ranks + wait + 2 * rank - 1, 6 * ranks + wait - rank - 2


def min_block(rank: int, ranks: int) -> tuple[int, int, int, int]:
    """Slots of F0, F1, B1, B0 in V-Min: a third of the activations of 1F1B."""
    wait = 2 if ranks % 3 == 0 else 0
    return rank, 2 * ranks - rank - 1, 2 * ranks + wait + rank, 4 * ranks + wait - rank - 1


BLOCKS = {Schedule.V_HALF: half_block, Schedule.V_MIN: min_block}


@dataclass(slots=True)
class _Rank:
    """What one rank does in which slot, while passes still move."""

    slots: list[int]          # pass in each slot: microbatch * len(CODES) + position in CODES, or FREE
    times: list[list[int]]    # slot of each pass, by position and microbatch
    live: list[int]           # activations held at the end of each slot

    def first_free(self, earliest: int, latest: int) -> int:
        """First free slot from `earliest` on, or `latest`."""
        for slot in range(earliest, latest):
            if self.slots[slot] == FREE:
                return slot
        return latest

    def move(self, old: int, new: int) -> None:
        """Move the pass of slot `old` to slot `new`."""
        microbatch, position = divmod(self.slots[old], len(CODES))
        self.slots[new], self.slots[old] = self.slots[old], FREE
        self.times[position][microbatch] = new


SETTLED = 4
"""Microbatches over pp from which on one more microbatch is one more period in the middle of every rank's order. Holds from 3
on for pp up to 32; a test compares with orders laid out in full."""


def controllable(schedule: Schedule, ranks: int, microbatches: int) -> list[Actions]:
    """Actions of every rank under V-Half or V-Min."""
    settled = min(microbatches, SETTLED * ranks)
    table = laid_out(schedule, ranks, settled)
    middle = len(table[0]) // 2
    more = microbatches - settled
    return [of_rank[:middle] + of_rank[middle : middle + PERIOD] * more + of_rank[middle:] for of_rank in table]


def laid_out(schedule: Schedule, ranks: int, microbatches: int) -> list[Actions]:
    """The method for every single microbatch."""
    table = [_unrolled(BLOCKS[schedule](rank, ranks), microbatches) for rank in range(ranks)]
    cooldown = _squeeze(table)
    _reorder(table, cooldown)
    return [[CODES[each % len(CODES)] for each in rank.slots if each != FREE] for rank in table]


def _unrolled(block: tuple[int, int, int, int], microbatches: int) -> _Rank:
    """The block repeated for every microbatch; weight gradients in the order of their input gradients in free slots."""
    length = block[-1] + PERIOD * microbatches + 2 * microbatches  # the last term: weight gradients that found no slot yet
    slots, live = [FREE] * length, [0] * length
    times = [[0] * microbatches for _ in CODES]
    for position, offset in enumerate(block):
        for microbatch in range(microbatches):
            slot = offset + PERIOD * microbatch
            slots[slot] = microbatch * len(CODES) + position
            times[position][microbatch] = slot
    waiting: list[int] = []
    served = held = 0
    for slot in range(length):
        position = slots[slot] % len(CODES) if slots[slot] != FREE else FREE
        if position in (BACK_DOWN, BACK_UP):
            waiting.append(slots[slot] + WEIGHT - BACK_DOWN)
        elif position in (DOWN, UP):
            held += 1
        elif served < len(waiting):
            slots[slot] = waiting[served]
            times[slots[slot] % len(CODES)][slots[slot] // len(CODES)] = slot
            served += 1
            held -= 1
        live[slot] = held
    return _Rank(slots, times, live)


def _earliest(table: list[_Rank], rank: int, position: int, microbatch: int) -> int:
    """First slot after everything that a pass waits for, and after the same pass of the microbatch before."""
    times = table[rank].times
    after = times[position][microbatch - 1] if microbatch else -1
    if position >= WEIGHT:
        return max(after, times[position - 2][microbatch]) + 1
    neighbor = rank - 1 if position in (DOWN, BACK_DOWN) else rank + 1
    if 0 <= neighbor < len(table):
        after = max(after, table[neighbor].times[position][microbatch])
    elif position != DOWN:
        after = max(after, times[position - 1][microbatch])
    return after + 1


def _squeeze(table: list[_Rank]) -> list[set[int]]:
    """Move every pass to the earliest slot at which the most activations of any rank do not grow.

    Gives the passes of each rank's cooldown: those after its last forward, or where that comes before the first microbatch is
    through (too few microbatches for a steady state) those in between.
    """
    most = max(max(rank.live) for rank in table)
    cooldown: list[set[int]] = []
    for rank in table:
        last, through = rank.times[UP][-1], rank.times[BACK_UP][0]
        ending = rank.slots[last + 1 : through + 1] if through > last else rank.slots[last + 1 :]
        cooldown.append({each for each in ending if each != FREE})
    for slot in range(max(len(rank.slots) for rank in table)):
        for number, rank in enumerate(table):
            each = rank.slots[slot] if slot < len(rank.slots) else FREE
            if each == FREE:
                continue
            microbatch, position = divmod(each, len(CODES))
            earliest = _earliest(table, number, position, microbatch)
            change = 1 if position <= UP else -1 if position >= WEIGHT else 0
            if change > 0:
                full = slot - 1
                while full >= earliest and rank.live[full] < most:
                    full -= 1
                earliest = full + 1
            new = rank.first_free(earliest, slot)
            if new == slot:
                continue
            rank.move(slot, new)
            if change:
                for between in range(new, slot):
                    rank.live[between] += change
    return cooldown


def _reorder(table: list[_Rank], cooldown: list[set[int]]) -> None:
    """Pull the passes of the cooldown forward ahead of weight gradients, then put those into what is free."""
    held_back: list[list[int]] = [[] for _ in table]
    for slot in range(max(len(rank.slots) for rank in table)):
        for number, rank in enumerate(table):
            each = rank.slots[slot] if slot < len(rank.slots) else FREE
            if each == FREE or each not in cooldown[number]:
                continue
            microbatch, position = divmod(each, len(CODES))
            if position >= WEIGHT:
                held_back[number].append(each)
                rank.slots[slot] = FREE
                continue
            new = rank.first_free(_earliest(table, number, position, microbatch), slot)
            if new != slot:
                rank.move(slot, new)
    for number, rank in enumerate(table):
        for each in held_back[number]:
            microbatch, position = divmod(each, len(CODES))
            slot = rank.first_free(_earliest(table, number, position, microbatch), len(rank.slots))
            rank.slots[slot] = each
            rank.times[position][microbatch] = slot
