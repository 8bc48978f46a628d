"""Which sizes each schedule can run, in words; the one place for it."""

from __future__ import annotations

from projectors.inputs.recipe import Schedule

V_CHUNKS = 2
"""A V has two legs: one chunk down the ranks, one up."""


def applicable(schedule: Schedule, ranks: int, chunks: int, microbatches: int) -> str | None:
    """None where the schedule can run these sizes, else the reason in words.

    The interleaved rule is Megatron-Core's for its default group of p microbatches: with another remainder, orders stall or
    deadlock. GPipe, 1F1B, ZB-H1, ZB-H2, ZBV, V-Half and V-Min take any number of microbatches.
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
    if not schedule.v_shaped and schedule is not Schedule.INTERLEAVED and chunks != 1:
        return f"{name} needs vpp 1, found {chunks}"
    if schedule is Schedule.INTERLEAVED and microbatches % ranks:
        return f"{name} needs a multiple of pp = {ranks} microbatches, found {microbatches}"
    if schedule is Schedule.DUALPIPE_V and microbatches < 2 * ranks:
        return f"{name} needs at least 2 x pp = {2 * ranks} microbatches, found {microbatches}"
    return None


def legal_microbatches(schedule: Schedule, ranks: int, chunks: int, near: int) -> tuple[int, ...]:
    """The nearest counts of microbatches at or below and at or above `near` that the schedule can run; nearest first.

    Empty where no count helps, because ranks and chunks do not fit.
    """
    least = 2 * ranks if schedule is Schedule.DUALPIPE_V else 1
    every = ranks if schedule is Schedule.INTERLEAVED else 1
    below, above = near // every * every, -(-near // every) * every
    candidates = {max(below, least, every), max(above, least, every)}
    legal = [count for count in candidates if applicable(schedule, ranks, chunks, count) is None]
    return tuple(sorted(legal, key=lambda count: (abs(count - near), count)))
