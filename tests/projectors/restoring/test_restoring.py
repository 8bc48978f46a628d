"""From a record to a projection: what was measured is what is projected, scaled by the simulation where it was scaled down."""

from __future__ import annotations

from pathlib import Path

import pytest

from projectors.benchmark.plan import plan_benchmark
from projectors.communication.collectives import collective_seconds
from projectors.communication.groups import network_of, spread
from projectors.communication.measured import MeasuredLine, with_lines
from projectors.compute.layer import machine_of
from projectors.inputs import library
from projectors.inputs.benchmark_record import (
    BenchmarkRecord,
    MeasuredCollective,
    MeasuredOptimizer,
)
from projectors.inputs.changing import replace
from projectors.inputs.errors import InputError
from projectors.inputs.study import Study
from projectors.projection import project_study
from projectors.restoring import records
from projectors.restoring.records import keep, kept_records, load_record, matches, read_record, record_text
from projectors.restoring.run import run_of, run_with
from projectors.restoring.scaling import reduced_cluster, reduced_columns, scale_down
from projectors.results import Origin
from projectors.workload.operators import CollectiveKind
from tests.projectors.benchmark.tiny import cpus, tiny
from tests.projectors.restoring.records import record_of, sample


@pytest.fixture(autouse=True)
def own_records(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    folder = tmp_path / "records"
    monkeypatch.setattr(records, "records_folder", lambda: folder)
    return folder


def with_record(study: Study, record: BenchmarkRecord, mode: str = "benchmark") -> Study:
    return replace(study, "compute", {"mode": mode, "record": str(keep(record))})


@pytest.mark.parametrize("recipe", [
    "pp: 2", "pp: 2, schedule: zb-h1", "pp: 4, recompute: full", "recompute: selective, recompute_modules: [mlp]",
    "tp: 2, pp: 2", "tp: 4",
])
def test_measuring_what_was_simulated_changes_nothing(recipe: str) -> None:
    """The ratio of the simulations puts back exactly what scaling down took off."""
    study = tiny("dense", recipe, per_node=8)
    simulated = project_study(study)
    measured = project_study(with_record(study, record_of(study)))
    assert simulated.step is not None and measured.step is not None
    for mine, theirs in zip(measured.step.parts(), simulated.step.parts(), strict=True):
        assert mine[2] == pytest.approx(theirs[2], rel=1e-6, abs=1e-9), mine[0]
    assert measured.audit and not simulated.audit


def test_twice_the_time_is_twice_the_compute() -> None:
    study = tiny("moe", "pp: 2", per_node=2)
    once, twice = (project_study(with_record(study, record_of(study, scale))) for scale in (1.0, 2.0))
    assert once.step is not None and twice.step is not None
    assert twice.step.compute == pytest.approx(2 * once.step.compute, rel=1e-6)
    assert twice.step.exposed.dp == once.step.exposed.dp


def test_origins_say_what_was_measured_and_what_restored() -> None:
    same = tiny("dense", "pp: 2", per_node=2)
    assert project_study(with_record(same, record_of(same))).origin_compute is Origin.MEASURED
    split = tiny("dense", "tp: 2", per_node=2)
    found = project_study(with_record(split, record_of(split)))
    assert (found.origin_compute, found.origin_communication) == (Origin.RESTORED, Origin.SIMULATED)
    assert all(operator.origin is Origin.RESTORED for operator in found.operators)
    assert project_study(split).origin_compute is Origin.SIMULATED


def test_the_audit_adds_up_to_what_is_projected() -> None:
    study = tiny("moe", "tp: 2, pp: 2, ep: 2", per_node=4)
    projection = project_study(with_record(study, record_of(study, 1.7, devices=2)))
    for entry in projection.audit:
        own = entry.measured - entry.communication_measured
        assert entry.ratio == pytest.approx(own / entry.simulated)
        assert entry.compute == pytest.approx(entry.target * entry.ratio)
        assert entry.total == pytest.approx(entry.compute + entry.communication)
    assert {entry.name for entry in projection.audit} == {"forward", "backward"}


def test_measured_collectives_scale_simulated_ones() -> None:
    """Twice the simulated time at the sizes that are sent makes twice the exposed communication, where nothing hides it."""
    study = tiny("dense", "tp: 2, sequence_parallel: false", per_node=2)
    record = record_of(study, devices=2)
    bare = machine_of(reduced_cluster(study.cluster, 2), reduced_columns(study, record.recipe, 2))
    sizes = (1 << 13, 1 << 15)  # around the 64 tokens x 64 features x 4 bytes of a layer's output
    group = spread(bare.network, 2, 1)
    seconds = [2 * float(collective_seconds(CollectiveKind.ALL_REDUCE, size, group, bare.network)) for size in sizes]
    slope = (seconds[1] - seconds[0]) / (sizes[1] - sizes[0])
    sweep = MeasuredCollective(
        kind="all-reduce", members=2, nbytes=sizes, samples=tuple(map(sample, seconds)),
        latency_us=1e6 * (seconds[0] - slope * sizes[0]), bandwidth_gb_s=1e-9 / slope,
    )
    swept = record.model_copy(update={"collectives": (sweep,)})
    slower, plain = (project_study(with_record(study, each)) for each in (swept, record))
    assert (slower.origin_communication, plain.origin_communication) == (Origin.RESTORED, Origin.SIMULATED)
    assert slower.step is not None and plain.step is not None
    assert slower.step.exposed.tp == pytest.approx(2 * plain.step.exposed.tp, rel=0.05)


def test_a_measured_line_carries_over_to_larger_groups_by_the_formulas() -> None:
    """measured(target) = simulated(target) x measured(base) / simulated(base), also for a group that spans more."""
    network = network_of(library.cluster("h100-4x8"))
    base, target = spread(network, 2, 1), spread(network, 32, 1)
    nbytes = 1 << 26
    line = MeasuredLine(CollectiveKind.ALL_REDUCE, 2, latency=50e-6, bandwidth=100e9)
    simulated = [float(collective_seconds(CollectiveKind.ALL_REDUCE, nbytes, group, network)) for group in (base, target)]
    other = with_lines(network, (line,))
    measured = [float(collective_seconds(CollectiveKind.ALL_REDUCE, nbytes, group, other)) for group in (base, target)]
    assert measured[0] == pytest.approx(50e-6 + nbytes / 100e9)
    assert measured[1] == pytest.approx(simulated[1] * measured[0] / simulated[0])
    assert collective_seconds(CollectiveKind.ALL_TO_ALL, nbytes, target, other) == collective_seconds(
        CollectiveKind.ALL_TO_ALL, nbytes, target, network
    )


def test_the_optimizer_step_follows_its_measurement() -> None:
    study = tiny("dense", per_node=1)
    record = record_of(study)
    plain = project_study(with_record(study, record))
    timed = record.model_copy(update={"optimizer": MeasuredOptimizer(parameters=10**6, step=sample(0.5))})
    assert run_with(timed, study).optimizer_factor > 1
    slower = project_study(with_record(study, timed))
    assert plain.step is not None and slower.step is not None
    assert slower.step.optimizer == pytest.approx(plain.step.optimizer * run_with(timed, study).optimizer_factor)


def test_a_record_survives_its_file() -> None:
    record = record_of(tiny("moe"), devices=1)
    path = keep(record)
    assert read_record(path) == record
    assert load_record("r") == record
    assert record_text(record).startswith("name: r\n")


def test_what_does_not_fit_is_said() -> None:
    study = tiny("dense", "mbs: 2")
    record = record_of(tiny("dense", "mbs: 1"))
    assert [match.what for match in matches(record, study) if not match.fits] == ["recipe.mbs"]
    with pytest.raises(InputError, match=r"recipe\.mbs 1.*recipe\.mbs 2"):
        project_study(with_record(study, record))
    other = replace(tiny("dense"), "cluster.hardware", "h100")
    with pytest.raises(InputError, match=r"hardware cpu.*hardware h100"):
        run_of(with_record(other, record_of(tiny("dense"))))


def test_depth_and_name_do_not_matter() -> None:
    record = record_of(tiny("dense"))
    deeper = replace(replace(tiny("dense"), "model.num_layers", 8), "model.name", "deeper")
    assert all(match.fits for match in matches(record, deeper))


def test_latest_is_the_newest_that_fits() -> None:
    study = tiny("dense")
    with pytest.raises(InputError, match="no record is kept yet"):
        load_record("latest", study)
    keep(record_of(tiny("dense", "mbs: 2")).model_copy(update={"name": "other"}))
    with pytest.raises(InputError, match=r"other has recipe\.mbs 2, not 1"):
        load_record("latest", study)
    keep(record_of(study).model_copy(update={"name": "fits"}))
    assert load_record("latest", study).name == "fits"
    assert run_of(replace(study, "compute", {"mode": "benchmark", "record": None})) is not None


def test_unknown_other_and_broken_records_are_refused_in_words(own_records: Path) -> None:
    keep(record_of(tiny("dense")))
    with pytest.raises(InputError, match="no record is named"):
        load_record("q")
    path = own_records / "old.record.yaml"
    path.write_text("version: 7\nname: old\n")
    with pytest.raises(InputError, match=r"version 7.*measure again"):
        read_record(path)
    path.write_text("version: 1\nname: old\nparts: 3\n")
    with pytest.raises(InputError) as caught:
        read_record(path)
    assert {problem.file for problem in caught.value.problems} == {str(path)}
    found = dict(kept_records())
    assert isinstance(found[path], InputError)


def test_a_full_disk_leaves_no_half_record(monkeypatch: pytest.MonkeyPatch, own_records: Path) -> None:
    import os

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left"):
        keep(record_of(tiny("dense")))
    assert list(own_records.iterdir()) == []


@pytest.mark.parametrize("devices", [1, 2, 4, 8])
def test_scaling_down_never_needs_more_than_there_is(devices: int) -> None:
    study = tiny("moe", "tp: 4, ep: 4, pp: 2", per_node=8)
    _, recipe, _ = scale_down(study.model, study.recipe, devices)
    assert recipe.tp <= devices and recipe.ep <= devices
    assert plan_benchmark(study, cpus(devices)).problems == ()
