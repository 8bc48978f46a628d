"""The model: what is trained. Names are the field's; see `profiles/models` for filled-in cards."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from projectors.inputs.describe import Frozen, quantity

MOST_LAYERS = 10_000
MOST_WIDTH = 1_000_000
MOST_EXPERTS = 100_000
MOST_VOCABULARY = 100_000_000
MOST_SEQUENCE = 100_000_000


INDEXED_RATIO = 4
"""Tokens per compressed entry of DeepSeek-V4's compressed sparse attention (CSA): an indexer picks entries per query."""

HEAVY_RATIO = 128
"""Tokens per compressed entry of its heavily compressed attention (HCA): a query sees every earlier entry."""


class Activation(StrEnum):
    """MLP non-linearity. The gated ones have two input branches (gate and up)."""

    SWIGLU = "swiglu"
    GEGLU = "geglu"
    GELU = "gelu"
    RELU2 = "relu2"
    RELU = "relu"

    @property
    def gated(self) -> bool:
        return self in (Activation.SWIGLU, Activation.GEGLU)


class Norm(StrEnum):
    RMSNORM = "rmsnorm"
    LAYERNORM = "layernorm"

    @property
    def parameters_per_feature(self) -> int:
        """RMSNorm has a gain; LayerNorm a gain and a bias."""
        return 1 if self is Norm.RMSNORM else 2


class PositionEmbedding(StrEnum):
    ROPE = "rope"
    LEARNED = "learned"
    ALIBI = "alibi"
    NONE = "none"


class LatentAttention(Frozen):
    """Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1)."""

    q_lora_rank: int | None = quantity(
        None, says="Rank of the compressed query; null = full-rank query", least=1, most=MOST_WIDTH
    )
    kv_lora_rank: int = quantity(says="Rank of the compressed key and value", least=1, most=MOST_WIDTH)
    qk_nope_head_dim: int = quantity(says="Query and key width per head without rotary embedding", least=1, most=MOST_WIDTH)
    qk_rope_head_dim: int = quantity(
        says="Query and key width per head with rotary embedding (key part shared by heads)", least=0, most=MOST_WIDTH
    )
    v_head_dim: int = quantity(says="Value width per head", least=1, most=MOST_WIDTH)

    @property
    def qk_head_dim(self) -> int:
        return self.qk_nope_head_dim + self.qk_rope_head_dim


class CompressedAttention(Frozen):
    """DeepSeek-V4 attention: shared-KV multi-query attention over a window plus compressed context (CSA/HCA)."""

    q_lora_rank: int = quantity(says="Rank of the compressed query", least=1, most=MOST_WIDTH)
    o_lora_rank: int = quantity(says="Rank of the output projection of each group", least=1, most=MOST_WIDTH)
    o_groups: int = quantity(says="Groups of the low-rank output projection", least=1, most=MOST_WIDTH)
    qk_rope_head_dim: int = quantity(says="Part of a head with rotary embedding", least=0, most=MOST_WIDTH)
    index_n_heads: int = quantity(says="Heads of the indexer that picks compressed blocks", least=1, most=MOST_WIDTH)
    index_head_dim: int = quantity(says="Width of an indexer head", least=1, most=MOST_WIDTH)
    index_topk: int = quantity(says="Compressed entries that the indexer keeps for a query", least=1, most=MOST_SEQUENCE)
    hyper_connections: int = quantity(says="Parallel residual streams (manifold hyper-connections)", least=1, most=64)
    compress_ratios: tuple[int, ...] = Field(
        description="Tokens per compressed entry of each layer: 0 window only, 4 picked by an indexer (CSA), 128 heavy (HCA)"
    )
    hash_layers: int = quantity(0, says="First layers whose experts a table picks by token number", least=0, most=MOST_LAYERS)

    @model_validator(mode="after")
    def _known_ratios(self) -> Self:
        for layer, ratio in enumerate(self.compress_ratios):
            if ratio not in (0, INDEXED_RATIO, HEAVY_RATIO):
                raise ValueError(f"compress_ratios of layer {layer} is {ratio}, allowed is 0, {INDEXED_RATIO} or {HEAVY_RATIO}")
        return self


