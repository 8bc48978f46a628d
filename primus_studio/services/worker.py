"""What the engine process runs. No Qt: this file is imported by a spawned interpreter.

The engine is imported inside the functions: the window names them and has no need of it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from projectors.inputs.cluster import ClusterSpec
from projectors.inputs.model_card import ModelCard
from projectors.inputs.recipe import Recipe
from projectors.inputs.study import Search, Study

if TYPE_CHECKING:
    from projectors.benchmark.plan import BenchmarkPlan
    from projectors.compute.measured import MeasuredRun
    from projectors.inputs.benchmark_record import BenchmarkRecord, MeasuredDevice
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


def planned_benchmark(study: Study, devices: tuple[MeasuredDevice, ...]) -> BenchmarkPlan:
    """What would be measured on these devices."""
    from projectors.benchmark.plan import plan_benchmark

    return plan_benchmark(study, devices)


def benchmark_records(study: Study | None) -> list[tuple[str, BenchmarkRecord | None, str, MeasuredRun | None]]:
    """(path, record, why it does not serve the study, its simulation where it does) of every kept record, newest first."""
    from projectors.inputs.errors import InputError
    from projectors.restoring.records import kept_records, matches
    from projectors.restoring.run import run_with

    found: list[tuple[str, BenchmarkRecord | None, str, MeasuredRun | None]] = []
    for path, record in kept_records():
        if isinstance(record, InputError):
            found.append((str(path), None, record.problems[0].brief, None))
            continue
        wrong = [match for match in matches(record, study) if not match.fits] if study else []
        words = "; ".join(f"{match.what} is {match.found}, not {match.wanted}" for match in wrong)
        found.append((str(path), record, words, run_with(record, study) if study and not wrong else None))
    return found


def hardware_from_record(study: Study, path: str, name: str) -> str:
    """Write the hardware profile that meets a record into the user's folder; its path. Raises InputError."""
    import yaml

    from projectors.inputs.catalog import is_name
    from projectors.inputs.errors import InputError, InputProblem
    from projectors.inputs.places import user_folder
    from projectors.inputs.saving import write_atomically
    from projectors.restoring.fitted import fitted_hardware
    from projectors.restoring.records import read_record
    from projectors.restoring.run import run_with

    if not is_name(name):
        raise InputError([InputProblem("", f'"{name}"', "a name of letters, digits and . _ + -, such as h100-measured")])
    record = read_record(Path(path))
    hardware = study.cluster.hardware
    try:
        fitted = fitted_hardware(hardware, record, run_with(record, study), name)
    except ValueError as error:
        raise InputError([InputProblem("", str(error), "a record with measured layers")]) from None
    target = user_folder() / "hardware" / f"{name}.yaml"
    target.parent.mkdir(parents=True, exist_ok=True)
    plain = fitted.model_dump(mode="json")
    write_atomically(target, yaml.safe_dump(plain, sort_keys=False, width=130, allow_unicode=True))
    return str(target)
