"""A timeline for other programs: events as plain data or CSV, and a trace that Perfetto and chrome://tracing open."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import count, repeat
from typing import Any

from projectors.pipeline.activations import activation_curves
from projectors.pipeline.parts import PassParts
from projectors.pipeline.placement import placement, stages_of_ranks
from projectors.pipeline.timeline import PassKind, Timeline

MICROSECONDS = 1e6
"""Per second; unit of `ts` and `dur` in the trace-event format."""

SHORT = {PassKind.FORWARD: "F", PassKind.BACKWARD: "B", PassKind.INPUT_GRADIENT: "I", PassKind.WEIGHT_GRADIENT: "W"}

CSV_COLUMNS = ("rank", "chunk", "virtual_stage", "microbatch", "kind", "start_s", "end_s")

Event = dict[str, Any]


def events(timeline: Timeline) -> list[Event]:
    """Every pass: rank, chunk, microbatch, kind, start and end in seconds."""
    names = [kind.name.lower() for kind in PassKind]
    return [
        {"rank": rank, "chunk": chunk, "microbatch": microbatch, "kind": names[kind], "start": start, "end": end}
        for rank, chunk, microbatch, kind, start, end in _rows(timeline)
    ]


def events_csv(timeline: Timeline) -> str:
    """Every pass as a line of comma-separated values under a header; seconds from the start of the step."""
    stages = stages_of_ranks(timeline.schedule, timeline.ranks, timeline.chunks).tolist()
    names = [kind.name.lower() for kind in PassKind]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    writer.writerows(
        (rank, chunk, stages[rank][chunk], microbatch, names[kind], start, end)
        for rank, chunk, microbatch, kind, start, end in _rows(timeline)
    )
    return text.getvalue()


def chrome_trace(
    timeline: Timeline, chunk_bytes: Sequence[Sequence[float]] = (), parts: PassParts | None = None, **labels: str
) -> dict[str, Any]:
    """The timeline in the trace-event format (JSON object form): one process per pipeline rank, one thread per chunk, arrows
    from each pass to the one on another rank that its result goes to.

    `chunk_bytes` [ranks][chunks]: bytes that one microbatch keeps of each chunk; with them each rank has a counter of its
    activations. With `parts` each pass says what of it is recompute and exposed communication, and each rank has a thread for
    its optimizer step. `labels` go into the file's own data, such as the name of the model.
    """
    about = {
        "schedule": timeline.schedule.value,
        "pipeline ranks": str(timeline.ranks),
        "virtual stages per rank": str(timeline.chunks),
        "microbatches": str(timeline.microbatches),
        **labels,
    }
    everything = [*_names(timeline), *_passes(timeline, parts), *_arrows(timeline)]
    if parts is not None:
        everything += _optimizer(timeline, parts)
    if chunk_bytes:
        everything += _counters(timeline, chunk_bytes)
    return {"traceEvents": everything, "displayTimeUnit": "ms", "otherData": about}


def _names(timeline: Timeline) -> Iterator[Event]:
    stages = stages_of_ranks(timeline.schedule, timeline.ranks, timeline.chunks).tolist()
    for rank in range(timeline.ranks):
        yield _metadata("process_name", rank, 0, {"name": f"Pipeline rank {rank}"})
        yield _metadata("process_sort_index", rank, 0, {"sort_index": rank})
        for chunk, stage in enumerate(stages[rank]):
            yield _metadata("thread_name", rank, chunk, {"name": f"Virtual stage {stage}"})


def _passes(timeline: Timeline, parts: PassParts | None) -> Iterator[Event]:
    stages = stages_of_ranks(timeline.schedule, timeline.ranks, timeline.chunks).tolist()
    within: Iterator[dict[str, float]] = repeat({})
    if parts is not None:
        shares = (parts.recompute_of(timeline) * MICROSECONDS, parts.communication_of(timeline) * MICROSECONDS)
        within = (
            {"recompute us": again, "exposed communication us": waiting}
            for again, waiting in zip(*(share.tolist() for share in shares), strict=True)
        )
    for (rank, chunk, microbatch, kind, start, end), more in zip(_rows(timeline), within, strict=False):
        yield {
            "name": f"{SHORT[PassKind(kind)]}{microbatch}",
            "cat": PassKind(kind).name.lower(),
            "ph": "X",
            "pid": rank,
            "tid": chunk,
            "ts": start * MICROSECONDS,
            "dur": (end - start) * MICROSECONDS,
            "args": {"microbatch": microbatch, "chunk": chunk, "virtual stage": stages[rank][chunk], **more},
        }


def _optimizer(timeline: Timeline, parts: PassParts) -> Iterator[Event]:
    thread = timeline.chunks  # after those of the chunks
    spans = zip(parts.optimizer_start.tolist(), parts.optimizer_end.tolist(), strict=True)
    for rank, (start, end) in enumerate(spans):
        yield _metadata("thread_name", rank, thread, {"name": "Optimizer"})
        span = {"ts": start * MICROSECONDS, "dur": (end - start) * MICROSECONDS}
        yield {"name": "Optimizer step", "cat": "optimizer", "ph": "X", "pid": rank, "tid": thread, **span, "args": {}}


def _arrows(timeline: Timeline) -> Iterator[Event]:
    """A flow for each result that goes to another rank: it leaves inside the pass that makes it and ends in the one that takes
    it (`bp` e: bound to the slice that is open then)."""
    rank_of = placement(timeline.schedule, timeline.ranks, timeline.chunks).tolist()
    stages = stages_of_ranks(timeline.schedule, timeline.ranks, timeline.chunks).tolist()
    found: dict[tuple[bool, int, int], tuple[int, int, float]] = {}
    for rank, chunk, microbatch, kind, start, _ in _rows(timeline):
        if kind != PassKind.WEIGHT_GRADIENT:
            found[kind == PassKind.FORWARD, stages[rank][chunk], microbatch] = rank, chunk, start
    numbers = count(1)
    for (is_forward, stage, microbatch), (rank, chunk, start) in found.items():
        source = found.get((is_forward, stage - 1 if is_forward else stage + 1, microbatch))
        if source is None or rank_of[stage] == source[0]:
            continue
        what, number = ("activation" if is_forward else "gradient"), next(numbers)
        for phase, (pid, tid, seconds) in (("s", source), ("f", (rank, chunk, start))):
            event = {"name": what, "cat": "send", "ph": phase, "id": number, "pid": pid, "tid": tid, "ts": seconds * MICROSECONDS}
            yield {**event, "bp": "e"} if phase == "f" else event


def _counters(timeline: Timeline, chunk_bytes: Sequence[Sequence[float]]) -> Iterator[Event]:
    for rank, curve in enumerate(activation_curves(timeline, chunk_bytes)):
        for seconds, nbytes in zip(curve.seconds.tolist(), curve.nbytes.tolist(), strict=True):
            yield {"name": "Activations", "ph": "C", "pid": rank, "ts": seconds * MICROSECONDS, "args": {"bytes": nbytes}}


def _metadata(name: str, rank: int, chunk: int, args: dict[str, str | int]) -> Event:
    return {"name": name, "ph": "M", "pid": rank, "tid": chunk, "args": args}


def _rows(timeline: Timeline) -> zip[tuple[int, int, int, int, float, float]]:
    columns = (timeline.rank, timeline.chunk, timeline.microbatch, timeline.kind, timeline.start, timeline.end)
    return zip(*(column.tolist() for column in columns), strict=True)
