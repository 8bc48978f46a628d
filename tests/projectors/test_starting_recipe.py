"""File → New starts from something legal; it fits wherever anything simple does."""

from __future__ import annotations

import pytest

from projectors.inputs import library
from projectors.legality import violations
from projectors.projection import project
from projectors.starting_recipe import starting_recipe

MARGIN = 0.08


@pytest.mark.parametrize("model", library.names("models"))
@pytest.mark.parametrize("cluster", ["h100-8x8", "mi355x-4x8"])
def test_every_shipped_model_starts_legal(model: str, cluster: str) -> None:
    card, machine = library.model(model), library.cluster(cluster)
    assert not violations(card, machine, starting_recipe(card, machine, memory_margin=MARGIN))


@pytest.mark.parametrize(
    ("model", "cluster"),
    [("llama3.1-8b", "h100-1x8"), ("llama3.1-70b", "h100-8x8"), ("mixtral-8x22b", "mi355x-4x8"), ("deepseek-v3", "h100-128x8")],
)
def test_where_something_fits_the_start_fits(model: str, cluster: str) -> None:
    card, machine = library.model(model), library.cluster(cluster)
    assert project(card, machine, starting_recipe(card, machine, memory_margin=MARGIN), memory_margin=MARGIN).feasible


def test_a_small_model_needs_no_model_parallelism() -> None:
    recipe = starting_recipe(library.model("llama3.1-8b"), library.cluster("mi355x-1x8"), memory_margin=MARGIN)
    assert (recipe.tp, recipe.pp) == (1, 1)
