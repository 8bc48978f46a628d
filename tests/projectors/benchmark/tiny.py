"""Studies small enough to be measured in a test, on the CPU of any machine."""

from __future__ import annotations

from projectors.inputs.benchmark_record import DeviceKind, MeasuredDevice
from projectors.inputs.loading import study_from_text
from projectors.inputs.study import Study

DENSE = "name: tiny, num_layers: 4, hidden_size: 64, ffn_hidden_size: 128, num_attention_heads: 4, num_query_groups: 2"
CARDS = {
    "dense": DENSE,
    "mla": DENSE + ", mla: {q_lora_rank: 32, kv_lora_rank: 16, qk_nope_head_dim: 16, qk_rope_head_dim: 8, v_head_dim: 16}",
    "moe": DENSE + ", moe: {num_experts: 4, top_k: 2, moe_ffn_hidden_size: 64, shared_ffn_hidden_size: 64, first_k_dense: 1}",
    "windowed": DENSE + ", sliding_window: {window: 16, pattern: alternating}, qk_norm: true",
    "gelu": DENSE + ", activation: gelu, norm: layernorm, position_embedding: learned, qkv_bias: true, mlp_bias: true",
    "mtp": DENSE + ", mtp_layers: 1",
}


def tiny(kind: str = "dense", recipe: str = "", nodes: int = 1, per_node: int = 1) -> Study:
    """A study of a card of `CARDS` on the local CPU."""
    return study_from_text(
        f"model: {{{CARDS[kind]}, vocab_size: 512, max_seq_len: 128}}\n"
        f"cluster: {{hardware: cpu, nodes: {nodes}, gpus_per_node: {per_node}}}\n"
        f"recipe: {{gbs: 8, seq_length: 64, precision: fp32, sharding: none{', ' if recipe else ''}{recipe}}}\n"
    )


def cpus(count: int = 1, memory_bytes: int = 8 << 30) -> tuple[MeasuredDevice, ...]:
    """So many CPU processes of one thread."""
    one = MeasuredDevice(kind=DeviceKind.CPU, name="cpu", memory_bytes=memory_bytes, threads=1, hardware="cpu")
    return (one,) * count
