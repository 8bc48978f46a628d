"""Bytes per GPU, per pipeline rank, per component: for one recipe with its formulas, or for a table of recipes."""
from __future__ import annotations

from projectors.memory.breakdown import memory_breakdown
from projectors.memory.table import peak_bytes

__all__ = ["memory_breakdown", "peak_bytes"]
