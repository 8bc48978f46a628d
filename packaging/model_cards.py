"""Model cards out of the collected data: fields renamed to ours, published counts with their source."""

from __future__ import annotations

import re
from typing import Any

PATTERNS = {
    "llama4_scout": "3:1",
    "llama4_maverick": "3:1",
    "gpt_oss_20b": "alternating",
    "gpt_oss_120b": "alternating",
    "gemma2_27b": "alternating",
    "gemma3_27b": "5:1",
    "phi3_mini": "all",
}
ACTIVATIONS = {"clamped swiglu": "swiglu", "geglu": "geglu", "squared_relu": "relu2"}


def card(key: str, entry: dict[str, Any]) -> dict[str, Any]:
    """A model card in contract order."""
    sources = list(entry["sources"])
    moe, latent = entry["moe"], entry.get("v4")
    width = entry["ffn_hidden_size"]
    if width is None:
        width = moe["moe_ffn_hidden_size"]
        sources.append("ffn_hidden_size: no dense layer exists; the width of one expert stands in")
    if entry["notes"]:
        sources.append(f"note: {entry['notes']}")
    return {
        "name": key.replace("_", "-"),
        "num_layers": entry["num_layers"],
        "hidden_size": entry["hidden_size"],
        "ffn_hidden_size": width,
        "num_attention_heads": entry["num_attention_heads"],
        "num_query_groups": entry["num_query_groups"],
        "head_dim": entry["head_dim"],
        "vocab_size": entry["vocab_size"],
        "tied_embeddings": entry["tied_embeddings"],
        "mla": entry["mla"],
        **({"compressed_attention": compressed(latent, moe)} if latent else {}),
        "moe": mixture(moe) if moe else None,
        "sliding_window": window(key, entry),
        "mtp_layers": entry["mtp_layers"],
        "activation": next(
            (ours for theirs, ours in ACTIVATIONS.items() if entry["activation"].startswith(theirs)), entry["activation"]
        ),
        "norm": "layernorm" if entry["norm"].startswith("LayerNorm") else "rmsnorm",
        "norms_per_layer": entry["norms_per_layer"],
        "qkv_bias": entry["qkv_bias"],
        "o_bias": entry["o_bias"],
        "mlp_bias": entry["mlp_bias"],
        "qk_norm": entry["qk_norm"] == "RMSNorm per head",
        "attn_sinks": bool(entry.get("attn_sinks") or (latent and latent["attn_sink"])),
        "router_bias": bool(moe and moe["router_bias"]),
        "expert_bias": bool(moe and moe.get("expert_bias_terms")),
        "position_embedding": "learned" if entry["position_embedding"] == "learned_absolute" else entry["position_embedding"],
        "max_seq_len": entry["max_seq_len"],
        "published": published(entry),
        "sources": sources,
    }


def mixture(moe: dict[str, Any]) -> dict[str, Any]:
    """Routed and shared experts."""
    keys = ("num_experts", "top_k", "moe_ffn_hidden_size", "shared_ffn_hidden_size", "first_k_dense", "layer_freq")
    return {key: moe[key] for key in keys}


def window(key: str, entry: dict[str, Any]) -> dict[str, Any] | None:
    """The window of local layers; DeepSeek-V4's belongs to its compressed attention and is stated for all layers."""
    stated = entry["sliding_window"]
    return stated and {"window": stated["window"], "pattern": PATTERNS.get(key, "all")}


def compressed(v4: dict[str, Any], moe: dict[str, Any]) -> dict[str, Any]:
    """DeepSeek-V4's attention."""
    keys = ("q_lora_rank", "o_lora_rank", "o_groups", "qk_rope_head_dim", "index_n_heads", "index_head_dim", "index_topk")
    return {
        **{key: v4[key] for key in keys},
        "hyper_connections": v4["hc_mult"],
        "compress_ratios": v4["compress_ratios"],
        "hash_layers": moe["num_hash_layers"],
    }


def published(entry: dict[str, Any]) -> dict[str, Any]:
    """The exact published total, else the rounded one that the data compares with.

    The active figure is kept where it agrees with the computed one to one unit of its last printed digit; authors of the
    others leave embedding or head out, or include a vision part.
    """
    stated, computed = entry["published"], entry["computed"]
    if stated.get("total_exact"):
        total, source = stated["total_exact"], stated.get("total_exact_source") or "published exact count"
    else:
        first = re.match(r"(\d+)", str(computed.get("deviation_total_vs") or ""))
        total = int(first[1]) if first else None
        source = str(computed.get("deviation_total_vs") or "").partition("(")[2].rstrip(")") or None
    active = re.match(r"[\d.]+(?=B)", str(stated.get("active") or ""))
    agrees = active and abs(float(active[0]) - computed["active_all"] / 1e9) <= 10.0 ** -len(active[0].partition(".")[2])
    told = [f"total: {source}"] if source else []
    if active:
        told.append(f"active: {stated['active']}" + ("" if agrees else " as published, counted differently; left out here"))
    return {
        "total_parameters": float(total) if total else None,
        "active_parameters": float(active[0]) * 1e9 if active and agrees else None,
        "source": "; ".join(told) or None,
    }
