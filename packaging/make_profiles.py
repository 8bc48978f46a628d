"""Converts the collected data (models, GPUs, networks) into the profiles that ship, each figure with its source.

    python packaging/make_profiles.py /work/shared/data profiles

The output is committed; run this again when the data changes. Figures that the data does not hold stand with their
sources in profile_figures.yaml beside this file.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import yaml
from model_cards import card

HERE = Path(__file__).parent
MIB_PER_GIB = 1024
RENAMED = {
    "a100_sxm_40gb": "a100-40gb",
    "a100_sxm_80gb": "a100-80gb",
    "h100_sxm": "h100",
    "h800_sxm": "h800",
    "h200_sxm": "h200",
    "b200_sxm": "b200",
    "b300_sxm": "b300",
    "rtx_a6000": "a6000",
}
NOT_SHIPPED = ("tpu_v5p",)  # a torus of chips with two cores each: neither the tiers nor the tile model describe it
DIES = {"mi250x": 2}  # dies that are devices of their own; the data states the whole module
MX_ARCHITECTURES = ("CDNA4", "Blackwell", "Blackwell Ultra")
FLOP_PER_CLOCK_AND_SM = {"Hopper": 4096, "Blackwell Ultra": 8192}  # dense bf16; for clocks that the data leaves out


class ProfileDumper(yaml.SafeDumper):
    """Short lists and flat maps on one line, long ones as blocks; nothing sorted."""


def main(data: Path, out: Path) -> None:
    """Write every profile that is made from data."""
    figures = read(HERE / "profile_figures.yaml")
    for name, entry in read(data / "models.yaml")["models"].items():
        write(out / "models" / f"{name.replace('_', '-')}.yaml", card(name, entry), "models.yaml")
    networks = read(data / "networks.yaml")
    for name, entry in figures["networks"].items():
        write(out / "networks" / f"{name}.yaml", network(name, entry, networks["nodes"], figures["latency"]), "networks.yaml")
    gpus = read(data / "gpus.yaml")
    medians = {RENAMED.get(key, key.replace("_", "-")): typical_gemm(entry) for key, entry in gpus["gpus"].items()}
    for key, entry in gpus["gpus"].items():
        if key not in NOT_SHIPPED:
            name = RENAMED.get(key, key.replace("_", "-"))
            write(out / "hardware" / f"{name}.yaml", hardware(name, entry, gpus["sources"], figures, medians), "gpus.yaml")
    for name in figures["clusters"]:
        device, _, size = name.rpartition("-")
        nodes, per_node = size.split("x")
        write(
            out / "clusters" / f"{name}.yaml",
            {"name": name, "hardware": device, "nodes": int(nodes), "gpus_per_node": int(per_node), "network": None},
            "",
        )


def read(path: Path) -> Any:
    """One YAML file."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def write(path: Path, profile: dict[str, Any], origin: str) -> None:
    """One profile, with a line that says where it comes from."""
    path.parent.mkdir(parents=True, exist_ok=True)
    head = f"# Made by packaging/make_profiles.py from data/{origin}; change it there.\n" if origin else ""
    path.write_text(
        head + yaml.dump(profile, Dumper=ProfileDumper, sort_keys=False, width=150, allow_unicode=True), encoding="utf-8"
    )


def network(name: str, entry: dict[str, Any], nodes: dict[str, Any], latency: dict[str, Any]) -> dict[str, Any]:
    """Tiers from the inside out: the node (or rack), then the fabric."""
    node = nodes.get(entry.get("node"), {})
    told = "; ".join(node.get("src", [])) or "data/networks.yaml fabrics.pcie; see efficiency"
    tiers = []
    if "node_tier" in entry:
        bandwidth, topology, hop, fraction, basis = entry["node_tier"]
        tiers.append(
            {
                "name": "rack" if entry["gpus"] > 8 else "node",
                "size": entry["gpus"],
                "bandwidth_gb_s": bandwidth,
                "latency_us": latency[hop][0],
                "topology": topology,
                "efficiency": fraction,
                "in_network_efficiency": entry.get("in_network", [None])[0],
                "sources": {
                    "bandwidth_gb_s": f"{node.get('scale_up', 'PCIe')} ({told})",
                    "latency_us": latency[hop][1],
                    "efficiency": basis,
                },
            }
        )
        if "in_switch" in entry:
            tiers[0]["in_network_efficiency"], tiers[0]["sources"]["in_network_efficiency"] = entry["in_switch"]
    bandwidth, cards, hop, fraction, basis = entry["fabric"]
    tiers.append(
        {
            "name": "fabric",
            "size": None,
            "bandwidth_gb_s": bandwidth,
            "latency_us": latency[hop][0],
            "topology": "switch",
            "oversubscription": 1.0,
            "nics_per_node": cards,
            "efficiency": fraction,
            "sources": {
                "bandwidth_gb_s": f"{node.get('nic', 'assumption, see efficiency')} ({told})",
                "latency_us": latency[hop][1],
                "efficiency": basis,
            },
        }
    )
    notes = [node[key] for key in ("variants", "per_gpu_note") if node.get(key)]
    return {"name": name, "title": entry["title"], "tiers": tiers, "notes": notes, "sources": {"tiers": told}}


