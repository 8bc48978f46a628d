"""A timeline for other programs: events as plain data, and a trace that Perfetto and chrome://tracing open."""

from __future__ import annotations

from typing import Any

from projectors.pipeline.placement import stages_of_ranks
from projectors.pipeline.timeline import PassKind, Timeline

MICROSECONDS = 1e6
"""Per second; unit of `ts` and `dur` in the trace-event format."""

SHORT = {PassKind.FORWARD: "F", PassKind.BACKWARD: "B", PassKind.INPUT_GRADIENT: "I", PassKind.WEIGHT_GRADIENT: "W"}


def events(timeline: Timeline) -> list[dict[str, Any]]:
    """Every pass: rank, chunk, microbatch, kind, start and end in seconds."""
    names = [kind.name.lower() for kind in PassKind]
    return [
        {"rank": rank, "chunk": chunk, "microbatch": microbatch, "kind": names[kind], "start": start, "end": end}
        for rank, chunk, microbatch, kind, start, end in _rows(timeline)
    ]


def chrome_trace(timeline: Timeline, **labels: str) -> dict[str, Any]:
    """The timeline in the trace-event format (JSON object form): one process per pipeline rank, one thread per chunk.

    `labels` go into the file's own data, such as the name of the model.
    """
    stages = stages_of_ranks(timeline.schedule, timeline.ranks, timeline.chunks).tolist()
    named: list[dict[str, Any]] = []
    for rank in range(timeline.ranks):
        named.append(_metadata("process_name", rank, 0, {"name": f"Pipeline rank {rank}"}))
        named.append(_metadata("process_sort_index", rank, 0, {"sort_index": rank}))
        named += [
            _metadata("thread_name", rank, chunk, {"name": f"Virtual stage {stage}"}) for chunk, stage in enumerate(stages[rank])
        ]
    passes = [
        {
            "name": f"{SHORT[PassKind(kind)]}{microbatch}",
            "cat": PassKind(kind).name.lower(),
            "ph": "X",
            "pid": rank,
            "tid": chunk,
            "ts": start * MICROSECONDS,
            "dur": (end - start) * MICROSECONDS,
            "args": {"microbatch": microbatch, "chunk": chunk, "virtual stage": stages[rank][chunk]},
        }
        for rank, chunk, microbatch, kind, start, end in _rows(timeline)
    ]
    about = {
        "schedule": timeline.schedule.value,
        "pipeline ranks": str(timeline.ranks),
        "virtual stages per rank": str(timeline.chunks),
        "microbatches": str(timeline.microbatches),
        **labels,
    }
    return {"traceEvents": named + passes, "displayTimeUnit": "ms", "otherData": about}


def _metadata(name: str, rank: int, chunk: int, args: dict[str, str | int]) -> dict[str, Any]:
    return {"name": name, "ph": "M", "pid": rank, "tid": chunk, "args": args}


def _rows(timeline: Timeline) -> zip[tuple[int, int, int, int, float, float]]:
    columns = (timeline.rank, timeline.chunk, timeline.microbatch, timeline.kind, timeline.start, timeline.end)
    return zip(*(column.tolist() for column in columns), strict=True)
