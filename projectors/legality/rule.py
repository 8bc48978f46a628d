"""What a rule is, what it looks at, and what a broken one says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from projectors.columns import Columns, Quantity, at_least, columns_of
from projectors.inputs.cluster import ClusterSpec
from projectors.inputs.model_card import ModelCard
from projectors.inputs.recipe import Recipe

Condition = bool | NDArray[np.bool_]
"""Whether a rule holds: one answer, or one per recipe where the columns are arrays."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule."""

    rule: str                  # stable name of the rule, such as tp-divides-heads
    fields: tuple[str, ...]    # study paths the rule is about, such as recipe.tp; the first is the one to change
    reason: str                # what is wrong, in words and with the numbers
    nearest: int | str | None  # nearest legal value of the first field, where there is one


@dataclass(frozen=True, slots=True)
class Situation:
    """What rules read: degrees and sizes from `columns`, categories from `recipe`."""

    card: ModelCard
    cluster: ClusterSpec
    recipe: Recipe
    columns: Columns

    @classmethod
    def of(cls, card: ModelCard, cluster: ClusterSpec, recipe: Recipe) -> Self:
        return cls(card, cluster, recipe, columns_of(recipe, cluster))

    def with_value(self, name: str, value: Any) -> Situation:
        """The same with one recipe field replaced (by a value of its type)."""
        return Situation.of(self.card, self.cluster, self.recipe.model_copy(update={name: value}))

    @property
    def gpus(self) -> int:
        return self.cluster.gpus

    @property
    def dp(self) -> Quantity:
        """Data-parallel size; at least 1, so that rules further on can divide by it where the degrees exceed the GPUs."""
        return at_least(self.columns.dp, 1)

    @property
    def microbatches(self) -> Quantity:
        """Microbatches per data-parallel rank and step, rounded down."""
        return self.columns.gbs // (self.columns.mbs * self.dp)

    @property
    def model_parallel(self) -> Quantity:
        """GPUs of one replica of the dense part."""
        return self.columns.tp * self.columns.cp * self.columns.pp

    @property
    def expert_parallel(self) -> Quantity:
        """GPUs of one replica of the experts."""
        return self.columns.etp * self.columns.ep * self.columns.pp

    @property
    def sequences_at_once(self) -> Quantity:
        """Sequences of one microbatch on every replica."""
        return self.columns.mbs * self.dp

    @property
    def replicas(self) -> Quantity:
        """GPUs that hold the same dense parameters: dp x cp."""
        return self.dp * self.columns.cp

    @property
    def most_imbalance(self) -> float:
        """Largest possible load of one expert-parallel rank over the mean.

        A token picks top_k distinct experts: a rank with E/ep of them takes min(top_k, E/ep) copies at most, top_k/ep on
        average.
        """
        if self.card.moe is None:
            return 1.0
        return max(1.0, min(self.recipe.ep, self.card.moe.num_experts / self.card.moe.top_k))

    @property
    def virtual_stages(self) -> int:
        return self.columns.pp * self.columns.vpp

    @property
    def experts(self) -> int:
        """Routed experts; 0 in a dense model."""
        return self.card.moe.num_experts if self.card.moe else 0

    @property
    def has_dense_layers(self) -> bool:
        return self.card.moe is None or not all(self.card.is_moe(layer) for layer in range(self.card.num_layers))

    @property
    def stages_stated(self) -> int:
        return len(self.recipe.stage_layers or ())

    @property
    def layers_stated(self) -> int:
        return sum(self.recipe.stage_layers or ())

    @property
    def most_layers_per_stage(self) -> int:
        """Layers of the fullest virtual stage."""
        if self.recipe.stage_layers:
            return max(self.recipe.stage_layers)
        return -(-self.card.num_layers // self.virtual_stages)


Reason = str | Callable[[Situation], str]


@dataclass(frozen=True, slots=True)
class Rule:
    """A named condition. `fields` are study paths; those that can mend it come first, in the order one would try."""

    name: str
    fields: tuple[str, ...]
    holds: Callable[[Situation], Condition]
    reason: Reason
    source: str  # what the rule rests on

    def words(self, s: Situation) -> str:
        """Why the rule is broken, with the numbers of the situation."""
        if not isinstance(self.reason, str):
            return self.reason(s)
        return self.reason.format(
            s=s, r=s.recipe, card=s.card, moe=s.card.moe, v4=s.card.compressed_attention, device=s.cluster.hardware
        )


def rule(*fields: str, reason: Reason) -> Callable[[Callable[[Situation], Condition]], Rule]:
    """Make a rule of a condition; its name is the function's with dashes, its source the docstring.

    `reason` is a function, or a template over s (the situation), r (recipe), card, moe, v4 and device.
    """

    def make(holds: Callable[[Situation], Condition]) -> Rule:
        return Rule(holds.__name__.replace("_", "-"), fields, holds, reason, holds.__doc__ or "")

    return make


def implies(premise: Condition, conclusion: Condition) -> Condition:
    """Logical implication, for booleans and arrays."""
    return np.logical_or(np.logical_not(premise), conclusion) if isinstance(premise, np.ndarray) else not premise or conclusion