def typical_gemm(entry: dict[str, Any]) -> dict[str, Any]:
    """Median over shapes with m, n, k >= 4096 of the newest TRT-LLM rows, which the data calls the conservative set."""
    rows = [row for row in (entry.get("measured_gemm_aic") or {}).get("rows", []) if row["backend"].startswith("trtllm")]
    newest = max((row["backend"] for row in rows), key=_version, default=None)
    return {
        row["dtype"]: (
            round(row["median_pct"] / 100, 3),
            (
                f"median of {row['shapes']} shapes with m, n, k >= 4096, best {row['best_pct'] / 100:.3f}, "
                f"{row['backend']} (aiconfigurator gemm_perf)"
            ),
        )
        for row in rows
        if row["backend"] == newest
    }


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))


def hardware(
    name: str, entry: dict[str, Any], keys: dict[str, str], figures: dict[str, Any], medians: dict[str, Any]
) -> dict[str, Any]:
    """A hardware profile; every figure has an entry in `sources`."""
    dies = DIES.get(name, 1)
    memory, peak = entry["memory"], entry["peak_tflops_dense"]
    sources: dict[str, str] = {}

    def figure(field: str, item: Any, scale: float = 1.0) -> Any:
        value = item.get("v") if isinstance(item, dict) else item
        if value is None:
            return None
        if isinstance(value, str):
            value = float(re.match(r"[\d.]+", value)[0])  # type: ignore[index]
        told = [keys.get(key, key) for key in (item.get("src") or [])] if isinstance(item, dict) else []
        sources[field] = "; ".join(told) + (" (half of the module)" if scale != 1 else "") if told else "data/gpus.yaml"
        return round(value * scale, 4)

    half = 1 / dies
    architecture = entry["arch"]
    peaks = {form: figure(f"peak_tflops.{form}", peak.get(form), half) for form in ("bf16", "fp16", "fp8")}
    peaks["mxfp8"] = peaks["fp8"] if architecture in MX_ARCHITECTURES else None
    if peaks["mxfp8"]:
        sources["peak_tflops.mxfp8"] = f"as fp8: {architecture} multiplies block-scaled formats at the fp8 rate"
    peaks["fp32"] = figure("peak_tflops.fp32", peak.get("tf32"), half) or figure("peak_tflops.fp32", peak.get("fp32"), half)
    peaks["fp4"] = figure("peak_tflops.fp4", peak.get("fp4"), half)
    seen = memory.get("torch_total_MiB", {}).get("v") or memory.get("nvidia_smi_MiB", {}).get("v")
    if seen:
        sources["usable_memory_gib"] = (
            f"total memory as torch or nvidia-smi reports it ({seen} MiB{'; per die' if dies > 1 else ''}), data/gpus.yaml"
        )
    units = figure("compute_units", entry.get("compute_units"), half)
    clock = figure("clock_mhz", entry.get("clock_mhz"))
    usual, per_node = figures["network_of"][name]
    units, clock, l2 = _filled(
        name, architecture, units, clock, figure("l2_mib", entry.get("l2_MiB"), half), peaks["bf16"], sources
    )
    vendor = entry["vendor"]
    profile = {
        "name": name,
        "title": entry["name"] + (", one die" if dies > 1 else ""),
        "vendor": vendor,
        "architecture": architecture,
        "memory_gib": figure("memory_gib", memory["capacity_GiB"], half),
        "usable_memory_gib": round(seen / MIB_PER_GIB, 3) if seen else None,
        "memory_bandwidth_tb_s": figure("memory_bandwidth_tb_s", memory["bandwidth_TBs"], half),
        "peak_tflops": peaks,
        "vector_tflops": figure("vector_tflops", peak.get("fp32"), half),
        "compute_units": int(units),
        "clock_mhz": clock,
        "l2_mib": l2,
        "tdp_w": figure("tdp_w", entry.get("tdp_w"), half),
        "gemm_tile": [256, 256] if architecture in ("CDNA3", "CDNA4") else [128, 256],
        "kernel_launch_us": sourced(sources, "kernel_launch_us", figures["kernel_launch_us"]),
        "efficiency": efficiency(name, figures, medians, sources),
        "framework": framework(vendor, architecture, figures["framework"], sources),
        "usual_gpus_per_node": per_node,
        "usual_network": usual,
        "measured": [
            row
            for item in entry["measured"]
            if (row := {key: value for key, value in item.items() if not isinstance(value, (dict, list))})
        ],
        "notes": [
            *entry.get("notes", []),
            *(["The data states the whole module; this profile is one of its two dies."] if dies > 1 else []),
        ],
        "sources": sources,
    }
    sources["gemm_tile"] = (
        "largest output tile of a library GEMM: 256x256 that Primus searches on CDNA (facts 4.1), "
        "128x256 of CUTLASS and cuBLAS otherwise"
    )
    return profile


