"""Which values of a recipe field are worth trying: divisors and multiples for sizes, all members for categories."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import lru_cache
from math import isqrt, lcm
from typing import Any

from projectors.inputs.recipe import Recipe
from projectors.legality.rule import Situation
from projectors.pipeline import legal_groups

MOST_CANDIDATES = 256
"""Values of one field that are tried: more than a spin box steps through, few enough for an answer within a frame."""

SHORTEST_SEQUENCE = 512
"""Shortest sequence length offered, in tokens; shorter ones are legal where typed."""


def candidates(s: Situation, field: str) -> Sequence[Any]:
    """Values of a study path that could mend a rule, best first for categories, ascending for sizes; () = not known."""
    room, _, name = field.partition(".")
    if room != "recipe":
        return ()
    if name in _NUMBERS:
        return _NUMBERS[name](s)
    default = Recipe.model_fields[name].default
    if name == "sequence_parallel":
        return (True, False)
    if isinstance(default, bool):
        return (default, not default)
    if isinstance(default, Enum):
        return (default, *(member for member in type(default) if member is not default))
    return ()


def is_numeric(field: str) -> bool:
    """Whether legal values of a study path can be listed as whole numbers."""
    return field.removeprefix("recipe.") in _NUMBERS


@lru_cache(maxsize=1024)
def divisors(number: int) -> tuple[int, ...]:
    """Divisors in ascending order, at most the `MOST_CANDIDATES` smallest."""
    small = [divisor for divisor in range(1, isqrt(number) + 1) if number % divisor == 0]
    large = [number // divisor for divisor in reversed(small) if divisor * divisor != number]
    return tuple(small + large)[:MOST_CANDIDATES]


def _degrees(s: Situation) -> tuple[int, ...]:
    return divisors(s.gpus)


def _expert_parallel(s: Situation) -> tuple[int, ...]:
    return divisors(s.card.moe.num_experts) if s.card.moe else (1,)


def _expert_tensor_parallel(s: Situation) -> tuple[int, ...]:
    return divisors(s.gpus) if s.card.moe else (1,)


def _virtual(s: Situation) -> range:
    return range(1, min(max(s.card.num_layers // s.recipe.pp, 1), MOST_CANDIDATES) + 1)


def _microbatch(s: Situation) -> tuple[int, ...]:
    """Divisors of a replica's part of the batch; of the batch where that is no whole number."""
    gbs, dp = s.recipe.gbs, int(s.dp)
    return divisors(gbs // dp if gbs % dp == 0 else gbs)


def _global_batch(s: Situation) -> list[int]:
    """Multiples of mbs x dp: the smallest ones and those around the present batch."""
    unit = s.recipe.mbs * int(s.dp)
    present, half = s.recipe.gbs // unit, MOST_CANDIDATES // 2
    return [unit * count for count in sorted({*range(1, half + 1), *range(max(present - half // 2, 1), present + half // 2)})]


def _sequence(s: Situation) -> list[int]:
    """Multiples of what cp and tp split a sequence by: powers of two up to the model's length, and those around the present."""
    unit = lcm(2 * s.recipe.cp if s.recipe.cp > 1 else 1, s.recipe.cp * int(s.columns.sp))
    longest = max(s.card.max_seq_len, s.recipe.seq_length)
    powers = {1 << exponent for exponent in range(longest.bit_length())}
    below = s.recipe.seq_length // unit * unit
    around = {max(below, unit), s.recipe.seq_length if below == s.recipe.seq_length else below + unit}
    return sorted(around | {length for length in powers if length >= SHORTEST_SEQUENCE and length % unit == 0})


def _shard_group(s: Situation) -> tuple[int, ...]:
    return divisors(int(s.dp) * s.recipe.cp)


def _recomputed_layers(s: Situation) -> range:
    return range(1, min(s.most_layers_per_stage, MOST_CANDIDATES) + 1)


def _imbalance(s: Situation) -> range:
    return range(1, min(s.recipe.ep, MOST_CANDIDATES) + 1)


def _groups(s: Situation) -> tuple[int, ...]:
    """Groups that the interleaved schedule can run, at most the `MOST_CANDIDATES` smallest."""
    return legal_groups(s.recipe.pp, int(s.microbatches), MOST_CANDIDATES)


_NUMBERS = {
    "tp": _degrees,
    "pp": _degrees,
    "cp": _degrees,
    "ep": _expert_parallel,
    "etp": _expert_tensor_parallel,
    "vpp": _virtual,
    "mbs": _microbatch,
    "gbs": _global_batch,
    "seq_length": _sequence,
    "microbatch_group_size": _groups,
    "shard_group": _shard_group,
    "recompute_num_layers": _recomputed_layers,
    "expert_imbalance": _imbalance,
}
