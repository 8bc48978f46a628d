"""Checking a recipe against every rule, and what would be legal instead."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from projectors.inputs.cluster import ClusterSpec
from projectors.inputs.model_card import ModelCard
from projectors.inputs.recipe import Recipe, Schedule
from projectors.inputs.study import Study
from projectors.legality import degrees, options, stages
from projectors.legality.candidates import candidates, is_numeric
from projectors.legality.rule import Rule, Situation, Violation

RULES: tuple[Rule, ...] = degrees.RULES + stages.RULES + options.RULES
"""Every rule, in the order in which violations are reported."""


def violations(card: ModelCard, cluster: ClusterSpec, recipe: Recipe) -> tuple[Violation, ...]:
    """Every broken rule, each with its reason and the nearest legal value of the field that can mend it."""
    situation = Situation.of(card, cluster, recipe)
    found: list[Violation] = []
    for rule in RULES:
        if not rule.holds(situation):
            found.append(_violation(situation, rule, blamed={violation.fields[0] for violation in found}))
    return tuple(found)


def is_legal(card: ModelCard, cluster: ClusterSpec, recipe: Recipe) -> bool:
    """Whether no rule is broken."""
    situation = Situation.of(card, cluster, recipe)
    return all(rule.holds(situation) for rule in RULES)


def open_schedules(card: ModelCard, cluster: ClusterSpec, recipe: Recipe) -> tuple[Schedule, ...]:
    """Schedules that schedule `auto` may become: those that break no rule with the rest of the recipe."""
    situation, rules = Situation.of(card, cluster, recipe), _about("recipe.schedule")
    return tuple(schedule for schedule in stages.SCHEDULES if _all_hold(situation, "recipe.schedule", schedule, rules))


def legal_values(study: Study, field: str) -> tuple[int, ...] | None:
    """Values of one numeric recipe field, such as recipe.tp, that break no rule about it while all others stay.

    A rule that no value of this field can satisfy is another field's fault and does not count. None: the field is not
    limited to a list.
    """
    if not is_numeric(field):
        return None
    situation = Situation.of(study.model, study.cluster, study.recipe)
    return tuple(_legal(situation, field))


def _legal(situation: Situation, field: str) -> list[Any]:
    """Candidates of a field that pass every rule about it that some candidate passes."""
    trials = [(value, situation.with_value(_name(field), value)) for value in candidates(situation, field)]
    for rule in _about(field):
        passing = [(value, trial) for value, trial in trials if rule.holds(trial)]
        trials = passing or trials
    return [value for value, _ in trials]


def _about(field: str) -> list[Rule]:
    """Rules that name a field; those that name it first come first, and so have the first word."""
    return sorted((rule for rule in RULES if field in rule.fields), key=lambda rule: rule.fields.index(field))


def _violation(situation: Situation, rule: Rule, blamed: set[str]) -> Violation:
    """Put first the field that can mend the rule: one that is blamed already, or can without breaking another rule."""
    reason = rule.words(situation)
    mends = {field: _mending(situation, rule, field) for field in sorted(rule.fields, key=lambda field: field not in blamed)}
    clean = {
        field: [value for value in values if _all_hold(situation, field, value, _about(field))] for field, values in mends.items()
    }
    for choices in (clean, mends):
        for field, values in choices.items():
            if values:
                nearest = _nearest(getattr(situation.recipe, _name(field)), values)
                return Violation(rule.name, (field, *(other for other in rule.fields if other != field)), reason, nearest)
    return Violation(rule.name, rule.fields, reason, None)


def _mending(situation: Situation, rule: Rule, field: str) -> list[Any]:
    """Values of a field with which the rule holds."""
    return [value for value in candidates(situation, field) if rule.holds(situation.with_value(_name(field), value))]


def _all_hold(situation: Situation, field: str, value: Any, rules: Sequence[Rule]) -> bool:
    changed = situation.with_value(_name(field), value)
    return all(rule.holds(changed) for rule in rules)


def _name(field: str) -> str:
    return field.removeprefix("recipe.")


def _nearest(present: Any, values: Sequence[Any]) -> int | str:
    """The number closest to the present one (the smaller of two), the first of categories, a switch as true or false."""
    best = values[0]
    if isinstance(best, bool):
        return "true" if best else "false"
    if isinstance(best, Enum):
        return str(best.value)
    if present is None:
        return int(best)
    return int(min(values, key=lambda value: (abs(value - present), value)))
