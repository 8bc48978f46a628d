"""The timeline in words: cards, header, table. No drawing."""

from __future__ import annotations

from primus_studio.theme.marks import PASS_HUES, mark
from primus_studio.theme.tokens import Scheme
from primus_studio.widgets.cards import Card
from primus_studio.widgets.timeline_lanes import Lanes
from projectors.pipeline.timeline import PassKind, Timeline, bubble_fraction
from projectors.text import percent_text, seconds_text

PASS_LABELS: dict[PassKind, str] = {
    PassKind.FORWARD: "Forward",
    PassKind.BACKWARD: "Backward",
    PassKind.INPUT_GRADIENT: "Input gradient",
    PassKind.WEIGHT_GRADIENT: "Weight gradient",
}
"""What a pass is called."""

MOST_RANKS = 64
"""Ranks that the table in words lists one by one."""


def timeline_header(timeline: Timeline) -> str:
    """Schedule, size, makespan and bubble in one line."""
    chunks = f" × {timeline.chunks} chunks" if timeline.chunks > 1 else ""
    ranks = f"{timeline.ranks} rank{'s' if timeline.ranks != 1 else ''}"
    microbatches = f"{timeline.microbatches:,} microbatch{'es' if timeline.microbatches != 1 else ''}"
    return (
        f"{timeline.schedule.value} · {ranks}{chunks} · {microbatches} · "
        f"makespan {seconds_text(timeline.makespan)} · bubble {percent_text(bubble_fraction(timeline))}"
    )


def event_card(lanes: Lanes, event: int, scheme: Scheme) -> Card:
    """What one pass is, and when it runs."""
    timeline = lanes.timeline
    kind = PassKind(int(timeline.kind[event]))
    begin, end = float(timeline.start[event]), float(timeline.end[event])
    rows = [("Microbatch", f"{timeline.microbatch[event]}"), ("Pipeline rank", f"{timeline.rank[event]}")]
    if timeline.chunks > 1:
        rows.append(("Model chunk", f"{timeline.chunk[event]}"))
    rows += [("Begins at", _moment(begin, lanes.makespan)), ("Takes", seconds_text(end - begin))]
    return Card(f"{PASS_LABELS[kind]} {timeline.microbatch[event]}", tuple(rows), color=mark(PASS_HUES[kind], scheme))


def gap_card(lanes: Lanes, rank: int, gap: tuple[float, float]) -> Card:
    """An idle time of a rank."""
    begin, end = gap
    rows = (("Pipeline rank", f"{rank}"), ("Begins at", _moment(begin, lanes.makespan)), ("Takes", seconds_text(end - begin)),
            ("Bubble of the rank", percent_text(float(lanes.idle[rank]))))  # fmt: skip
    last = end >= lanes.makespan
    return Card("Idle", rows, "The rank has done its last pass." if last else "The rank waits for a pass of another rank.")


def timeline_table(lanes: Lanes) -> str:
    """Header and bubble per rank in lines of text, for screen readers."""
    shown = range(min(lanes.ranks, MOST_RANKS))
    return "\n".join(
        [
            timeline_header(lanes.timeline) + ".",
            *(f"Rank {rank}: bubble {percent_text(float(lanes.idle[rank]))}." for rank in shown),
        ]
    )


def _moment(seconds: float, makespan: float) -> str:
    """A time of the step, to a ten-thousandth of the makespan or better."""
    unit, name = (1.0, "s") if makespan >= 1 else (1e-3, "ms") if makespan >= 1e-3 else (1e-6, "µs")
    return f"{seconds / unit:,.4f} {name}" if makespan < 10 * unit else f"{seconds / unit:,.3f} {name}"
