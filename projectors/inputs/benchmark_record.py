"""A benchmark record: what was measured on a local device, how, and under which conditions. Versioned, kept as YAML.

A record holds the reduced run that was measured (model card, recipe, processes), so that the same analytic formulas can be
evaluated for it and for the target; what is projected from it is measured times the ratio of the two.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from projectors.inputs.describe import Frozen, quantity
from projectors.inputs.model_card import ModelCard
from projectors.inputs.recipe import Recipe

MOST_SAMPLES = 1_000_000


class DeviceKind(StrEnum):
    """Kind of device that PyTorch runs on; `cuda` is NVIDIA's and AMD's builds alike."""

    CUDA = "cuda"
    CPU = "cpu"


class Sample(Frozen):
    """Repeated timings of one thing, outliers left out."""

    seconds: float = quantity(says="Median", unit="s", least=0, most=1e6)
    spread: float = quantity(says="Half the range between the quartiles, over the median", least=0, most=1e6)
    count: int = quantity(says="Timings kept", least=1, most=MOST_SAMPLES)
    outliers: int = quantity(0, says="Timings left out", least=0, most=MOST_SAMPLES)


class MeasuredPart(Frozen):
    """One layer kind, the embedding, or the head with the loss: its passes for one microbatch on one device."""

    part: str = Field(description="Label of the part, such as MoE layer", min_length=1)
    forward: Sample = Field(description="Forward pass")
    backward: Sample = Field(description="Whole backward pass, both gradients")
    input_gradient: Sample = Field(description="Backward pass for the gradient of the input alone")
    saved_bytes: int = quantity(says="Tensors kept for the backward pass, parameters aside", unit="B", least=0, most=1 << 62)
    peak_bytes: int | None = quantity(
        None, says="Most that the allocator held in forward and backward; null = no such figure", unit="B", least=0, most=1 << 62
    )


class MeasuredOptimizer(Frozen):
    """The optimizer step over all parameters of one part."""

    parameters: int = quantity(says="fp32 parameters updated", least=1, most=1 << 62)
    step: Sample = Field(description="One step")


class MeasuredCollective(Frozen):
    """A collective over several devices, by size, and the line fitted to it: seconds = latency + bytes / bandwidth."""

    kind: str = Field(description="Collective, such as all-reduce", min_length=1)
    members: int = quantity(says="Devices that take part", least=2, most=1_000_000)
    nbytes: tuple[int, ...] = Field(description="Sizes, as `workload.operators.Collective.nbytes` counts them")
    samples: tuple[Sample, ...] = Field(description="Timings of each size")
    latency_us: float = quantity(says="Fitted time of an empty one", unit="µs", least=0, most=1e9)
    bandwidth_gb_s: float = quantity(says="Fitted algorithm bandwidth", unit="GB/s", above=0, most=1e9)


class Conditions(Frozen):
    """The device while it was measured, sampled; null = not told by the driver."""

    samples: int = quantity(0, says="Readings", least=0, most=MOST_SAMPLES)
    clock_mhz: float | None = quantity(None, says="Median clock", unit="MHz", least=0, most=1e6)
    clock_mhz_least: float | None = quantity(None, says="Lowest clock", unit="MHz", least=0, most=1e6)
    temperature_c: float | None = quantity(None, says="Highest temperature", unit="°C", least=-100, most=1000)
    power_w: float | None = quantity(None, says="Median power", unit="W", least=0, most=1e6)
    throttled: bool | None = quantity(None, says="Whether the driver reported throttling")
    reasons: tuple[str, ...] = Field(default=(), description="Why it throttled, in the driver's words")


class MeasuredDevice(Frozen):
    """The device, as PyTorch and the driver name it."""

    kind: DeviceKind = quantity(says="Kind of device")
    name: str = Field(description="Product name", min_length=1)
    count: int = quantity(1, says="Devices used together", least=1, most=100_000)
    memory_bytes: int = quantity(says="Memory of one", unit="B", least=0, most=1 << 62)
    threads: int | None = quantity(None, says="Threads of one process; cpu only", least=1, most=100_000)
    hardware: str | None = Field(default=None, description="Hardware profile that this device is; null = none known")


class Failure(Frozen):
    """A measurement that failed, and why."""

    what: str = Field(description="Measurement", min_length=1)
    reason: str = Field(description="Why it failed", min_length=1)


class BenchmarkRecord(Frozen):
    """Everything measured in one run of `benchmark`."""

    version: Literal[1] = 1
    name: str = Field(description="Name of the record", min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")
    created: str = Field(description="When it was measured, ISO 8601")
    complete: bool = quantity(says="Whether everything planned was measured")
    device: MeasuredDevice = Field(description="What it was measured on")
    software: dict[str, str] = Field(default_factory=dict, description="Library or driver -> version")
    settings: dict[str, str] = Field(default_factory=dict, description="How it was measured: kernels, repeats")
    model: ModelCard = Field(description="The reduced model that was measured")
    recipe: Recipe = Field(description="The reduced recipe that was measured, on `device.count` devices of one node")
    parts: tuple[MeasuredPart, ...] = Field(default=(), description="Layer kinds and ends")
    optimizer: MeasuredOptimizer | None = Field(default=None, description="The optimizer step")
    collectives: tuple[MeasuredCollective, ...] = Field(default=(), description="Collectives over the devices")
    conditions: Conditions = Conditions()
    failures: tuple[Failure, ...] = Field(default=(), description="What failed")
