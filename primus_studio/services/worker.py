"""What the engine process runs. No Qt: this file is imported by a spawned interpreter.

The engine is imported inside the functions: the window names them and has no need of it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from projectors.inputs.cluster import ClusterSpec
from projectors.inputs.model_card import ModelCard
from projectors.inputs.recipe import Recipe
from projectors.inputs.study import Search, Study

if TYPE_CHECKING:
    from projectors.results import Projection


def projected(study: Study) -> tuple[Projection, float]:
    """A projection and the seconds that it took."""
    from projectors.projection import project_study

    start = time.perf_counter()
    projection = project_study(study)
    return projection, time.perf_counter() - start


def started(card: ModelCard, cluster: ClusterSpec) -> Study:
    """A study with a legal recipe that fits, where there is one."""
    from projectors.starting_recipe import starting_recipe

    search = Search()
    recipe: Recipe = starting_recipe(card, cluster, memory_margin=search.memory_margin)
    return Study(model=card, cluster=cluster, recipe=recipe, search=search)


def warmed() -> None:
    """Compile the pipeline kernel: half a second, paid while the user reads the first answer."""
    from projectors.pipeline import compile_kernel

    compile_kernel()
