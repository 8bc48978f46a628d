"""Converts the collected training results into profiles/measured, for `validate` and `calibrate`.

    python packaging/make_measured.py /work/shared/data/measured_dev.json profiles/measured

Kept are primary pre-training results whose model, cluster and recipe are known and can be expressed; what is left out
is counted by reason. A model of a shipped shape is written as `extends:` with what differs.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import yaml
from make_profiles import ProfileDumper

from projectors.inputs import library
from projectors.inputs.measured import load_measured

HARDWARE: dict[str, str | dict[str, Any]] = {
    "H100-SXM-80GB": "h100",
    "A100-SXM-80GB": "a100-80gb",
    "A100-SXM-40GB": "a100-40gb",
    "B200-SXM-180GB": "b200",
    "H800-SXM-80GB": "h800",
    "B300-SXM-288GB": "b300",
    "GB200-NVL72-186GB": "gb200",
    "GB300-NVL72-288GB": "gb300",
    "MI355X-288GB": "mi355x",
    "MI300X-192GB": "mi300x",
    "MI325X-256GB": "mi325x",
    "RTX4090-24GB": "rtx-4090",
    "H200-SXM-141GB": "h200",
    "H100-96GB-HBM2e-500W (Grand Teton)": {
        "extends": "h100",
        "name": "h100-96gb-500w",
        "memory_gib": 96,
        "usable_memory_gib": None,
        "tdp_w": 500,
    },
}
ACTIVATIONS = {"swiglu": "swiglu", "gelu": "gelu", "squared_relu": "relu2", "gelu-gated": "geglu"}
SCHEDULES = {
    "none": "1f1b",
    "1f1b": "1f1b",
    "interleaved-1f1b": "interleaved",
    "zbv": "zbv",
    "v-half": "v-half",
    "v-min": "v-min",
    "zero-bubble": "zb-h1",
}
SHARDING = {None: "zero1", 0: "none", 1: "zero1", 2: "zero2", 3: "zero3"}
MODULES = {
    "layernorm": "layernorm",
    "norm": "layernorm",
    "moe": "moe",
    "moe_act": "moe_act",
    "act": "moe_act",
    "mla_up_proj": "mla_up_proj",
    "mla up_proj": "mla_up_proj",
    "mlp (dense)": "mlp",
    "mlp": "mlp",
    "shared_expert": "mlp",
}
PRINTED = {
    "litgpt": {"mem_kind": "torch max_memory_allocated in units of 1e9 bytes"},  # litgpt/pretrain.py
    "nanotron": {"mem_kind": "kind not published, reserved taken: with nanotron's own stages no other kind is near"},
}
STATES = {"litgpt": {"master_weights": "bf16", "optimizer": "adam-bf16-moments", "grad_reduce_dtype": "bf16"}}  # bf16-true
CONFIGURED: dict[str, dict[str, dict[str, Any]]] = {
    "primuslog-mi355x-llama3.2-1b-fp8": {"recipe": {"cross_entropy_fusion": False}},
    "primuslog-mi300x-dsv3-4L-bf16-mbs1": {"model": {"mla": None, "attention": "mha", "head_dim": 128}},
}
"""What configurations state and logs do not (AMD-AGI/Primus examples/megatron/configs/MI300X: llama3.2_1B-FP8-pretrain.yaml has
the fused loss commented out, deepseek_v3-pretrain.yaml switches multi-latent attention off)."""
SHAPE = ("hidden_size", "num_attention_heads", "num_query_groups", "ffn_hidden_size")
SUB_CHANNEL = ("H100", "H800", "H200")  # there "MX" columns mean sub-channel fp8 (facts/measured.md, caveat 3)


class LeftOut(Exception):
    """Why a case is not converted."""


def main(data: Path, out: Path) -> None:
    """Write one file per hardware; every file is loaded again."""
    files: dict[str, list[dict[str, Any]]] = defaultdict(list)
    reasons: Counter[str] = Counter()
    for case in json.loads(data.read_text(encoding="utf-8")):
        try:
            converted = convert(case)
        except LeftOut as reason:
            reasons[str(reason)] += 1
        else:
            name = HARDWARE[case["hardware"]["gpu"]]
            files[name if isinstance(name, str) else name["name"]].append(converted)
    out.mkdir(parents=True, exist_ok=True)
    for name, cases in files.items():
        text = "# Made by packaging/make_measured.py from data/measured_dev.json; change it there.\n"
        path = out / f"{name}.yaml"
        path.write_text(
            text + yaml.dump(cases, Dumper=ProfileDumper, sort_keys=False, width=150, allow_unicode=True), encoding="utf-8"
        )
        print(f"{path}: {len(load_measured(path))} cases")
    for reason, count in reasons.most_common():
        print(f"left out, {reason}: {count}")


def convert(case: dict[str, Any]) -> dict[str, Any]:
    """One case in the contract's form."""
    if case["status"] != "ok" or not case["primary"] or case["class"]["task"] != "pretrain":
        raise LeftOut("not a primary pre-training result")
    return converted(case)


