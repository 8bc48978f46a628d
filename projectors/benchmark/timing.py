"""Timing one thing often: device events where there are any, outliers left out, median and spread kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.distributed as dist

from projectors.inputs.benchmark_record import Sample

OUTLIER_DEVIATIONS = 5.0
"""A timing this many median absolute deviations above the median is an interruption, not the thing timed."""

MAD_TO_DEVIATION = 1.4826
"""Standard deviations of a normal distribution in one median absolute deviation."""

ROUNDING = 0.02
"""Deviations below this part of the median are noise of the clock: nothing is left out for them."""

MOST_SECONDS = 20.0
"""Repeats of one thing end after this long, with what there is; three are made at least."""

LEAST_REPEATS = 3


def sample_of(seconds: Sequence[float]) -> Sample:
    """Median and spread of repeated timings, without those that were interrupted."""
    every = np.asarray(seconds, dtype=np.float64)
    middle = float(np.median(every))
    deviation = max(MAD_TO_DEVIATION * float(np.median(np.abs(every - middle))), ROUNDING * middle)
    kept = every[every <= middle + OUTLIER_DEVIATIONS * deviation]
    low, median, high = (float(value) for value in np.quantile(kept, (0.25, 0.5, 0.75)))
    spread = (high - low) / 2 / median if median > 0 else 0.0
    return Sample(seconds=median, spread=spread, count=len(kept), outliers=len(every) - len(kept))


def timed(
    run: Callable[[], object], device: torch.device, *, warm_up: int, repeats: int, between: Callable[[], object]
) -> Sample:
    """Repeated timings of `run`; `between` runs ahead of each, untimed.

    On a GPU by device events around the call, the device idle before it, so that launches count as they do in a step that
    waits for them; on a CPU by the clock.
    """
    for _ in range(warm_up):
        between()
        run()
    synchronise(device)
    found: list[float] = []
    ends = time.perf_counter() + MOST_SECONDS
    while len(found) < repeats and (len(found) < LEAST_REPEATS or _all_agree(time.perf_counter() < ends, device)):
        between()
        synchronise(device)
        found.append(_once(run, device))
    return sample_of(found)


def _once(run: Callable[[], object], device: torch.device) -> float:
    if device.type == "cuda":
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def _all_agree(go_on: bool, device: torch.device) -> bool:
    """What the first process decides: all must run a collective equally often."""
    if not (dist.is_available() and dist.is_initialized()):
        return go_on
    decided = torch.tensor([go_on], dtype=torch.uint8, device=device)
    dist.broadcast(decided, 0)
    return bool(decided.item())


def synchronise(device: torch.device) -> None:
    """Wait for what the device has been given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
