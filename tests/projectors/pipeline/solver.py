"""The shortest pipeline that any order has, as a mixed-integer program, solved by HiGHS: what no schedule may beat."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

Times = list[list[float]]
At = Callable[[int, int, int], int]
"""Number of the variable that is the start of a pass, from rank, kind and microbatch."""

F, B, W = 0, 1, 2


@dataclass
class Program:
    """Rows of `sum of factor x variable >= right side`."""

    entries: list[tuple[int, int, float]] = field(default_factory=list)
    least: list[float] = field(default_factory=list)

    def row(self, right: float, *terms: tuple[int, float]) -> None:
        self.entries += [(len(self.least), variable, factor) for variable, factor in terms]
        self.least.append(right)

    def after(self, later: int, earlier: int, seconds: float) -> None:
        """Start of `later` is at least `seconds` after that of `earlier`."""
        self.row(seconds, (later, 1.0), (earlier, -1.0))


def optimum(ranks: int, microbatches: int, times: Times, send: list[float], limit: int, *, barrier: bool, most: float) -> float:
    """Seconds of the best order, at most `most`: of the makespan with `barrier`, else from a rank's first pass to its last.

    arXiv:2401.10241, appendix G, with all microbatches alike: a rank takes each kind of pass in the order of the microbatches,
    so a binary is needed only where two passes of different kinds could come either way, and the limit on activations is a
    precedence. Variables: start of every pass, a binary for each such pair, the seconds to be kept short.
    """
    program = Program()

    def at(rank: int, kind: int, microbatch: int) -> int:
        return (rank * 3 + kind) * microbatches + microbatch

    for rank in range(ranks):
        for k in range(microbatches):
            _dependencies(program, at, rank, k, times, send, limit)
    pairs = [pair for rank in range(ranks) for k in range(microbatches) for pair in _pairs(at, rank, k, times, limit)]
    starts = 3 * ranks * microbatches
    total = starts + len(pairs)
    for binary, (one, first, other, second) in enumerate(pairs, start=starts):
        program.row(first - most, (other, 1.0), (one, -1.0), (binary, -most))
        program.row(second, (one, 1.0), (other, -1.0), (binary, most))
    for rank in range(ranks):
        begins = [] if barrier else [(at(rank, F, 0), 1.0)]
        program.row(times[W][rank], (total, 1.0), (at(rank, W, microbatches - 1), -1.0), *begins)
    return _solved(program, starts, total, most)


def _dependencies(program: Program, at: At, rank: int, k: int, times: Times, send: list[float], limit: int) -> None:
    """What a microbatch's passes on a rank wait for."""
    for kind in (F, B, W):
        if k:
            program.after(at(rank, kind, k), at(rank, kind, k - 1), times[kind][rank])
    program.after(at(rank, B, k), at(rank, F, k), times[F][rank])
    program.after(at(rank, W, k), at(rank, B, k), times[B][rank])
    if rank:
        program.after(at(rank, F, k), at(rank - 1, F, k), times[F][rank - 1] + send[rank - 1])
        program.after(at(rank - 1, B, k), at(rank, B, k), times[B][rank] + send[rank - 1])
    if k >= limit:
        program.after(at(rank, F, k), at(rank, W, k - limit), times[W][rank])


def _pairs(at: At, rank: int, k: int, times: Times, limit: int) -> Iterator[tuple[int, float, int, float]]:
    """Passes of a rank that may come either way, with their seconds."""
    f, b, w = (times[kind][rank] for kind in (F, B, W))
    for j in range(k):
        yield at(rank, F, k), f, at(rank, B, j), b
        yield at(rank, B, k), b, at(rank, W, j), w
        if j > k - limit:
            yield at(rank, F, k), f, at(rank, W, j), w


def _solved(program: Program, starts: int, total: int, most: float) -> float:
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    rows, columns, factors = zip(*program.entries, strict=True)
    matrix = coo_array((factors, (rows, columns)), shape=(len(program.least), total + 1)).tocsr()
    variable = np.arange(total + 1)
    binary = (variable >= starts) & (variable < total)
    solved = milp(
        (variable == total).astype(float),
        constraints=LinearConstraint(matrix, np.array(program.least), np.inf),
        integrality=binary.astype(int),
        bounds=Bounds(np.zeros(total + 1), np.where(binary, 1.0, most)),
    )
    assert solved.status == 0, solved.message
    return float(solved.fun)
