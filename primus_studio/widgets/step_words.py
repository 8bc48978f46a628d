"""Where the step's time goes, in words and rows. No drawing."""

from __future__ import annotations

from dataclasses import dataclass

from primus_studio.theme.marks import step_color
from primus_studio.theme.tokens import Scheme
from primus_studio.widgets.cards import Card
from projectors.results import OperatorTime, StepBreakdown
from projectors.text import percent_text, seconds_text

EXPLAINED: dict[str, str] = {
    "compute": "Forward and backward passes of all microbatches on the pipeline rank that is busy longest.",
    "recompute": "Forward passes run again before the backward pass, because their activations were dropped.",
    "exposed.tp": "Tensor-parallel collectives that no GEMM hides.",
    "exposed.cp": "Ring exchange of keys and values that attention does not hide.",
    "exposed.ep": "Dispatch and combine of the experts' tokens that nothing hides.",
    "exposed.pp": "Sends between pipeline ranks that delay a pass.",
    "exposed.dp": "Reduction of gradients, and gathering of updated weights, after the last pass that could hide it.",
    "exposed.fsdp": "Gathering of sharded parameters that the layer before does not hide.",
    "bubble": "Time in which the rank waits for passes of other pipeline ranks.",
    "optimizer": "Update of the parameters; it moves optimizer state through HBM.",
    "other": "What every step pays besides: launches, the loss's reduction, the clipping of gradients.",
}
"""What each part of the step is."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the step."""

    key: str
    label: str
    seconds: float
    share: float  # of the step, 0 to 1
    begin: float  # where it begins in the step's bar, seconds

    @property
    def card(self) -> Card:
        return Card(
            self.label, ((seconds_text(self.seconds), f"{percent_text(self.share)} of the step"),), EXPLAINED.get(self.key, "")
        )


def parts(step: StepBreakdown) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """The parts that take time, in the order of the step's bar, and the labels of those that take none."""
    found: list[Part] = []
    begin = 0.0
    for key, label, seconds in step.parts():
        if seconds > 0:
            found.append(Part(key, label, seconds, seconds / step.seconds, begin))
            begin += seconds
    return tuple(found), tuple(label for _, label, seconds in step.parts() if seconds <= 0)


def part_color(part: Part, among: tuple[Part, ...], scheme: Scheme) -> str:
    """Its color; axes of exposed communication differ in shade."""
    return step_color(part.key, tuple(other.key for other in among if other.key.startswith("exposed.")), scheme)


def step_table(step: StepBreakdown) -> str:
    """The breakdown in lines of text, for screen readers."""
    taking, none = parts(step)
    lines = [
        f"{part.label} {seconds_text(part.seconds)}, {percent_text(part.share)}."
        for part in sorted(taking, key=lambda part: -part.seconds)
    ]
    return "\n".join([f"Step {seconds_text(step.seconds)}.", *lines, *([f"No time: {', '.join(none)}."] if none else [])])


def slowest_first(operators: tuple[OperatorTime, ...]) -> tuple[OperatorTime, ...]:
    """Operators by the time of one microbatch: passes, recompute and exposed communication together."""
    return tuple(sorted(operators, key=operator_seconds, reverse=True))


def operator_seconds(operator: OperatorTime) -> float:
    """Seconds of an operator for one microbatch."""
    return operator.forward + operator.backward + operator.recompute + operator.exposed