def _filled(
    name: str, architecture: str, units: Any, clock: Any, l2: Any, bf16: float, sources: dict[str, str]
) -> tuple[Any, Any, Any]:
    """Units, clock and L2 that the data leaves out: H800's are the H100's, a clock follows from the peak."""
    if name == "h800":
        for field in ("compute_units", "clock_mhz", "l2_mib"):
            sources[field] = "not published for H800; the H100 SXM's value, as the data recommends"
        return 132, 1830, 50
    if clock is None:
        rate = FLOP_PER_CLOCK_AND_SM[architecture]
        sources["clock_mhz"] = f"not published; bf16 peak over {units:g} SMs and {rate} FLOP per clock and SM"
        clock = round(bf16 * 1e12 / (units * rate) / 1e6)
    return units, clock, l2


def sourced(sources: dict[str, str], field: str, pair: list[Any]) -> Any:
    """A figure, its source noted under `field`."""
    sources[field] = pair[1]
    return pair[0]


def efficiency(name: str, figures: dict[str, Any], medians: dict[str, Any], sources: dict[str, str]) -> dict[str, Any]:
    """Achievable fractions with the basis of each."""
    other = figures["stand_in"].get(name)

    def own_or(find: Any) -> tuple[Any, str]:
        found = find(name)
        if found:
            return found[0], found[1]
        value, basis = find(other)
        return value, f"no published measurement; {other}'s figure used: {basis}"

    def gemm(form: str, position: int) -> tuple[Any, str]:
        def find(device: str) -> Any:
            if form in medians.get(device, {}):
                return medians[device][form]
            row = figures["gemm"].get(device)
            return row and (row[position], row[2])

        return own_or(find)

    values = {
        "gemm_bf16": gemm("bf16", 0),
        "gemm_fp8": gemm("fp8", 1) if _has_fp8(name, medians, figures, other) else gemm("bf16", 0),
    }
    if not _has_fp8(name, medians, figures, other):
        values["gemm_fp8"] = (values["gemm_bf16"][0], "the device has no fp8; gemm_bf16's figure stands in")
    grouped = figures["grouped_gemm"]
    row_name = figures["attention_of"][name]
    forward, backward, basis = figures["attention"][row_name]
    own = row_name.lower().replace("rtx", "rtx-") in (name, name.removesuffix("-80gb"))
    told = basis if own else f"no published measurement; {row_name}'s figure used: {basis}"
    memory = own_or(figures["memory_efficiency"].get)
    result = {field: value for field, (value, _) in values.items()}
    for field, (_, why) in values.items():
        sources[f"efficiency.{field}"] = why
    sources.update(
        {
            "efficiency.grouped_gemm": grouped[1],
            "efficiency.attention_forward": told,
            "efficiency.attention_backward": told,
            "efficiency.memory": memory[1],
        }
    )
    return {
        **result,
        "grouped_gemm": grouped[0],
        "attention_forward": forward,
        "attention_backward": backward,
        "memory": memory[0],
    }


def _has_fp8(name: str, medians: dict[str, Any], figures: dict[str, Any], other: str | None) -> bool:
    return any(device and ("fp8" in medians.get(device, {}) or device in figures["gemm"]) for device in (name, other))


def framework(vendor: str, architecture: str, figures: dict[str, Any], sources: dict[str, str]) -> dict[str, Any]:
    """Memory beside model state, by maker and architecture."""
    newer = "older" if architecture.startswith(("Ampere", "Ada")) else "hopper"
    chosen = {
        "context_gib": figures["context_gib"]["all"],
        "communicator_mib": figures["communicator_mib"][vendor],
        "workspace_mib": figures["workspace_mib"]["AMD" if vendor == "AMD" else newer],
        "fragmentation": figures["fragmentation"]["all"],
    }
    return {field: sourced(sources, f"framework.{field}", pair) for field, pair in chosen.items()}


def _list(dumper: yaml.SafeDumper, value: list[Any]) -> yaml.Node:
    flat = all(not isinstance(item, (dict, list)) and not (isinstance(item, str) and len(item) > 20) for item in value)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=flat)


def _map(dumper: yaml.SafeDumper, value: dict[str, Any]) -> yaml.Node:
    flat = len(str(value)) <= 140 and all(not isinstance(item, (dict, list)) for item in value.values())
    return dumper.represent_mapping("tag:yaml.org,2002:map", value.items(), flow_style=flat)


ProfileDumper.add_representer(list, _list)
ProfileDumper.add_representer(dict, _map)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
