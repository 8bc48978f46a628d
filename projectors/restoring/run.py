"""The run behind a study's benchmark record: what was measured, with the simulation of exactly that."""

from __future__ import annotations

from dataclasses import replace

from projectors.compute.layer import machine_of
from projectors.compute.measured import MeasuredRun, measured_lines, measured_run
from projectors.inputs.benchmark_record import BenchmarkRecord
from projectors.inputs.errors import InputError, InputProblem
from projectors.inputs.study import ComputeMode, Study
from projectors.restoring.records import LATEST, load_record, matches
from projectors.restoring.scaling import reduced_cluster, reduced_columns, scale_down
from projectors.workload.layers import distinct_kinds
from projectors.workload.model import model_parts

RESTORED_DEGREES = frozenset({"tp", "ep", "etp"})
"""Degrees whose scaling down changes the shapes of a layer."""


def run_of(study: Study) -> MeasuredRun | None:
    """The measured run that a study asks for; None where it asks for simulation.

    Raises InputError where there is no such record, or where it measured something else than this study's layers.
    """
    if study.compute.mode is ComputeMode.SIMULATE:
        return None
    record = load_record(study.compute.record or LATEST, study)
    wrong = [match for match in matches(record, study) if not match.fits]
    if wrong:
        raise InputError([
            InputProblem("compute.record", f"{record.name} with {match.what} {match.found}", f"{match.what} {match.wanted}")
            for match in wrong
        ])
    return run_with(record, study)


def run_with(record: BenchmarkRecord, study: Study) -> MeasuredRun:
    """A record that fits a study, as what its layers take."""
    columns = replace(reduced_columns(study, record.recipe, record.device.count), schedule=study.recipe.schedule)
    machine = machine_of(reduced_cluster(study.cluster, record.device.count), columns, measured_lines(record))
    _, _, reductions = scale_down(study.model, study.recipe, record.device.count)
    return measured_run(
        record, model_parts(record.model, distinct_kinds(record.model), columns), machine, columns,
        same_shapes=not any(each.name in RESTORED_DEGREES for each in reductions),
    )
