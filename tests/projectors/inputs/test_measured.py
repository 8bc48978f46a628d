"""Published results load in the contract's form, each with its source and something measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from projectors.inputs import InputError
from projectors.inputs.measured import load_measured
from projectors.inputs.places import shipped_folder

Write = Callable[[str, str], Path]

FILES = sorted((shipped_folder() / "measured").glob("*.yaml"))
LEAST_CASES = 300

CASE = """\
- id: a
  source: somewhere
  model: llama3.1-8b
  cluster: h100-1x8
  recipe: {gbs: 8, seq_length: 128}
  measured: {tokens_per_s_per_gpu: 100.0}
"""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_published_case_loads_and_divides(path: Path) -> None:
    for case in load_measured(path):
        recipe = case.recipe
        dp, left = divmod(case.cluster.gpus, recipe.tp * recipe.cp * recipe.pp)
        assert left == 0, case.id
        assert recipe.gbs % (recipe.mbs * dp) == 0, case.id
        assert case.measured.model_dump(exclude_none=True), case.id
        assert (case.measured.memory_gib is None) == (case.measured.memory_kind is None), case.id


def test_case_names_are_unique() -> None:
    names = [case.id for path in FILES for case in load_measured(path)]
    assert len(names) == len(set(names)) >= LEAST_CASES


def test_throughput_and_step_time_agree() -> None:
    """gbs x seq_length / step / GPUs = tokens/s/GPU within 3 %, as facts/measured.md states for every case."""
    for path in FILES:
        for case in load_measured(path):
            measured = case.measured
            if measured.tokens_per_s_per_gpu and measured.step_seconds:
                tokens = case.recipe.gbs * case.recipe.seq_length / measured.step_seconds / case.cluster.gpus
                assert tokens == pytest.approx(measured.tokens_per_s_per_gpu, rel=0.03), case.id


def test_a_faulty_case_is_placed(write: Write) -> None:
    path = write("cases.yaml", CASE + CASE.replace("id: a", "id: b\n  notice: x").replace("100.0", "-1"))
    with pytest.raises(InputError) as caught:
        load_measured(path)
    assert [(problem.where, problem.line) for problem in caught.value.problems] == [
        ("[1].notice", 8),
        ("[1].measured.tokens_per_s_per_gpu", 13),
    ]
    with pytest.raises(InputError, match="at the top level"):
        load_measured(write("map.yaml", "a: 1\n"))
    with pytest.raises(InputError, match="no value"):
        load_measured(write("cases.yaml", CASE.replace("  source: somewhere\n", "")))
