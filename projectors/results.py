"""What a projection answers: memory per pipeline rank, where the step's time goes, throughput, the pipeline.

Frozen values that travel between processes; bytes are bytes, seconds are seconds. Labels stand here once, for the
tables, the window and the reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum

from projectors.inputs.measured import MemoryKind
from projectors.legality import Violation
from projectors.pipeline.parts import PassParts
from projectors.pipeline.timeline import Timeline
from projectors.workload.parameters import ModelParameters


class Origin(StrEnum):
    """Where a number comes from."""

    SIMULATED = "simulated"
    MEASURED = "measured"
    RESTORED = "restored"


class MemoryComponent(StrEnum):
    """What memory is taken by, in the order in which it is drawn."""

    PARAMETERS = "parameters"
    GRADIENTS = "gradients"
    OPTIMIZER = "optimizer"
    ACTIVATIONS = "activations"
    LOGITS = "logits"
    COMMUNICATION_BUFFERS = "communication_buffers"
    TEMPORARY = "temporary"
    FRAMEWORK = "framework"

    @property
    def label(self) -> str:
        return _MEMORY_LABELS[self]


_MEMORY_LABELS = {
    MemoryComponent.PARAMETERS: "Parameters",
    MemoryComponent.GRADIENTS: "Gradients",
    MemoryComponent.OPTIMIZER: "Optimizer",
    MemoryComponent.ACTIVATIONS: "Activations",
    MemoryComponent.LOGITS: "Logits and loss",
    MemoryComponent.COMMUNICATION_BUFFERS: "Communication buffers",
    MemoryComponent.TEMPORARY: "Temporary",
    MemoryComponent.FRAMEWORK: "Framework",
}


@dataclass(frozen=True, slots=True)
class RankMemory:
    """Peak bytes of one GPU of a pipeline rank, by component."""

    rank: int
    nbytes: dict[MemoryComponent, int]
    formulas: dict[MemoryComponent, str]  # how the number comes about, with its numbers filled in
    in_flight: float                      # microbatch equivalents whose activations are live at the peak
    parameter_count: int                  # parameters before data parallelism shards them
    allocated: int                        # of the total, what PyTorch's allocator has handed out
    reserved: int                         # and what it holds
    low: int                              # total with the framework's terms at the low end of their ranges
    high: int                             # and at the high end
    chunk_bytes: tuple[float, ...] = ()   # activations and logits that one microbatch keeps of each chunk

    @property
    def total(self) -> int:
        return sum(self.nbytes.values())

    def of_kind(self, kind: MemoryKind | None) -> int:
        """Bytes as a measurement of this kind counts them; all of the device's where the kind is not known."""
        counted = {MemoryKind.ALLOCATED: self.allocated, MemoryKind.RESERVED: self.reserved}
        return counted.get(kind, self.total) if kind else self.total


@dataclass(frozen=True, slots=True)
class MemoryBreakdown:
    """Bytes per pipeline rank against what the device has."""

    ranks: tuple[RankMemory, ...]
    capacity_bytes: int
    margin: float  # part of the capacity kept free

    @property
    def peak_rank(self) -> int:
        return max(self.ranks, key=lambda rank: rank.total).rank

    @property
    def peak_bytes(self) -> int:
        return max(rank.total for rank in self.ranks)

    @property
    def budget_bytes(self) -> int:
        """What a recipe may take: capacity less the safety margin."""
        return int(self.capacity_bytes * (1 - self.margin))

    @property
    def feasible(self) -> bool:
        return self.peak_bytes <= self.budget_bytes


@dataclass(frozen=True, slots=True)
class ExposedCommunication:
    """Seconds per step of communication that nothing hides, by parallel axis."""

    tp: float = 0.0
    cp: float = 0.0
    ep: float = 0.0
    pp: float = 0.0
    dp: float = 0.0
    fsdp: float = 0.0

    @property
    def seconds(self) -> float:
        return float(sum(getattr(self, axis.name) for axis in fields(self)))


@dataclass(frozen=True, slots=True)
class StepDetail:
    """What a part of the step consists of; the details of a part add up to it."""

    part: str  # key of StepBreakdown.parts()
    label: str
    seconds: float


