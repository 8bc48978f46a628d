"""Every rule that a recipe must satisfy on a model and a cluster, each with its reason in words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule."""

    rule: str                  # stable name of the rule, such as tp-divides-heads
    fields: tuple[str, ...]    # study paths the rule is about, such as recipe.tp; the first is the one to change
    reason: str                # what is wrong, in words and with the numbers
    nearest: int | str | None  # nearest legal value of the first field, where there is one
