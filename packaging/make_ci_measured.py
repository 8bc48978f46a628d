"""Converts Megatron-LM's functional tests with their peak memory into profiles/measured/megatron-ci.yaml.

    python packaging/make_ci_measured.py /work/shared/data/megatron_ci_memory_dev.json profiles/measured/megatron-ci.yaml

The command line of every run is known, so the recipe and what the run's kernels keep follow from it; arguments that are not
stated have Megatron-LM's defaults (`megatron/training/arguments.py`). Step times are left out: the models are toys.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import yaml
from make_measured import LeftOut
from make_profiles import ProfileDumper

from projectors.inputs.measured import load_measured

SOURCE = "NVIDIA/Megatron-LM@d98e8a6"
DEVICES = {"A100-SXM-80GB": "a100-80gb", "GB200": "gb200", "H100-SXM-80GB": "h100"}
ACTIVATIONS = {"gelu": "gelu", "swiglu": "swiglu", "squared_relu": "relu2"}
DISPATCHERS = {"allgather": "allgather", "alltoall": "alltoall", "flex": "deepep"}
SHARDING = {0: "none", 1: "zero1", 3: "zero3"}
GPT2_VOCABULARY = 50257    # of the tokenizer that the tests use where they name none
VOCABULARIES = {"Llama2Tokenizer": 32000}
UNFUSED_CLUSTER = "dracooci"
"""Golden values of this cluster date from when deterministic tests ran without flash attention: wherever one test has values of
both kinds, these equal those with `--attention-backend unfused` to 0.2%."""
CANNOT = {
    "--is-hybrid-model": "Mamba layers",
    "--hybrid-layer-pattern": "Mamba layers",
    "--cuda-graph-impl": "CUDA graphs keep buffers of their own",
    "--defer-embedding-wgrad-compute": "logit gradients are kept until the step's end",
    "--fine-grained-activation-offloading": "activations are offloaded",
}


def main(data: Path, out: Path) -> None:
    """Write the file and load it again."""
    cases, reasons = [], Counter[str]()
    others = {case.id for path in out.parent.glob("*.yaml") if path.name != out.name for case in load_measured(path)}
    for run in json.loads(data.read_text(encoding="utf-8")):
        if run["id"] in others:
            reasons["in another file, with its throughput"] += 1
            continue
        try:
            cases.append(convert(run))
        except LeftOut as reason:
            reasons[str(reason)] += 1
    text = f"# Made by packaging/make_ci_measured.py from data/{data.name}; change it there.\n"
    dumped = yaml.dump(cases, Dumper=ProfileDumper, sort_keys=False, width=150, allow_unicode=True)
    out.write_text(text + dumped, encoding="utf-8")
    print(f"{out}: {len(load_measured(out))} cases")
    for reason, count in reasons.most_common():
        print(f"left out, {reason}: {count}")


def convert(run: dict[str, Any]) -> dict[str, Any]:
    """One run in the contract's form."""
    args = run["other_args"]
    for name, reason in CANNOT.items():
        if name in args:
            raise LeftOut(reason)
    if int(args.get("--num-distributed-optimizer-instances", 1)) > 1:
        raise LeftOut("several copies of the distributed optimizer")
    gpus, per_node = run["hardware"]["num_gpus"], run["hardware"]["gpus_per_node"]
    if not gpus:
        raise LeftOut("number of GPUs not known")
    per_node = min(per_node, gpus)
    noted = remark(run, args)
    return {
        "id": run["id"],
        "source": f"{SOURCE}:{run['file']}",
        "model": model_of(run["model"], args, run["seq_len"]),
        "cluster": {"hardware": DEVICES[run["hardware"]["gpu"]], "nodes": gpus // per_node, "gpus_per_node": per_node},
        "recipe": recipe_of(run, args),
        "framework": "Megatron-LM CI",
        "options": options_of(args, run["id"]),
        **({"notes": noted} if noted else {}),
        "measured": {"memory_gib": run["measured"]["max_allocated_gib"], "memory_kind": "allocated", "memory_rank": "last"},
    }


def remark(run: dict[str, Any], args: dict[str, Any]) -> str | None:
    """What sets a run apart from its like, where its memory shows it."""
    name = run["id"]
    if "--cross-entropy-loss-fusion" in args and (UNFUSED_CLUSTER in name or name.endswith("fusion-dev_dgx_a100")):
        return "values of an older release, whose fused loss took 14 to 18 bytes per logit; since then 10"
    if run["parallelism"]["fsdp"] and "--multi-latent-attention" in args:
        return "Megatron-FSDP with unfused attention keeps 4 bytes more per score, an fp32 softmax"
    if args.get("--optimizer") == "muon":
        return "Muon's orthogonalization works on copies of the matrices, which are not projected"
    if name.endswith("cp2_nondeterministic-dev_dgx_h100_2nd"):
        return "0.24 GiB above the same test's eight other values"
    return None


def vocabulary(args: dict[str, Any]) -> int:
    """Entries of the tokenizer."""
    name = args.get("--tokenizer-type")
    if name == "NullTokenizer":
        return int(args["--vocab-size"])
    if name is None:
        return GPT2_VOCABULARY
    if name not in VOCABULARIES:
        raise LeftOut(f"vocabulary of {name} not stated")
    return VOCABULARIES[name]


def model_of(model: dict[str, Any], args: dict[str, Any], seq_length: int) -> dict[str, Any]:
    """The model card that the arguments describe."""
    bias = "--disable-bias-linear" not in args
    heads, hidden = model["heads"], model["hidden"]
    width = model.get("ffn") or 4 * hidden
    card: dict[str, Any] = {
        "name": model["name"],
        "num_layers": model["layers"],
        "hidden_size": hidden,
        "ffn_hidden_size": width,
        "num_attention_heads": heads,
        "num_query_groups": model.get("kv_heads") or heads,
        "head_dim": model.get("head_dim") or hidden // heads,
        "vocab_size": vocabulary(args),
        "tied_embeddings": model["tied_embeddings"],
        "activation": ACTIVATIONS[model["act"]],
        "norm": "rmsnorm" if args.get("--normalization") == "RMSNorm" else "layernorm",
        "position_embedding": args.get("--position-embedding-type", "learned"),
        "max_seq_len": seq_length,
        "mtp_layers": int(args.get("--mtp-num-layers", 0)),
        **dict.fromkeys(("qkv_bias", "o_bias", "mlp_bias"), bias),
    }
    if "--multi-latent-attention" in args:
        card["mla"] = {
            "q_lora_rank": int(args["--q-lora-rank"]), "kv_lora_rank": int(args["--kv-lora-rank"]),
            "qk_nope_head_dim": int(args["--qk-head-dim"]), "qk_rope_head_dim": int(args["--qk-pos-emb-head-dim"]),
            "v_head_dim": int(args["--v-head-dim"]),
        }
        card["head_dim"] = card["mla"]["qk_nope_head_dim"] + card["mla"]["qk_rope_head_dim"]
        card.update(qkv_bias=False)
    elif "--qk-layernorm" in args:
        card["qk_norm"] = True
    if model.get("experts"):
        card["moe"] = {
            "num_experts": model["experts"], "top_k": model["topk"], "moe_ffn_hidden_size": model.get("moe_ffn") or width,
            "shared_ffn_hidden_size": model.get("shared_expert_ffn") or 0,
        }
        if model.get("layer_freq"):
            first, _rest = map(int, re.fullmatch(r"\(\[0\]\*(\d+)\+\[1\]\*(\d+)\)", model["layer_freq"]).groups())
            card["moe"]["first_k_dense"] = first
        card["expert_bias"] = bias
    return card


def recipe_of(run: dict[str, Any], args: dict[str, Any]) -> dict[str, Any]:
    """The recipe that the arguments describe."""
    plan = run["parallelism"]
    vpp = plan["vpp"] or 1
    bf16_gradients = run["precision"] == "fp16" or "--grad-reduce-in-bf16" in args  # fp16 gradients are as long
    recipe: dict[str, Any] = {
        **{axis: plan[axis] for axis in ("tp", "pp", "cp", "ep")},
        "vpp": vpp,
        "etp": (plan["etp"] or plan["tp"]) if run["model"].get("experts") else 1,
        "mbs": run["mbs"],
        "gbs": run["gbs"],
        "seq_length": run["seq_len"],
        "precision": run["precision"],
        "sequence_parallel": plan["sp"],
        "schedule": "interleaved" if vpp > 1 else "1f1b",
        "sharding": SHARDING[plan["zero_stage"]],
        "overlap_grad_reduce": "--overlap-grad-reduce" in args,
        "overlap_param_gather": "--overlap-param-gather" in args,
        "cross_entropy_fusion": "--cross-entropy-loss-fusion" in args,
        "grad_reduce_dtype": "bf16" if bf16_gradients else "fp32",
        "moe_overlap": "--overlap-moe-expert-parallel-comm" in args,
    }
    if run["model"].get("experts"):
        recipe["moe_dispatch"] = DISPATCHERS[args.get("--moe-token-dispatcher-type", "allgather")]
    if args.get("--fp8-recipe") == "mxfp8":
        recipe["precision"] = "mxfp8"
    if args.get("--optimizer") == "muon":
        recipe["optimizer"] = "muon"
    if "--microbatch-group-size-per-virtual-pipeline-stage" in args:
        recipe["microbatch_group_size"] = int(args["--microbatch-group-size-per-virtual-pipeline-stage"])
    stages = stage_layers(run, args, plan["pp"], vpp)
    if stages:
        recipe["stage_layers"] = stages
    words = run["recompute"]
    if words.startswith("full"):
        recipe["recompute"] = "full"
    elif words.startswith("selective"):
        recipe.update(recompute="selective", recompute_modules=words.split("[")[1].strip("]").split())
    return recipe


def stage_layers(run: dict[str, Any], args: dict[str, Any], pp: int, vpp: int) -> list[int] | None:
    """Layers of every virtual stage where they are not even."""
    layers, stages = run["model"]["layers"], pp * vpp
    layout = args.get("--pipeline-model-parallel-layout")
    if layout and pp > 1:
        plain = re.sub(r"\(([^)]*)\)\*(\d+)", lambda found: found[1] * int(found[2]), layout)
        plain = re.sub(r"(\w)\*(\d+)", lambda found: found[1] * int(found[2]), plain)
        return [part.count("t") for part in plain.split("|")]
    if "account_for_embedding_loss" in run["model"]["name"]:
        even = (layers + 2) // stages
        return [even - 1, *[even] * (stages - 2), even - 1]
    first, last = (int(args.get(f"--decoder-{end}-pipeline-num-layers", 0)) for end in ("first", "last"))
    if first or last:
        between = stages - bool(first) - bool(last)
        rest = (layers - first - last) // between
        return [*([first] if first else []), *[rest] * between, *([last] if last else [])]
    return None


def options_of(args: dict[str, Any], name: str) -> dict[str, Any]:
    """What the run's kernels keep otherwise than the framework's profile says."""
    unfused = args["--transformer-impl"] == "local" or args.get("--attention-backend") == "unfused" or (
        UNFUSED_CLUSTER in name and "--deterministic-mode" in args
    )
    return {
        "expert_gemm_streams": 4 if "--moe-grouped-gemm" in args else 0,
        "flash_attention": not unfused or args.get("--attention-backend") == "flash",
        "fused_activation": "--no-bias-gelu-fusion" not in args and "--no-bias-swiglu-fusion" not in args,
        "fused_loss": "in-place" if args.get("--cross-entropy-fusion-impl") == "te" else "compiled",
        "hidden_dropout": float(args.get("--hidden-dropout", 0.1)) > 0,
        "attention_dropout": float(args.get("--attention-dropout", 0.1)) > 0,
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
