"""Every rule that a recipe must satisfy on a model and a cluster, each with its reason in words."""

from __future__ import annotations

from projectors.legality.advice import warnings
from projectors.legality.check import RULES, is_legal, legal_values, open_schedules, violations
from projectors.legality.rule import Rule, Violation
from projectors.legality.stages import SCHEDULES, chunk_counts

__all__ = [
    "RULES", "SCHEDULES", "Rule", "Violation", "chunk_counts", "is_legal", "legal_values", "open_schedules", "violations",
    "warnings",
]
