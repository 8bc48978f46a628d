"""Which sizes each schedule can run, in words; the one place for it."""

from __future__ import annotations

from itertools import islice

from projectors.inputs.recipe import Schedule

V_CHUNKS = 2
"""A V has two legs: one chunk down the ranks, one up."""


DIRECTIONS = 2
"""DualPipe sends microbatches through the ranks in both directions: every rank has a chunk of each."""


def blocking(schedule: Schedule, overlap_p2p: bool) -> bool:
    """Whether a rank waits for its own sends. 1F1B does: Megatron-Core overlaps sends in the interleaved schedule only
    (`overlap_p2p_comm`), PyTorch's `Schedule1F1B` waits for the sends that it pairs with receives. The zero-bubble schedules
    (sail-sg/zero-bubble-pipeline-parallelism) and DualPipe (arXiv:2412.19437, 3.2.1) were built to overlap them."""
    return not overlap_p2p or schedule is Schedule.ONE_F_ONE_B


def applicable(schedule: Schedule, ranks: int, chunks: int, microbatches: int, group: int | None = None) -> str | None:
    """None where the schedule can run these sizes, else the reason in words.

    `chunks`: chunks of a rank, those of both directions for DualPipe. `group`: microbatches of a group of the interleaved
    schedule, p where None; others know no groups.

    The interleaved rule is Megatron-Core's (`get_schedule_table` and `forward_backward_pipelining_with_interleaving`): groups
    of p or more, the last one too; with a smaller one, orders stall or deadlock. DualPipe and DualPipeV: asserts of DeepSeek's
    code. GPipe, 1F1B, ZB-H1, ZB-H2, zb-auto, ZBV, V-Half and V-Min take any number of microbatches.
    """
    name = schedule.value
    if schedule is Schedule.AUTO:
        return f"{name} is no schedule of its own"
    if microbatches < 1:
        return f"{name} needs 1 microbatch or more, found {microbatches}"
    if schedule.v_shaped and chunks != V_CHUNKS:
        return f"{name} needs vpp {V_CHUNKS}, one chunk down the ranks and one back up, found {chunks}"
    if schedule is Schedule.INTERLEAVED and chunks == 1:
        return f"{name} needs vpp 2 or more, found 1"
    if not schedule.v_shaped and schedule is not Schedule.INTERLEAVED and chunks != schedule.copies:
        return f"{name} needs vpp 1, found {chunks // schedule.copies}"
    if schedule is Schedule.INTERLEAVED:
        return _ungrouped(ranks, microbatches, group or ranks)
    if schedule is Schedule.DUALPIPE and (ranks % 2 or microbatches % 2):
        return f"{name} feeds both ends alike and needs an even pp and even microbatches, found {ranks} and {microbatches}"
    if schedule in (Schedule.DUALPIPE, Schedule.DUALPIPE_V) and microbatches < 2 * ranks:
        return f"{name} needs at least 2 x pp = {2 * ranks} microbatches, found {microbatches}"
    return None


def _ungrouped(ranks: int, microbatches: int, group: int) -> str | None:
    """Why microbatches cannot go through the interleaved schedule in groups of this size; None where they can."""
    name = Schedule.INTERLEAVED.value
    if not ranks <= group <= microbatches:
        if group == ranks:
            return f"{name} needs a multiple of pp = {ranks} microbatches, found {microbatches}"
        return f"{name} needs groups of pp = {ranks} to {microbatches} microbatches (all there are), found {group}"
    left = microbatches % group
    if not 0 < left < ranks:
        return None
    if group == ranks:
        return f"{name} in groups of pp needs a multiple of pp = {ranks} microbatches, found {microbatches}; other groups can"
    return f"{name} in groups of {group} leaves {left} of {microbatches} microbatches for the last one, fewer than pp = {ranks}"


def legal_groups(ranks: int, microbatches: int, most: int | None = None) -> tuple[int, ...]:
    """Group sizes with which the interleaved schedule can run, smallest first; all, or the `most` smallest."""
    sizes = (group for group in range(ranks, microbatches + 1) if _ungrouped(ranks, microbatches, group) is None)
    return tuple(islice(sizes, most))


def legal_microbatches(
    schedule: Schedule, ranks: int, chunks: int, near: int, group: int | None = None
) -> tuple[int, ...]:
    """The nearest counts of microbatches at or below and at or above `near` that the schedule can run; nearest first.

    Empty where no count helps, because ranks and chunks do not fit.
    """
    period = 2 * max(ranks, group or 1)  # every rule repeats within it, and is met once from its end on

    def first(counts: range) -> set[int]:
        return set(islice((each for each in counts if applicable(schedule, ranks, chunks, each, group) is None), 1))

    start = max(near, 1)
    legal = first(range(start, max(start - period, 0), -1)) | first(range(start, start + 2 * period))
    return tuple(sorted(legal, key=lambda count: (abs(count - near), count)))
