"""The study: the four inputs together, what the window opens and saves and every command takes."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from projectors.inputs.cluster import ClusterSpec
from projectors.inputs.describe import Frozen, quantity
from projectors.inputs.framework import DEFAULT_FRAMEWORK, FrameworkProfile
from projectors.inputs.model_card import ModelCard
from projectors.inputs.recipe import Recipe


class ComputeMode(StrEnum):
    SIMULATE = "simulate"
    BENCHMARK = "benchmark"
    BOTH = "both"


class Compute(Frozen):
    """Where layer times come from."""

    mode: ComputeMode = quantity(
        ComputeMode.SIMULATE, says="Layer times from the roofline, from a benchmark record, or both side by side"
    )
    record: str | None = Field(default=None, description="Benchmark record: a file, a name, or latest")


class Objective(StrEnum):
    TOKENS_PER_S_PER_GPU = "tokens_per_s_per_gpu"
    COST_PER_MTOKEN = "cost_per_mtoken"
    MFU = "mfu"
    ENERGY_PER_MTOKEN = "energy_per_mtoken"


class Budget(Frozen):
    """Where tuning stops."""

    trials: int = quantity(60, says="Candidates scored", least=1, most=10_000_000)
    benchmarks: int = quantity(12, says="Candidates measured on a device", least=0, most=100_000)
    llm_calls: int = quantity(40, says="Calls to the language model", least=0, most=100_000)
    minutes: float = quantity(30, says="Wall time", unit="min", above=0, most=100_000)
    stop_after_no_gain: int = quantity(5, says="Trials in a row without improvement", least=1, most=100_000)


class LanguageModel(Frozen):
    """Endpoint of the tuning agent. The key never stands in a file."""

    base_url: str | None = Field(default=None, description="OpenAI-compatible endpoint; null = the setting")
    model: str | None = Field(default=None, description="Model name; null = the setting")


AxisValues = Literal["auto"] | tuple[int, ...] | tuple[str, ...] | tuple[bool, ...]


class Search(Frozen):
    """What tuning may change, towards what, and at which cost."""

    axes: dict[str, AxisValues] = Field(default_factory=dict, description="Recipe field -> auto or the values allowed")
    objective: Objective = quantity(Objective.TOKENS_PER_S_PER_GPU, says="What is ranked by")
    memory_margin: float = quantity(
        0.08, says="Part of the capacity kept free: feasible is projected <= capacity * (1 - margin)", least=0, most=0.9
    )
    budget: Budget = Budget()
    llm: LanguageModel = LanguageModel()


class Study(Frozen):
    """Model card, cluster (with its hardware), recipe, and how to compute and search."""

    version: Literal[1] = 1
    model: ModelCard = Field(description="The model")
    cluster: ClusterSpec = Field(description="The cluster")
    recipe: Recipe = Field(description="The recipe")
    framework: FrameworkProfile = Field(default=DEFAULT_FRAMEWORK, description="The training framework")
    compute: Compute = Compute()
    search: Search = Search()