def converted(case: dict[str, Any]) -> dict[str, Any]:
    """Any pre-training case in the contract's form."""
    notes = [case["notes"]] if case.get("notes") else []
    configured = CONFIGURED.get(case["id"], {})
    recipe = recipe_of(case, notes)
    recipe.update(configured.get("recipe", {}))
    recipe.update(STATES.get(case["group"], {}))
    if case["group"].startswith("nanotron") and recipe["pp"] > 1:
        recipe["stage_layers"] = nanotron_stages(case["model"], recipe["pp"])
    return {
        "id": case["id"],
        "source": source_of(case["source"]),
        "model": model_of(case["model"] | configured.get("model", {}), case["seq_len"]),
        "cluster": cluster_of(case["hardware"]),
        "recipe": recipe,
        "framework": case.get("framework") or "",
        "measured": measured_of(case["measured"] | PRINTED.get(case["group"], {}), notes),
        "notes": "; ".join(notes) or None,
    }


def nanotron_stages(model: dict[str, Any], pp: int) -> list[int]:
    """Layers of each stage as nanotron splits by compute cost: a stage ends with the first block that passes its share; the head
    costs h x V (huggingface/nanotron src/nanotron/models/base.py build_model, llama.py get_block_compute_costs). It gives the
    splits that its logs print."""
    hidden = model["hidden"]
    layer = 4 * hidden * hidden + 3 * hidden * model["ffn"]
    total = model["layers"] * layer + hidden * model["vocab"]
    stages = [0] * pp
    stage = 0
    for number in range(1, model["layers"] + 1):
        stages[stage] += 1
        if stage < pp - 1 and number * layer > total * (stage + 1) / pp:
            stage += 1
    return stages


def needed(entry: dict[str, Any], *keys: str) -> list[Any]:
    """Values that a case must state."""
    missing = [key for key in keys if entry.get(key) is None]
    if missing:
        raise LeftOut(f"{missing[0]} not published")
    return [entry[key] for key in keys]


def source_of(source: dict[str, Any]) -> str:
    """Repository, commit, path and table."""
    place = (
        f"{source.get('repo') or source.get('paper') or ''}@{(source.get('commit') or '')[:7]}:{source.get('path') or ''}".strip(
            "@:"
        )
    )
    return " ".join(part for part in (place, source.get("table")) if part) or json.dumps(source)


def model_of(model: dict[str, Any], seq_length: int) -> dict[str, Any] | str:
    """The model card: a shipped one's name, what differs from it, or the whole."""
    if model.get("pattern") or model.get("layer_freq"):
        raise LeftOut("layers that a model card cannot express")
    layers, hidden, heads, groups, vocabulary, activation = needed(model, "layers", "hidden", "heads", "kv_heads", "vocab", "act")
    if (model.get("experts") and model.get("moe_ffn") is None) or (not model.get("experts") and model.get("ffn") is None):
        raise LeftOut("ffn not published")
    known: dict[str, Any] = {
        "num_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_query_groups": groups,
        "vocab_size": vocabulary,
        "activation": ACTIVATIONS[activation],
    }
    if model.get("ffn"):
        known["ffn_hidden_size"] = model["ffn"]
    if model.get("mtp_layers") is not None:
        known["mtp_layers"] = model["mtp_layers"]
    if model.get("experts"):
        known["moe"] = {
            "num_experts": model["experts"],
            "top_k": model["topk"],
            "moe_ffn_hidden_size": model["moe_ffn"],
            "shared_ffn_hidden_size": model.get("shared_expert_ffn") or 0,
            "first_k_dense": model.get("dense_layers") or 0,
        }
    near = nearest_card(known, model)
    if near:
        name, different = near
        return name if not different else {"extends": name, "name": model["name"], **different}
    return whole_card(known, model, seq_length)


