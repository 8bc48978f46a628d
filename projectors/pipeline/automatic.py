"""Zero bubble for the times at hand under a limit on activations (arXiv:2401.10241, section 3): schedule `zb-auto`.

All microbatches are alike, so every rank takes each kind of pass in the order of the microbatches, and a limit of n live
activations is a precedence: forward k + n comes after weight gradient k. What is left to choose is how a rank interleaves its
three rows of passes. Greedy rules in several variants fill the time (`greedy.build`), the handcrafted orders join where they
fit the limit, the best wins; small pipelines are then improved move by move. The tests compare with a solver's optimum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import ceil
from random import Random
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from projectors.inputs.recipe import Schedule
from projectors.pipeline.actions import KIND_BITS, forward, input_gradient, weight_gradient
from projectors.pipeline.greedy import BACKWARD, FORWARD, NEVER, WEIGHT, build
from projectors.pipeline.kernels import COMPILED
from projectors.pipeline.loop_schedules import zero_bubble
from projectors.pipeline.orders import Order, assemble
from projectors.pipeline.timeline import PassKind

Kinds = list[int]
Cost = tuple[float, float]
"""Seconds that count, and the sum over the ranks of when each is done, which tells equals apart."""

AUTOMATIC_LIMITS = (1, 2, 3)
"""Activations over pp that are worth a try where there is room for them: the memory of 1F1B, that of ZB-H2, and what closes the
bubble where F, B and W differ (p = 8, 10 : 12 : 8 needs 3p, facts/pipeline.md, 2)."""

SLOPES = (1.0, 1.5, 2.0, 3.0)
"""Variants: rank r runs at most ceil(slope (p - 1 - r)) + 1 microbatches ahead of its backward passes, as ZB-H1 (1) and ZB-H2
(2) do; and one variant without this bound."""

OVERRUNS = (0.0, 0.5, 1.0)
"""Variants: part of a weight gradient that may delay the next input's pass."""

WORTH_COMPILING = 50_000
"""Passes over all variants from which machine code is worth its half second."""

SMALL = 120
"""Passes up to which an order is improved move by move: larger pipelines gain less from it than it takes."""

EFFORT = 400_000
"""Passes that may be timed while an order is improved, in all: a third of a second."""

STARTS = 12
"""Orders that are improved."""

SHAKES = 24
"""Times that the best small order is changed at random and improved again."""

MOVES = 4
"""Random moves of each time."""

ACTION = (forward(), input_gradient(), weight_gradient())
KIND = {PassKind.FORWARD: FORWARD, PassKind.INPUT_GRADIENT: BACKWARD, PassKind.WEIGHT_GRADIENT: WEIGHT}


def automatic(
    ranks: int,
    microbatches: int,
    forward: ArrayLike,
    backward: ArrayLike,
    weight: ArrayLike,
    send: ArrayLike,
    *,
    limit: int | Sequence[int],
    barrier: bool = True,
) -> Order:
    """The order for these times that holds at most `limit` activations on a rank until their weight gradients are done; one
    number for all ranks, or one for each.

    forward, backward, weight : [ranks] seconds of one microbatch; send : [ranks - 1] seconds. What is kept short: with
    `barrier` the makespan, else the longest time from a rank's first pass to its last (post-validation, same paper, section 4).
    Raises ValueError where `limit` is below 1.
    """
    limits = [limit] * ranks if isinstance(limit, int) else list(limit)
    if min(limits) < 1:
        raise ValueError(f"{Schedule.ZB_AUTO.value} needs room for 1 activation or more, found {min(limits)}")
    times = np.array([forward, backward, weight], dtype=np.float64)
    sends = np.append(np.asarray(send, dtype=np.float64), 0.0)
    limits = [min(each, microbatches) for each in limits]
    return _order(ranks, microbatches, times.tobytes(), sends.tobytes(), tuple(limits), barrier)