class MixtureOfExperts(Frozen):
    """Routed and shared experts, and which layers have them."""

    num_experts: int = quantity(says="Routed experts per MoE layer", title="Routed experts", least=1, most=MOST_EXPERTS)
    top_k: int = quantity(says="Experts each token is sent to", title="Experts per token", least=1, most=MOST_EXPERTS)
    moe_ffn_hidden_size: int = quantity(
        says="Width of one routed expert, per branch when gated", title="Expert FFN size", least=1, most=MOST_WIDTH
    )
    shared_ffn_hidden_size: int = quantity(
        0, says="Total width of the shared experts; 0 = none", title="Shared FFN size", least=0, most=MOST_WIDTH
    )
    first_k_dense: int = quantity(
        0, says="Leading layers with a dense MLP", title="Dense first layers", least=0, most=MOST_LAYERS
    )
    layer_freq: int = quantity(
        1,
        says="Every n-th layer is MoE (counted so that the last of each n is)",
        title="MoE layer frequency",
        least=1,
        most=MOST_LAYERS,
    )
    moe_layers: tuple[int, ...] | None = Field(
        default=None, description="Explicit MoE layer numbers from 0, which override the two above; null = by frequency"
    )

    @model_validator(mode="after")
    def _top_k_within_experts(self) -> Self:
        if self.top_k > self.num_experts:
            raise ValueError(f"top_k is {self.top_k}, allowed is 1 to num_experts = {self.num_experts}")
        return self


class SlidingWindow(Frozen):
    """Which layers attend to a window only."""

    window: int = quantity(says="Tokens a query sees, itself included", unit="tokens", least=1, most=MOST_SEQUENCE)
    pattern: str | tuple[int, ...] = Field(
        "alternating",
        description='"alternating" (even layers windowed), "L:G" (L windowed layers, then G full ones), "all", '
        "or explicit windowed layer numbers",
    )

    @model_validator(mode="after")
    def _known_pattern(self) -> Self:
        if isinstance(self.pattern, str) and self.pattern not in ("alternating", "all"):
            local, _, full = self.pattern.partition(":")
            if not (local.isdigit() and full.isdigit() and int(local) + int(full) > 0):
                raise ValueError(
                    f'pattern is {self.pattern!r}, allowed is alternating, all, "L:G" such as "5:1", or a list of layer numbers'
                )
        return self

    def windowed(self, layer: int) -> bool:
        """Whether layer (from 0) attends to the window only."""
        if not isinstance(self.pattern, str):
            return layer in self.pattern
        if self.pattern == "all":
            return True
        if self.pattern == "alternating":
            return layer % 2 == 0
        local, full = (int(part) for part in self.pattern.split(":"))
        return layer % (local + full) < local


class PublishedParameters(Frozen):
    """What the model's authors state, kept to check our own count against."""

    total_parameters: float | None = quantity(None, says="Published parameter count", least=1)
    active_parameters: float | None = quantity(None, says="Published parameters active per token", least=1)
    source: str | None = None


def _head_dim(fields: dict[str, Any]) -> int:
    """hidden_size / num_attention_heads, as the contract states; 0, which no card may have, when that is no whole number.

    A default, not a validator before the model: that would make pydantic read the JSON's lists as Python lists and refuse them.
    """
    hidden, heads = fields["hidden_size"], fields["num_attention_heads"]
    return hidden // heads if hidden % heads == 0 else 0