def nearest_card(known: dict[str, Any], model: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """The shipped card of the same shape that differs least, and how; None when no shape is the same."""
    found: list[tuple[int, str, dict[str, Any]]] = []
    for name in library.names("models"):
        card = library.model(name).model_dump(mode="json")
        latent = bool(card["mla"])
        if latent != bool(model.get("mla")) or card["compressed_attention"] or bool(card["moe"]) != bool(known.get("moe")):
            continue
        groups_agree = latent or card["num_query_groups"] == known["num_query_groups"]
        same = groups_agree and all(card[key] == known[key] for key in SHAPE if key in known and key != "num_query_groups")
        if not same or (known.get("moe") and card["moe"]["moe_ffn_hidden_size"] != known["moe"]["moe_ffn_hidden_size"]):
            continue
        flat = {key: value for key, value in known.items() if key not in ("moe", "num_query_groups") and value != card[key]}
        inner = {key: value for key, value in (known.get("moe") or {}).items() if value != card["moe"][key]}
        found.append((len(flat) + len(inner), name, {**flat, **({"moe": inner} if inner else {})}))
    if not found:
        return None
    _, name, different = min(found)
    return name, different


def whole_card(known: dict[str, Any], model: dict[str, Any], seq_length: int) -> dict[str, Any]:
    """A card of its own, for shapes that do not ship."""
    gelu = known["activation"] == "gelu"
    latent = model.get("mla")
    width = known.get("ffn_hidden_size") or known["moe"]["moe_ffn_hidden_size"]
    card = {
        "name": model["name"],
        **known,
        "ffn_hidden_size": width,
        "tied_embeddings": bool(model.get("tied_embeddings")),
        "norm": "layernorm" if gelu else "rmsnorm",
        "position_embedding": {"l": "learned", "a": "alibi", "r": "rope"}[(model.get("position") or "rope")[0]],
        "max_seq_len": seq_length,
        **(dict.fromkeys(("qkv_bias", "o_bias", "mlp_bias"), True) if model.get("bias") else {}),
        **({"qk_norm": True} if model.get("qk_norm") else {}),
    }
    if latent:
        card["mla"] = {
            "q_lora_rank": latent["q_lora"],
            "kv_lora_rank": latent["kv_lora"],
            "qk_nope_head_dim": latent["qk_nope"],
            "qk_rope_head_dim": latent["qk_rope"],
            "v_head_dim": latent["v_head"],
        }
        card["head_dim"] = latent["qk_nope"] + latent["qk_rope"]
    elif model.get("head_dim"):
        card["head_dim"] = model["head_dim"]
    elif known["hidden_size"] % known["num_attention_heads"]:
        raise LeftOut("head_dim not published")
    return card


def cluster_of(hardware: dict[str, Any]) -> dict[str, Any]:
    """Nodes of the profile's accelerator; part of a node is a node of that size."""
    (gpus,) = needed(hardware, "num_gpus")
    if hardware["gpu"] not in HARDWARE:
        raise LeftOut(f"no hardware profile of {hardware['gpu']}")
    per_node = min(hardware.get("gpus_per_node") or library_node(hardware["gpu"]), gpus)
    if gpus % per_node:
        raise LeftOut("uneven nodes")
    return {"hardware": HARDWARE[hardware["gpu"]], "nodes": gpus // per_node, "gpus_per_node": per_node}


def library_node(gpu: str) -> int:
    """GPUs in the usual node of a device."""
    name = HARDWARE[gpu]
    return library.hardware(name if isinstance(name, str) else name["extends"]).usual_gpus_per_node


def recipe_of(case: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """The recipe; what the source leaves open is noted."""
    plan = case["parallelism"]
    mbs, gbs, seq_length, precision = needed(case, "mbs", "gbs", "seq_len", "precision")
    tp, pp = needed(plan, "tp", "pp")
    schedule = SCHEDULES.get(case.get("schedule") or "none")
    if schedule is None:
        raise LeftOut("schedule not expressible")
    vpp = plan.get("vpp") or 1
    if schedule == "interleaved" and vpp == 1:
        raise LeftOut("vpp not published")
    recipe: dict[str, Any] = {
        "tp": tp,
        "pp": pp,
        "vpp": vpp,
        "cp": plan.get("cp") or 1,
        "ep": plan.get("ep") or 1,
        "etp": plan.get("etp") or 1,
        "mbs": mbs,
        "gbs": gbs,
        "seq_length": seq_length,
        "precision": format_of(precision, case["hardware"]["gpu"]),
    }
    if plan.get("sp") is not None:
        recipe["sequence_parallel"] = plan["sp"]
    recipe.update(recompute_of(case.get("recompute"), notes))
    recipe["schedule"] = schedule
    recipe["sharding"] = SHARDING[plan.get("zero_stage")]
    if plan.get("zero_stage") is None:
        notes.append("sharding not published, zero1 assumed")
    if "HSDP" in (plan.get("fsdp") or ""):
        recipe.update({"sharding": "hsdp", "shard_group": case["hardware"]["gpus_per_node"]})
    return recipe


def format_of(stated: str, gpu: str) -> str:
    """Format of the matrix multiplications."""
    if stated.startswith("mxfp8"):
        return "fp8" if gpu.startswith(SUB_CHANNEL) else "mxfp8"
    for word in ("bf16", "fp8", "fp16"):
        if stated.startswith(word):
            return word
    raise LeftOut(f"precision {stated.split(maxsplit=1)[0]} not expressible")


def recompute_of(stated: str | None, notes: list[str]) -> dict[str, Any]:
    """Recompute settings from the words of the source."""
    if stated is None:
        notes.append("recompute not published, none assumed")
        return {"recompute": "none"}
    if stated.startswith("none"):
        return {"recompute": "none"}
    if stated.startswith("full"):
        layers = re.search(r"(\d+) layers(?! \(all\))", stated)
        return {"recompute": "full", **({"recompute_num_layers": int(layers[1])} if layers else {})}
    if stated.startswith("selective (per-op SAC)"):  # torchtitan's; the framework profile says what it keeps
        return {"recompute": "selective"}
    if stated.startswith("selective (attention core)") or stated == "selective":
        return {"recompute": "selective", "recompute_modules": ["core_attention"]}
    if stated.startswith("selective: "):
        words = [word.strip() for word in re.split(r"[,+]", stated.removeprefix("selective: "))]
        if all(word in MODULES for word in words):
            return {"recompute": "selective", "recompute_modules": sorted({MODULES[word] for word in words})}
    raise LeftOut("recompute not expressible")


def measured_of(measured: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """The measured figures; a memory figure whose unit or kind is unclear says so."""
    found = {
        "tokens_per_s_per_gpu": measured.get("tokens_per_s_per_gpu"),
        "step_seconds": measured.get("step_time_s"),
        "model_tflops_per_gpu": measured.get("tflops_per_gpu"),
        "memory_gib": measured.get("memory_gb"),
    }
    kept = {key: float(value) for key, value in found.items() if value is not None}
    if not kept:
        raise LeftOut("nothing measured")
    if "memory_gib" in kept:
        kind = measured.get("mem_kind") or ""
        kept_kind = "reserved" if "reserved" in kind else "allocated" if "alloc" in kind else "device"
        if "1e9 bytes" in kind:
            kept["memory_gib"] = round(kept["memory_gib"] * 1e9 / 2**30, 3)
        unit = "" if "GiB" in kind or "1e9" in kind else ", printed GB read as GiB"
        notes.append(f"memory: {kind or 'kind not published'}{unit}")
        return {**kept, "memory_kind": kept_kind, **rank_of(kind)}
    return dict(kept)


def rank_of(kind: str) -> dict[str, str]:
    """Pipeline rank that the memory figure was read on, where it is not the peak over all."""
    for words, rank in (("last global rank", "last"), ("rank 0 (first PP stage)", "first")):
        if words in kind:
            return {"memory_rank": rank}
    return {}


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