@lru_cache(maxsize=64)
def _order(ranks: int, microbatches: int, times: bytes, sends: bytes, limits: tuple[int, ...], barrier: bool) -> Order:
    seconds = np.frombuffer(times).reshape(3, ranks).T.ravel().tolist()
    pipeline = Pipeline(ranks, microbatches, seconds, np.frombuffer(sends).tolist(), limits, barrier)
    found = sorted(pipeline.variants(), key=lambda pair: pair[0])
    if 3 * ranks * microbatches <= SMALL:
        distinct: list[list[Kinds]] = []
        for _, kinds in found:
            if kinds not in distinct:
                distinct.append(kinds)
        found = sorted((pipeline.improved(kinds) for kinds in distinct[:STARTS]), key=lambda pair: pair[0])
        found[0] = pipeline.shaken(*found[0])
    actions = [[ACTION[kind] for kind in of_rank] for of_rank in found[0][1]]
    return assemble(Schedule.ZB_AUTO, ranks, 1, microbatches, actions)


class Pipeline:
    """One problem: what the variants and their improvement share."""

    def __init__(
        self, ranks: int, microbatches: int, seconds: Sequence[float], send: Sequence[float], limits: Sequence[int], barrier: bool
    ) -> None:
        self.ranks, self.microbatches, self.limits, self.barrier = ranks, microbatches, limits, barrier
        self.seconds, self.send = seconds, send
        self.tries = EFFORT // (3 * ranks * microbatches)

    def variants(self) -> Iterator[tuple[Cost, list[Kinds]]]:
        """Orders by every greedy rule, and the handcrafted ones that fit the limit."""
        p, m = self.ranks, self.microbatches
        bounds = [[m] * p, *([ceil(slope * (p - 1 - rank)) + 1 for rank in range(p)] for slope in SLOPES)]
        rules = list(product(bounds, OVERRUNS, (False, True), (False, True)))
        kernel = _machine_code() if COMPILED or 3 * p * m * len(rules) > WORTH_COMPILING else None
        for bound, overrun, free_first, forward_first in rules:
            yield self._greedy(kernel, bound, overrun, free_first, forward_first)
        for handcrafted in (1, 2, 3):
            if min(handcrafted * (p - 1) + 1, m) <= min(self.limits):
                every = [zero_bubble(rank, p, m, handcrafted) for rank in range(p)]
                kinds = [[KIND[PassKind(each & ((1 << KIND_BITS) - 1))] for each in of_rank] for of_rank in every]
                yield self.cost(kinds), kinds

    def _greedy(
        self, kernel: Callable[..., int] | None, bound: Kinds, overrun: float, free_first: bool, forward_first: bool
    ) -> tuple[Cost, list[Kinds]]:
        p, m = self.ranks, self.microbatches
        given: list[Any] = [self.seconds, self.send, self.limits, bound]
        clock, first = [0.0] * p, [NEVER] * p
        scratch: list[Any] = [clock, first, [0] * (3 * p), [NEVER] * (2 * p * m), [-1] * p, [0.0] * p, [0] * (3 * p * m)]
        if kernel is not None:
            given, scratch = [np.array(each) for each in given], [np.array(each) for each in scratch]
        seconds, send, limits, ahead = given
        (kernel or build)(p, m, seconds, send, limits, ahead, overrun, free_first, forward_first, *scratch)
        clock, first, flat = (list(map(float, scratch[0])), list(map(float, scratch[1])), scratch[-1])
        kinds = flat if isinstance(flat, list) else flat.tolist()
        return self._cost(clock, first), [kinds[3 * m * rank : 3 * m * (rank + 1)] for rank in range(p)]

    def _cost(self, clock: list[float], first: list[float]) -> Cost:
        spent = clock if self.barrier else [end - start for start, end in zip(first, clock, strict=True)]
        return max(spent), sum(spent)

    def cost(self, kinds: list[Kinds]) -> Cost:
        """Of an order; NEVER where it cannot run to its end."""
        p, m, seconds, send = self.ranks, self.microbatches, self.seconds, self.send
        clock, first = [0.0] * p, [NEVER] * p
        at = [0] * p
        activations: list[list[float]] = [[] for _ in range(p)]
        gradients: list[list[float]] = [[] for _ in range(p)]
        moved = True
        while moved:
            moved = False
            for rank in range(p):
                of_rank, now, here = kinds[rank], clock[rank], at[rank]
                made, back = activations[rank], gradients[rank]
                f, b, w = seconds[3 * rank : 3 * rank + 3]
                while here < 3 * m:
                    kind = of_rank[here]
                    if kind == WEIGHT:
                        now += w
                    elif kind == FORWARD:
                        if rank and len(made) >= len(activations[rank - 1]):
                            break
                        now = max(now, activations[rank - 1][len(made)] + send[rank - 1]) if rank else now
                        first[rank] = min(first[rank], now)
                        now += f
                        made.append(now)
                    else:
                        source = made if rank == p - 1 else gradients[rank + 1]
                        if len(back) >= len(source):
                            break
                        now = max(now, source[len(back)] + (send[rank] if rank < p - 1 else 0.0)) + b
                        back.append(now)
                    here += 1
                    moved = True
                clock[rank], at[rank] = now, here
        return self._cost(clock, first) if sum(at) == 3 * m * p else (NEVER, NEVER)

    def _fits(self, kinds: Kinds, limit: int) -> bool:
        """Whether a rank's passes come in a possible order and within its limit."""
        done = [0, 0, 0]
        for kind in kinds:
            done[kind] += 1
            if done[WEIGHT] > done[BACKWARD] or done[BACKWARD] > done[FORWARD] or done[FORWARD] - done[WEIGHT] > limit:
                return False
        return True

    def improved(self, kinds: list[Kinds]) -> tuple[Cost, list[Kinds]]:
        """Move single passes of one rank while that shortens the pipeline and tries are left."""
        best, present = self.cost(kinds), [list(of_rank) for of_rank in kinds]
        shortened = True
        while shortened and self.tries > 0:
            shortened = False
            for rank, position, step in product(range(self.ranks), range(3 * self.microbatches), (-1, 1)):
                for moved in self._moves(present[rank], position, step, self.limits[rank]):
                    kept, present[rank] = present[rank], moved
                    found = self.cost(present)
                    self.tries -= 1
                    if found < best:
                        best, shortened = found, True
                        break
                    present[rank] = kept
                if self.tries <= 0:
                    break
        return best, present

    def shaken(self, best: Cost, kinds: list[Kinds]) -> tuple[Cost, list[Kinds]]:
        """Improve again from a few random moves away, `SHAKES` times, and keep the best; the same moves every time."""
        chance = Random(0)  # noqa: S311 - no secret
        for _ in range(SHAKES):
            trial = [list(of_rank) for of_rank in kinds]
            for _ in range(MOVES):
                rank = chance.randrange(self.ranks)
                position, step = chance.randrange(3 * self.microbatches), chance.choice((-1, 1))
                moves = list(self._moves(trial[rank], position, step, self.limits[rank]))
                if moves:
                    trial[rank] = chance.choice(moves)
            found, improved = self.improved(trial)
            if found <= best:
                best, kinds = found, improved
        return best, kinds

    def _moves(self, kinds: Kinds, position: int, step: int, limit: int) -> Iterator[Kinds]:
        """A rank's passes with one of them moved further and further, up to the next of its kind or to what forbids it."""
        kind, to = kinds[position], position + step
        while 0 <= to < len(kinds) and kinds[to] != kind:
            moved = kinds.copy()
            moved.insert(to, moved.pop(position))
            if not self._fits(moved, limit):
                return
            yield moved
            to += step


@lru_cache(maxsize=1)
def _machine_code() -> Callable[..., int]:
    from numba import njit

    compiled: Callable[..., int] = njit(cache=True, nogil=True)(build)
    return compiled