class ModelCard(Frozen):
    """Architecture of a decoder-only transformer."""

    name: str = Field(description="Name of the card", min_length=1, max_length=200)
    num_layers: int = quantity(says="Transformer layers", title="Layers", least=1, most=MOST_LAYERS)
    hidden_size: int = quantity(says="Width of the residual stream", least=1, most=MOST_WIDTH)
    ffn_hidden_size: int = quantity(says="Dense MLP width, per branch when gated", title="FFN size", least=1, most=MOST_WIDTH)
    num_attention_heads: int = quantity(says="Query heads", title="Heads", least=1, most=MOST_WIDTH)
    num_query_groups: int = quantity(
        says="Key/value heads: equal to heads for MHA, 1 for MQA", title="KV heads", least=1, most=MOST_WIDTH
    )
    head_dim: int = Field(
        default_factory=_head_dim,
        description="Width of one attention head; left out = hidden_size / num_attention_heads",
        ge=1,
        le=MOST_WIDTH,
        json_schema_extra={"unit": "", "advanced": False},
    )
    vocab_size: int = quantity(says="Rows of the embedding before padding", title="Vocabulary", least=1, most=MOST_VOCABULARY)
    tied_embeddings: bool = quantity(False, says="Input embedding and output head share one weight")
    mla: LatentAttention | None = quantity(None, says="Multi-head latent attention; null = ordinary heads")
    compressed_attention: CompressedAttention | None = quantity(None, says="DeepSeek-V4 compressed attention", advanced=True)
    moe: MixtureOfExperts | None = quantity(None, says="Mixture of experts; null = dense")
    sliding_window: SlidingWindow | None = quantity(None, says="Layers that attend to a window; null = all attend fully")
    mtp_layers: int = quantity(0, says="Multi-token-prediction layers after the last layer", title="MTP layers", least=0, most=64)
    activation: Activation = quantity(Activation.SWIGLU, says="MLP non-linearity")
    norm: Norm = quantity(Norm.RMSNORM, says="Normalisation")
    norms_per_layer: int = quantity(2, says="Normalisations of the residual stream per layer", least=0, most=4, advanced=True)
    qkv_bias: bool = quantity(False, says="Bias on query, key and value projections", advanced=True)
    o_bias: bool = quantity(False, says="Bias on the attention output projection", title="Output bias", advanced=True)
    mlp_bias: bool = quantity(False, says="Bias on dense MLP projections", advanced=True)
    qk_norm: bool = quantity(False, says="RMSNorm with a gain on each query and key head", advanced=True)
    attn_sinks: bool = quantity(False, says="One learned sink logit per head", title="Attention sinks", advanced=True)
    router_bias: bool = quantity(False, says="Bias per expert in the router", advanced=True)
    expert_bias: bool = quantity(False, says="Bias on expert projections", advanced=True)
    position_embedding: PositionEmbedding = quantity(PositionEmbedding.ROPE, says="Position encoding", advanced=True)
    max_seq_len: int = quantity(
        says="Longest sequence the model is made for", title="Longest sequence", unit="tokens", least=1, most=MOST_SEQUENCE
    )
    published: PublishedParameters = PublishedParameters()
    sources: tuple[str, ...] = Field(default=(), description="Where the figures of the card come from")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.num_attention_heads % self.num_query_groups:
            raise ValueError(
                f"num_query_groups is {self.num_query_groups}, "
                f"allowed are divisors of num_attention_heads = {self.num_attention_heads}"
            )
        if self.mla and self.compressed_attention:
            raise ValueError("mla and compressed_attention exclude each other")
        if self.moe and self.moe.moe_layers is not None:
            outside = [layer for layer in self.moe.moe_layers if not 0 <= layer < self.num_layers]
            if outside:
                raise ValueError(f"moe.moe_layers names layer {outside[0]}, allowed is 0 to {self.num_layers - 1}")
        if self.compressed_attention:
            self._consistent_compression(self.compressed_attention)
        return self

    def _consistent_compression(self, compressed: CompressedAttention) -> None:
        if len(compressed.compress_ratios) != self.num_layers:
            raise ValueError(
                f"compress_ratios has {len(compressed.compress_ratios)} entries, allowed is one per layer ({self.num_layers})"
            )
        if self.sliding_window is None or self.sliding_window.pattern != "all":
            raise ValueError('compressed_attention needs sliding_window with pattern "all": every layer attends to a window')
        if self.num_query_groups != 1:
            raise ValueError(
                f"num_query_groups is {self.num_query_groups}, allowed with compressed_attention is 1 (one shared KV head)"
            )
        if self.num_attention_heads % compressed.o_groups:
            raise ValueError(
                f"o_groups is {compressed.o_groups}, allowed are divisors of num_attention_heads = {self.num_attention_heads}"
            )

    @property
    def residual_width(self) -> int:
        """Features of a token between layers: hidden_size, times the parallel streams of hyper-connections."""
        return self.hidden_size * (self.compressed_attention.hyper_connections if self.compressed_attention else 1)

    def is_moe(self, layer: int) -> bool:
        """Whether layer (from 0) has experts.

        Explicit `moe_layers` win; otherwise the first `first_k_dense` layers are dense, and from there the last of every
        `layer_freq` layers is MoE (Llama-4 Maverick, layer_freq 2: layer 0 dense, layer 1 MoE).
        """
        if self.moe is None:
            return False
        if self.moe.moe_layers is not None:
            return layer in self.moe.moe_layers
        return layer >= self.moe.first_k_dense and (layer + 1) % self.moe.layer_freq == 0

    def is_windowed(self, layer: int) -> bool:
        """Whether layer (from 0) attends to a sliding window only."""
        return self.sliding_window is not None and self.sliding_window.windowed(layer)


AttentionName = Literal["MHA", "GQA", "MQA", "MLA", "CSA/HCA"]


def attention_name(card: ModelCard) -> AttentionName:
    """The field's name for the card's attention."""
    if card.mla:
        return "MLA"
    if card.compressed_attention:
        return "CSA/HCA"
    if card.num_query_groups == card.num_attention_heads:
        return "MHA"
    return "MQA" if card.num_query_groups == 1 else "GQA"
