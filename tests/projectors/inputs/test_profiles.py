"""What ships: every profile loads, every figure has a source, every card equals the collected data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from projectors.inputs import HardwareProfile, NetworkProfile, library
from projectors.inputs.hardware import Precision
from projectors.inputs.library import Kind

DATA = yaml.safe_load((Path(__file__).parent / "published_models.yaml").read_text(encoding="utf-8"))
SHIPPED_HARDWARE = [name for name in library.names(Kind.HARDWARE) if name != "cpu"]
IDENTITY = {
    "name", "title", "vendor", "architecture", "measured", "notes", "sources", "usual_gpus_per_node",
    "usual_network",
}
"""Fields of a hardware profile that are names or remarks, not figures."""

ROUNDED = 1.001
"""The data states some capacities (GB200: 185.0 GiB) to a tenth of a GiB."""

CONTRACT_HARDWARE = {
    "a100-40gb", "a100-80gb", "h100", "h100-pcie", "h200", "h800", "b200", "b300", "gb200", "gb300", "gh200", "mi250x", "mi300x",
    "mi325x", "mi350x", "mi355x", "l40s", "rtx-4090", "rtx-5090", "a6000", "cpu",
}  # fmt: skip
CONTRACT_STUDIES = {
    "mixtral-8x22b-mi355x-4x8", "llama3.1-70b-h100-8x8", "deepseek-v3-h100-128x8", "qwen3-235b-a22b-mi355x-32x8",
    "llama3.1-8b-h100-1x1",
}  # fmt: skip


@pytest.mark.parametrize("name", library.names(Kind.STUDY))
def test_shipped_studies_load_under_their_name(name: str) -> None:
    study = library.study(name)
    assert name == f"{study.model.name}-{study.cluster.name}"


@pytest.mark.parametrize("name", library.names(Kind.CLUSTER))
def test_shipped_clusters_load_under_their_name(name: str) -> None:
    cluster = library.cluster(name)
    assert name == f"{cluster.hardware.name}-{cluster.nodes}x{cluster.gpus_per_node}"


def test_the_contracts_names_are_there() -> None:
    """design/interface.md names these."""
    assert set(library.names(Kind.HARDWARE)) >= CONTRACT_HARDWARE
    assert set(library.names(Kind.STUDY)) >= CONTRACT_STUDIES


def test_all_36_published_models_ship() -> None:
    assert set(library.names(Kind.MODEL)) == set(DATA)
    assert len(DATA) == 36


@pytest.mark.parametrize("name", sorted(DATA))
def test_a_model_card_equals_the_data(name: str) -> None:
    """Field by field against the architecture table of data/models.yaml (copied beside this test)."""
    card = library.model(name).model_dump(mode="json")
    for field, value in DATA[name].items():
        found: Any = card
        for step in field.split("."):
            found = found[step] if found is not None else None
        assert found == value, field
    assert card["sources"]


def figures_of(profile: HardwareProfile) -> list[str]:
    """Dotted names of the figures that a profile states."""
    found = []
    for field, value in profile.model_dump().items():
        if isinstance(value, dict) and field not in IDENTITY:
            found += [f"{field}.{key}" for key, item in value.items() if item is not None]
        elif field not in IDENTITY and value is not None:
            found.append(field)
    return found


@pytest.mark.parametrize("name", SHIPPED_HARDWARE)
def test_every_figure_of_a_hardware_profile_has_a_source(name: str) -> None:
    profile = library.hardware(name)
    assert profile.name == name
    missing = [figure for figure in figures_of(profile) if not profile.sources.get(figure)]
    assert missing == []


@pytest.mark.parametrize("name", SHIPPED_HARDWARE)
def test_hardware_can_be_projected_and_its_usual_node_exists(name: str) -> None:
    profile = library.hardware(name)
    assert profile.peak_tflops.tflops(Precision.BF16)
    assert profile.capacity_bytes <= profile.memory_gib * 2**30 * ROUNDED
    cluster = library.cluster(f"{name}-2x{profile.usual_gpus_per_node}")
    assert cluster.tiers[-1].size is None


@pytest.mark.parametrize("name", library.names(Kind.NETWORK))
def test_every_figure_of_a_network_has_a_source(name: str) -> None:
    network: NetworkProfile = library.network(name)
    for tier in network.tiers:
        stated = {"bandwidth_gb_s", "latency_us", "efficiency"} | (
            {"in_network_efficiency"} if tier.in_network_efficiency else set()
        )
        assert set(tier.sources) >= stated
        assert all(tier.sources.values())


def test_fp8_is_there_where_the_architecture_has_it() -> None:
    """Ampere and CDNA2 multiply no fp8; block scaling came with Blackwell and CDNA4."""
    for name in ("a100-80gb", "a6000", "mi250x"):
        assert library.hardware(name).peak_tflops.fp8 is None
    for name in ("h100", "mi300x", "l40s"):
        assert library.hardware(name).peak_tflops.mxfp8 is None
    for name in ("b200", "gb300", "mi355x"):
        peaks = library.hardware(name).peak_tflops
        assert peaks.mxfp8 == peaks.fp8 is not None


@pytest.mark.parametrize(
    ("name", "bf16", "memory_gib", "bandwidth", "units"),
    [
        ("h100", 989.4, 80, 3.35, 132),
        ("mi355x", 2516.6, 288, 8.0, 256),
        ("mi250x", 191.5, 64, 1.64, 110),
        ("b200", 2250, 180, 7.7, 148),
    ],
)
def test_headline_figures(name: str, bf16: float, memory_gib: float, bandwidth: float, units: int) -> None:
    """Vendor figures as in data/gpus.yaml; MI250X per die, half of the module."""
    profile = library.hardware(name)
    found = (profile.peak_tflops.bf16, profile.memory_gib, profile.memory_bandwidth_tb_s, profile.compute_units)
    assert found == (bf16, memory_gib, bandwidth, units)
