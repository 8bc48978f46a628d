"""The memory of a projection in words: headline, verdict, table. No drawing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from primus_studio.widgets.cards import Card
from projectors.results import MemoryBreakdown, MemoryComponent, RankMemory
from projectors.text import bytes_text, count_text, number_text, percent_text


class Fit(Enum):
    """Whether a recipe fits: icon and token of its color."""

    FITS = ("ok", "ok")
    MARGIN = ("warning", "warn")  # fits the device but not the safety margin
    OVER = ("error", "bad")

    @property
    def icon(self) -> str:
        return self.value[0]

    @property
    def role(self) -> str:
        return self.value[1]


@dataclass(frozen=True, slots=True)
class Verdict:
    fit: Fit
    short: str  # Fits, Too big
    words: str  # headroom 29.2 GiB


def verdict(memory: MemoryBreakdown) -> Verdict:
    """Whether the peak rank fits, and by how much it does or does not."""
    peak = memory.peak_bytes
    if peak <= memory.budget_bytes:
        return Verdict(Fit.FITS, "Fits", f"headroom {bytes_text(memory.budget_bytes - peak)}")
    if peak <= memory.capacity_bytes:
        return Verdict(Fit.MARGIN, "Tight", f"{bytes_text(peak - memory.budget_bytes)} into margin")
    return Verdict(Fit.OVER, "Too big", f"over by {bytes_text(peak - memory.capacity_bytes)}")


def headline(memory: MemoryBreakdown) -> str:
    """235.8 GiB of 288.0 GiB per GPU."""
    return f"{bytes_text(memory.peak_bytes)} of {bytes_text(memory.capacity_bytes)} per GPU"


def share(nbytes: int, of: int) -> str:
    """Percent of a total."""
    return percent_text(nbytes / of if of else 0.0)


@dataclass(frozen=True, slots=True)
class Segment:
    """One component on one rank: bytes from `start` to `end` of the rank's stack."""

    rank: int
    component: MemoryComponent
    start: int
    end: int

    @property
    def nbytes(self) -> int:
        return self.end - self.start


def segments(memory: RankMemory) -> tuple[Segment, ...]:
    """The stack of a rank, without components that take nothing."""
    stack: list[Segment] = []
    height = 0
    for component in MemoryComponent:
        nbytes = memory.nbytes.get(component, 0)
        if nbytes:
            stack.append(Segment(memory.rank, component, height, height + nbytes))
            height += nbytes
    return tuple(stack)


def segment_card(memory: MemoryBreakdown, segment: Segment, color: str) -> Card:
    """What one component on one rank is, and how its bytes come about."""
    rank = memory.ranks[segment.rank]
    rows = [
        (bytes_text(segment.nbytes), f"{share(segment.nbytes, rank.total)} of this rank"),
        ("Pipeline rank", f"{rank.rank} of {len(memory.ranks)}" + (", the peak" if rank.rank == memory.peak_rank else "")),
    ]
    if segment.component in (MemoryComponent.ACTIVATIONS, MemoryComponent.LOGITS):
        rows.append(("In-flight microbatches", number_text(rank.in_flight)))
    if segment.component in (MemoryComponent.PARAMETERS, MemoryComponent.GRADIENTS, MemoryComponent.OPTIMIZER):
        rows.append(("Parameters of the rank", count_text(rank.parameter_count)))
    return Card(segment.component.label, tuple(rows), rank.formulas.get(segment.component, ""), color)


def memory_table(memory: MemoryBreakdown) -> str:
    """Every rank and component in lines of text, for screen readers."""
    return "\n".join(
        [
            f"{headline(memory)}, {verdict(memory).words}.",
            *(
                f"Rank {rank.rank}: {bytes_text(rank.total)}; "
                + ", ".join(f"{part.component.label} {bytes_text(part.nbytes)}" for part in segments(rank))
                + "."
                for rank in memory.ranks
            ),
        ]
    )
