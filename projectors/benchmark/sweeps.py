"""Collectives timed over sizes, and the line through them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
import torch.distributed as dist

from projectors.benchmark.timing import timed
from projectors.inputs.benchmark_record import MeasuredCollective, Sample

SMALLEST_BYTES = 1 << 10
LARGEST_BYTES = 1 << 30
STEP = 4
"""Sizes go up by this factor."""

SHARE_OF_MEMORY = 8
"""The largest tensor takes an eighth of the device at most: a collective has an input, an output and buffers."""

LONGEST = 1.5
"""A size whose single run takes this many seconds is the last."""


def sweep(kind: str, device: torch.device, memory_bytes: int, *, warm_up: int, repeats: int) -> MeasuredCollective:
    """Time one collective over all processes from 1 KiB to 1 GiB, or to what memory allows; fit latency and bandwidth."""
    members = dist.get_world_size()
    sizes: list[int] = []
    samples: list[Sample] = []
    for nbytes in _sizes(memory_bytes):
        run = _collective(kind, nbytes, device, members)
        sizes.append(nbytes)
        samples.append(timed(run, device, warm_up=warm_up, repeats=repeats, between=dist.barrier))
        slow = torch.tensor([samples[-1].seconds])
        dist.all_reduce(slow.to(device), op=dist.ReduceOp.MAX)  # all stop at the same size
        if float(slow) > LONGEST:
            break
    latency, bandwidth = fitted(sizes, [sample.seconds for sample in samples])
    return MeasuredCollective(
        kind=kind, members=members, nbytes=tuple(sizes), samples=tuple(samples),
        latency_us=latency * 1e6, bandwidth_gb_s=bandwidth / 1e9,
    )


def fitted(nbytes: Sequence[int], seconds: Sequence[float]) -> tuple[float, float]:
    """(latency in seconds, bandwidth in bytes/s) of seconds = latency + bytes / bandwidth, least squares of relative errors.

    Relative errors weigh a kilobyte's microseconds as much as a gigabyte's milliseconds.
    """
    sizes, times = np.asarray(nbytes, dtype=np.float64), np.maximum(np.asarray(seconds, dtype=np.float64), 1e-9)
    rows = np.stack([1 / times, sizes / times], axis=1)
    latency, per_byte = np.linalg.lstsq(rows, np.ones(len(times)), rcond=None)[0]
    if latency < 0:  # nothing but bandwidth to be seen
        latency, per_byte = 0.0, float((sizes / times).sum() / ((sizes / times) ** 2).sum())
    if per_byte <= 0:  # nothing but latency
        latency, per_byte = float(np.median(times)), 1e-18
    return float(latency), 1 / float(per_byte)


def _sizes(memory_bytes: int) -> Iterator[int]:
    nbytes = SMALLEST_BYTES
    while nbytes <= min(LARGEST_BYTES, memory_bytes // SHARE_OF_MEMORY):
        yield nbytes
        nbytes *= STEP


def _collective(kind: str, nbytes: int, device: torch.device, members: int) -> Callable[[], object]:
    """A run of a collective, with `nbytes` as `workload.operators.Collective` counts them: the whole tensor."""
    count = max(nbytes // 4 // members, 1) * members
    whole = torch.ones(count, device=device)
    own = torch.ones(count // members, device=device)
    rank = dist.get_rank()
    match kind:
        case "all-reduce":
            return lambda: dist.all_reduce(whole)
        case "all-gather":
            return lambda: dist.all_gather(list(whole.chunk(members)), own)
        case "reduce-scatter":
            return lambda: dist.reduce_scatter(own, list(whole.chunk(members)))
        case "all-to-all":
            out = torch.empty_like(whole)
            return lambda: dist.all_to_all_single(out, whole)
        case _:
            if rank == 0:
                return lambda: dist.send(whole, 1)
            return (lambda: dist.recv(whole, 0)) if rank == 1 else (lambda: None)