@dataclass(frozen=True, slots=True)
class StepBreakdown:
    """Where the time of one optimizer step goes, in seconds, on the pipeline rank that is busy longest.

    The parts add up to `seconds` exactly.
    """

    compute: float
    recompute: float
    bubble: float
    optimizer: float
    other: float
    exposed: ExposedCommunication = field(default_factory=ExposedCommunication)
    details: tuple[StepDetail, ...] = ()  # of compute, bubble, optimizer and other

    @property
    def seconds(self) -> float:
        return self.compute + self.recompute + self.bubble + self.optimizer + self.other + self.exposed.seconds

    def parts(self) -> tuple[tuple[str, str, float], ...]:
        """(key, label, seconds) of every part, in the order in which they are drawn."""
        return (
            ("compute", "Compute", self.compute),
            ("recompute", "Recompute", self.recompute),
            *(
                (f"exposed.{axis.name}", f"Exposed {axis.name.upper()}", getattr(self.exposed, axis.name))
                for axis in fields(self.exposed)
            ),
            ("bubble", "Pipeline bubble", self.bubble),
            ("optimizer", "Optimizer", self.optimizer),
            ("other", "Other", self.other),
        )


@dataclass(frozen=True, slots=True)
class Throughput:
    """Rates of the whole run."""

    tokens_per_s: float
    tokens_per_s_per_gpu: float
    model_tflops_per_gpu: float  # model FLOPs (no recompute, causal half of attention) per GPU and second, in TFLOP/s
    mfu: float | None            # over the peak of the recipe's precision; None where the device states none

    @property
    def tokens_per_day(self) -> float:
        return self.tokens_per_s * 86_400


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """One operator of one layer kind on one GPU: seconds for one microbatch."""

    layer: str
    operator: str
    forward: float
    backward: float
    recompute: float
    exposed: float       # communication of it that stays exposed, forward and backward together
    flops_forward: float
    bound: str           # what limits it: compute, memory, launch, or communication
    origin: Origin = Origin.SIMULATED


@dataclass(frozen=True, slots=True)
class CommunicationRow:
    """One collective of the step, as a GPU of the pipeline rank that is busy longest takes part in it.

    `exposed` of all rows of a part adds up to that part of `StepBreakdown.exposed`; what overlap hides is known for the part
    and shared out in proportion to `total`. It may exceed `total` for pp and dp, where a step waits for other ranks' too.
    """

    part: str                       # field of ExposedCommunication, or "optimizer"
    axis: str                       # whose group: tp, cp, ep, etp, pp, dp, expert_dp, or world
    kind: str                       # all-reduce, all-gather, ...
    used_by: tuple[str, ...]        # operators, or what it moves
    ranks: Sequence[int]            # members of one such group, ascending
    per_node: int                   # how many of them share the first one's node
    sharing: tuple[tuple[str, int], ...]  # (tier, how many of them share the first one's domain of it), inside out
    tiers: tuple[str, ...]          # tiers that it crosses
    algorithm: str
    alternatives: tuple[tuple[str, float], ...]  # (name, seconds of one call) of every published algorithm, fastest first
    nbytes: float                   # of one call: the whole tensor; all-to-all: what one rank sends to all; else one message
    seconds: float                  # of one call
    calls: float                    # a step
    exposed: float                  # seconds a step that nothing hides
    bus_bandwidth: float            # bytes/s of one call, as nccl-tests defines it

    @property
    def size(self) -> int:
        return len(self.ranks)

    @property
    def total(self) -> float:
        """Seconds a step, hidden or not."""
        return self.seconds * self.calls


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """How one pass of a part came about from a measurement. All but `ratio` in seconds, for one microbatch.

    compute = target x ratio, where ratio = (measured - communication_measured) / simulated.
    """

    part: str
    name: str                       # of the pass: forward, backward, input gradient, weight gradient
    measured: float
    communication_measured: float   # in the measured pass, taken off it
    simulated: float                # compute of the measured run
    target: float                   # simulated compute of the target
    ratio: float
    compute: float                  # restored compute of the target
    communication: float            # of the target

    @property
    def total(self) -> float:
        return self.compute + self.communication


@dataclass(frozen=True, slots=True)
class Projection:
    """The answer. When `violations` is not empty nothing else was computed: those parts are None."""

    violations: tuple[Violation, ...]
    warnings: tuple[str, ...]
    gpus: int
    dp: int
    microbatches: int
    parameters: ModelParameters | None = None
    memory: MemoryBreakdown | None = None
    step: StepBreakdown | None = None
    throughput: Throughput | None = None
    timeline: Timeline | None = None
    pass_parts: PassParts | None = None  # what the passes of the timeline consist of
    operators: tuple[OperatorTime, ...] = ()
    communication: tuple[CommunicationRow, ...] = ()
    audit: tuple[AuditEntry, ...] = ()
    origin_compute: Origin = Origin.SIMULATED
    origin_communication: Origin = Origin.SIMULATED

    @property
    def legal(self) -> bool:
        return not self.violations

    @property
    def feasible(self) -> bool:
        return self.memory is not None and self.memory.feasible
