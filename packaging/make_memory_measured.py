"""Converts runs that state memory, and that `make_measured.py` leaves out, into profiles/measured/published-memory.yaml.

    python packaging/make_memory_measured.py /work/shared/data/measured_dev.json profiles/measured/published-memory.yaml

These are variants beside a table's main row, and runs of which their source states more in other places (`KNOWN`).
Only memory is written: their throughput is a variation on a shipped case's.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import make_measured
import yaml
from make_measured import LeftOut
from make_profiles import ProfileDumper

from projectors.inputs.measured import load_measured
from projectors.stages import even_layers

ZERO_BUBBLE_VOCABULARY = 32_000
"""The printed sizes (1.5B, 6.2B, 14.6B, 28.3B) less 12 l h^2 leave 32,000 to 33,000 rows of h (arXiv:2401.10241, table 3)."""


def main(data: Path, out: Path) -> None:
    """Write the file and load it again."""
    others = {case.id for path in out.parent.glob("*.yaml") if path.name != out.name for case in load_measured(path)}
    cases, reasons = [], Counter[str]()
    for case in json.loads(data.read_text(encoding="utf-8")):
        if case["measured"].get("memory_gb") is None or case["id"] in others:
            continue
        try:
            cases.append(convert(case))
        except LeftOut as reason:
            reasons[f"{case['group']}: {reason}"] += 1
    text = f"# Made by packaging/make_memory_measured.py from data/{data.name}; change it there.\n"
    dumped = yaml.dump(cases, Dumper=ProfileDumper, sort_keys=False, width=150, allow_unicode=True)
    out.write_text(text + dumped, encoding="utf-8")
    print(f"{out}: {len(load_measured(out))} cases")
    for reason, count in reasons.most_common():
        print(f"left out, {reason}: {count}")


def convert(case: dict[str, Any]) -> dict[str, Any]:
    """One case in the contract's form, with its memory alone."""
    if case["status"] != "ok":
        raise LeftOut("did not run")
    if case["class"]["task"] != "pretrain":
        raise LeftOut("trains adapters or fine-tunes")
    known = json.loads(json.dumps(case))  # a copy to fill in
    KNOWN.get(case["group"], lambda _: None)(known)
    converted = make_measured.converted(known)
    converted["recipe"].update(known.get("recipe_besides", {}))
    measured = converted["measured"]
    kept = ("memory_gib", "memory_kind", "memory_rank")
    converted["measured"] = {key: measured[key] for key in kept if key in measured}
    return converted


def zero_bubble(case: dict[str, Any]) -> None:
    """arXiv:2401.10241: Megatron-LM, tied vocabulary, torch's peak in GiB; limits in microbatches per rank.

    Of the half precisions bf16 is taken, whose gradients are fp32: runs with few microbatches leave room for 18 bytes per
    parameter, not for 16.
    """
    case["model"].update(vocab=ZERO_BUBBLE_VOCABULARY, tied_embeddings=True, bias=True, position="learned")
    case["precision"] = "bf16"
    case["measured"]["mem_kind"] = "torch max_memory_allocated GiB"
    stated, pp = case["schedule"], case["parallelism"]["pp"]
    layers = case["model"]["layers"]
    if stated.startswith("interleaved"):  # one layer to a chunk, two chunks empty beside embedding and head
        case["parallelism"]["vpp"] = (layers + 2) // pp
        case["schedule"] = "interleaved-1f1b"
        case["recipe_besides"] = {"stage_layers": [0, *[1] * layers, 0]}
    elif stated.startswith(("zb-1p", "zb-2p")):
        limit = pp * int(stated[3])
        case["schedule"] = "zero-bubble"
        case["recipe_besides"] = {"schedule": "zb-auto", "max_in_flight": limit, "stage_layers": list(even_layers(layers, pp))}
    elif stated == "zb-v":
        case["schedule"], case["parallelism"]["vpp"] = "zbv", 2
        case["recipe_besides"] = {"stage_layers": list(even_layers(layers, 2 * pp))}


def litgpt(case: dict[str, Any]) -> None:
    """The script's global batch says nothing of memory: an iteration is one microbatch of every GPU."""
    if "thunder" in case["framework"]:
        raise LeftOut("compiled by Thunder, whose executors decide what is kept")
    case["gbs"] = case["gbs"] or case["mbs"] * case["hardware"]["num_gpus"]


def megatron_ci(_case: dict[str, Any]) -> None:
    """The tests' command lines are converted by `make_ci_measured.py`."""
    raise LeftOut("converted with its command line")


KNOWN = {"zero-bubble": zero_bubble, "litgpt": litgpt, "megatron-ci": megatron_ci}
"""What a group's source states elsewhere, filled into a case."""


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
