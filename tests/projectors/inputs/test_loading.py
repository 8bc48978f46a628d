"""Names, paths and inline values; `extends`; user profiles over shipped ones; clusters made from their name."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from projectors.inputs import InputError, Topology, library, load_study
from projectors.inputs.library import Kind, Origin
from projectors.inputs.loading import study_from_text
from projectors.inputs.local_machine import local_machine

Write = Callable[[str, str], Path]

RECIPE = "recipe: {gbs: 8, seq_length: 128}\n"


def test_a_study_may_name_state_or_extend_its_model_and_cluster() -> None:
    study = study_from_text(
        "model: {extends: mixtral-8x22b, num_layers: 4, moe: {num_experts: 16}}\n"
        "cluster: {hardware: {extends: h100, memory_gib: 94}, nodes: 2}\n" + RECIPE
    )
    assert study.model.name == "mixtral-8x22b"
    assert study.model.num_layers == 4
    assert study.model.moe is not None
    assert (study.model.moe.num_experts, study.model.moe.top_k) == (16, 2)
    assert study.cluster.hardware.memory_gib == 94
    assert study.cluster.hardware.peak_tflops.bf16 == 989.4
    assert (study.cluster.name, study.cluster.gpus_per_node, study.cluster.gpus) == ("h100-2x8", 8, 16)


def test_null_over_an_inherited_part_takes_it_out() -> None:
    study = study_from_text("model: {extends: mixtral-8x7b, moe: null}\ncluster: h100-1x8\n" + RECIPE)
    assert study.model.moe is None


def test_relative_paths_start_from_the_file_that_states_them(write: Write) -> None:
    write("base/cards/small.yaml", "extends: llama3.1-8b\nname: small\nnum_layers: 2\n")
    write("base/base.study.yaml", "model: cards/small.yaml\ncluster: h100-1x8\n" + RECIPE)
    path = write("mine/mine.study.yaml", "extends: ../base/base.study.yaml\nmodel: {num_layers: 3}\nrecipe: {gbs: 16}\n")
    study = load_study(path)
    assert (study.model.name, study.model.num_layers) == ("small", 3)
    assert (study.recipe.gbs, study.recipe.seq_length) == (16, 128)


def test_a_study_over_another_may_change_its_named_cluster(write: Write) -> None:
    path = write("a.study.yaml", "extends: mixtral-8x22b-mi355x-4x8\ncluster: {nodes: 8, name: mine}\n")
    study = load_study(path)
    assert (study.cluster.nodes, study.cluster.hardware.name, study.cluster.name) == (8, "mi355x", "mine")
    assert study.recipe.ep == 8


def test_a_users_profile_overrides_the_shipped_one_and_may_extend_it(config: Path, write: Write) -> None:
    write("config/profiles/hardware/h100.yaml", "extends: h100\nmemory_gib: 96\nusable_memory_gib: null\n")
    assert library.hardware("h100").capacity_bytes == 96 * 2**30
    assert library.cluster("h100-8x8").hardware.memory_gib == 96
    origins = {entry.name: entry.origin for entry in library.entries(Kind.HARDWARE)}
    assert (origins["h100"], origins["h200"], origins["cpu"]) == (Origin.USER, Origin.SHIPPED, Origin.MADE)


def test_a_changed_file_is_read_again(write: Write) -> None:
    path = write("card.yaml", "extends: llama3.1-8b\nnum_layers: 2\n")
    assert library.model(str(path)).num_layers == 2
    write("card.yaml", "extends: llama3.1-8b\nnum_layers: 21\n")
    assert library.model(str(path)).num_layers == 21


def test_a_cluster_of_any_size_is_made_from_its_name() -> None:
    cluster = library.cluster("h200-16x8")
    assert (cluster.gpus, cluster.hardware.name, cluster.network) == (128, "h200", None)
    assert [tier.size for tier in cluster.tiers] == [8, None]
    assert [tier.size for tier in library.cluster("h200-16x4").tiers] == [4, None]


def test_a_rack_of_72_stays_one_domain_whatever_the_tray() -> None:
    assert [tier.size for tier in library.cluster("gb200-18x4").tiers] == [72, None]
    assert [tier.size for tier in library.cluster("gb300-9x8").tiers] == [72, None]


def test_mi355x_is_the_contracts_mesh() -> None:
    """design/interface.md, "Hardware profile and cluster": the tiers of mi355x-4x8."""
    node, fabric = library.cluster("mi355x-4x8").tiers
    assert (node.bandwidth_gb_s, node.latency_us, node.topology, node.size) == (537.6, 0.45, Topology.MESH, 8)
    assert (fabric.bandwidth_gb_s, fabric.latency_us, fabric.topology, fabric.nics_per_node) == (50, 2.0, Topology.SWITCH, 8)


def test_the_machine_it_runs_on_is_a_profile() -> None:
    profile = library.hardware("cpu")
    assert profile.compute_units >= 1
    assert profile.memory_gib > 0.1
    assert profile.peak_tflops.bf16 is not None
    assert "estimate" in " ".join(profile.notes).lower()


def test_the_local_profile_reads_proc(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal:       33554432 kB\n")
    (tmp_path / "proc/cpuinfo").write_text(
        "model name\t: Example 9000\ncpu MHz\t\t: 2000.0\nflags\t\t: sse2 avx2 avx512f avx512_bf16\n"
    )
    made = local_machine(tmp_path)
    assert made["memory_gib"] == 32
    assert made["clock_mhz"] == 2000
    per_core = made["peak_tflops"]["fp32"] / made["compute_units"]
    assert per_core == pytest.approx(2.0e9 * 16 * 2 * 2 / 1e12)
    assert made["peak_tflops"]["bf16"] == 2 * made["peak_tflops"]["fp32"]
    assert "Example 9000" in made["title"]


def test_the_local_profile_without_proc_states_assumptions(tmp_path: Path) -> None:
    made = local_machine(tmp_path)
    assert made["sources"]["memory_gib"] == "assumption"


def test_listings_need_no_validation(write: Write) -> None:
    write("config/profiles/models/broken.yaml", "[[[")
    assert "broken" in library.names(Kind.MODEL)
    assert {entry.name: entry.title for entry in library.entries("hardware")}["mi355x"] == "AMD Instinct MI355X (OAM, liquid)"


def test_an_unknown_name_of_each_kind_is_refused() -> None:
    for load in (library.model, library.hardware, library.network, library.cluster, library.study):
        with pytest.raises(InputError, match=r"which no .* is named"):
            load("nothing-of-the-kind")


def test_a_shipped_study_loads_within_30_ms() -> None:
    from projectors.inputs import references

    library.study("mixtral-8x22b-mi355x-4x8")
    references._read_version.cache_clear()
    best = min(_seconds_of_a_load() for _ in range(3))
    assert best < 0.030


def _seconds_of_a_load() -> float:
    from projectors.inputs import references

    references._read_version.cache_clear()
    start = time.perf_counter()
    library.study("mixtral-8x22b-mi355x-4x8")
    return time.perf_counter() - start
