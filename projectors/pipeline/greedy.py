"""The inner loop of the automatic schedule: a plain function over flat sequences, interpreted or compiled (see `kernels`)."""

from __future__ import annotations

from typing import Any

NEVER = 1e300
"""Seconds: when a result comes that is not made yet."""

FORWARD, BACKWARD, WEIGHT = 0, 1, 2


def build(  # noqa: C901 - one function, which numba compiles as it stands
    ranks: int,
    microbatches: int,
    seconds: Any,
    send: Any,
    limits: Any,
    ahead: Any,
    overrun: float,
    free_first: bool,
    forward_first: bool,
    clock: Any,
    first: Any,
    made: Any,
    ready: Any,
    choice: Any,
    begin: Any,
    kinds: Any,
) -> int:
    """Fill `kinds` [ranks * 3 m] with FORWARD, BACKWARD, WEIGHT in the order in which each rank runs them; greedily in time.

    A rank with nothing to do until its next input comes computes a weight gradient, if at most `overrun` of it reaches
    beyond that moment. A forward needs fewer than `limits[rank]` activations on the rank and fewer than `ahead[rank]`
    microbatches between its forward and its backward passes. `free_first`: a rank full of activations computes a weight
    gradient before anything else. `forward_first`: of a forward and a backward that could start together, the forward.

    `seconds` [3 ranks]: forward, input gradient, weight gradient of each rank; `send` [ranks]: seconds from rank r to r + 1.
    Scratch: `clock` [ranks] 0, becomes when each rank is done; `first` [ranks] NEVER, becomes when it started; `made` [3 ranks]
    0; `ready` [2 ranks m] NEVER; `choice` [ranks] -1; `begin` [ranks] 0.
    Returns how many passes were placed: all of them, 3 m ranks.
    """
    placed = 0
    everything = 3 * ranks * microbatches
    gradients = ranks * microbatches
    while placed < everything:
        best = NEVER
        chosen = -1
        for rank in range(ranks):
            if choice[rank] < 0:
                forwards = made[3 * rank]
                backwards = made[3 * rank + 1]
                weights = made[3 * rank + 2]
                now = clock[rank]
                forward_at = NEVER
                backward_at = NEVER
                full = forwards - weights >= limits[rank]
                if forwards < microbatches and not full and forwards - backwards < ahead[rank]:
                    forward_at = 0.0 if rank == 0 else ready[(rank - 1) * microbatches + forwards] + send[rank - 1]
                    forward_at = max(forward_at, now)
                if backwards < forwards:
                    backward_at = (
                        ready[rank * microbatches + backwards]
                        if rank == ranks - 1
                        else ready[gradients + (rank + 1) * microbatches + backwards] + send[rank]
                    )
                    backward_at = max(backward_at, now)
                soonest = min(forward_at, backward_at)
                fills = soonest >= now + seconds[3 * rank + WEIGHT] * (1.0 - overrun)
                if weights < backwards and (fills or (free_first and full and forwards < microbatches)):
                    choice[rank] = WEIGHT
                    begin[rank] = now
                elif forward_at < backward_at or (forward_at == backward_at and forward_first):
                    choice[rank] = FORWARD
                    begin[rank] = forward_at
                else:
                    choice[rank] = BACKWARD
                    begin[rank] = backward_at
            if begin[rank] < best:
                best = begin[rank]
                chosen = rank
        if chosen < 0:
            break
        kind = choice[chosen]
        at = 3 * chosen
        number = made[at + kind]
        kinds[3 * chosen * microbatches + made[at] + made[at + 1] + made[at + 2]] = kind
        made[at + kind] = number + 1
        clock[chosen] = best + seconds[at + kind]
        first[chosen] = min(first[chosen], best)
        choice[chosen] = -1
        if kind == FORWARD:
            ready[chosen * microbatches + number] = clock[chosen]
            if chosen + 1 < ranks:
                choice[chosen + 1] = -1
        elif kind == BACKWARD:
            ready[gradients + chosen * microbatches + number] = clock[chosen]
            if chosen > 0:
                choice[chosen - 1] = -1
        placed += 1
    return placed
