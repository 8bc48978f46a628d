"""Transformer layers in plain PyTorch, to check our operators' FLOPs and saved bytes against autograd itself.

Norm and gated activation are custom functions that keep what the fused kernels of Transformer Engine and Megatron-Core
keep (input and per-token deviation; the projection's output); everything else is PyTorch's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from projectors.inputs.model_card import ModelCard

Layer = Callable[[torch.Tensor], torch.Tensor]


class FusedNorm(torch.autograd.Function):
    """RMSNorm that keeps its input and the fp32 deviation of each token."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
        deviation = torch.rsqrt(x.float().square().mean(-1) + 1e-6)
        ctx.save_for_backward(x, deviation, gain)
        return (x * deviation[..., None]).to(x.dtype) * gain

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradients[0], None


class FusedSwiglu(torch.autograd.Function):
    """Gated activation that keeps only the joint output of gate and up projection."""

    @staticmethod
    def forward(ctx: Any, joint: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(joint)
        gate, up = joint.chunk(2, dim=-1)
        return F.silu(gate) * up

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        return torch.cat([gradients[0], gradients[0]], dim=-1)


class InPlaceRotation(torch.autograd.Function):
    """Rotary embedding: linear in its input, so nothing of it is kept."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.roll(1, -1)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        return gradients[0].roll(-1, -1)


class FusedAttention(torch.autograd.Function):
    """What a flash kernel keeps (arXiv:2307.08691, 3.1) where PyTorch's own CPU kernel refuses: Q, K, V, the output and
    one log-sum-exp per query. Needed for values of another width than keys."""

    @staticmethod
    def forward(ctx: Any, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        output = torch.empty(*queries.shape[:-1], values.shape[-1], dtype=queries.dtype)
        ctx.save_for_backward(queries, keys, values, output, torch.empty(queries.shape[:-1]))
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, ...]:
        queries, keys, values = ctx.saved_tensors[:3]
        return queries, keys, values


def weight(*shape: int) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.empty(*shape, dtype=torch.bfloat16))


def norm(width: int) -> Layer:
    gain = weight(width)
    return lambda x: FusedNorm.apply(x, gain)


def linear(inputs: int, outputs: int) -> Layer:
    matrix = weight(outputs, inputs)
    return lambda x: F.linear(x, matrix)


def attend(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """[b, s, heads, dim] each; joined heads out."""
    if torch.is_grad_enabled() and keys.shape[-1] != values.shape[-1]:
        return FusedAttention.apply(queries, keys, values).flatten(2)
    attended = F.scaled_dot_product_attention(
        queries.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2), is_causal=True,
        enable_gqa=queries.shape[2] != keys.shape[2],
    )
    return attended.transpose(1, 2).reshape(*queries.shape[:2], -1)


def grouped_query_attention(card: ModelCard) -> Layer:
    heads, groups, dim = card.num_attention_heads, card.num_query_groups, card.head_dim
    qkv, output = linear(card.hidden_size, (heads + 2 * groups) * dim), linear(heads * dim, card.hidden_size)

    def forward(x: torch.Tensor) -> torch.Tensor:
        joint = qkv(x).unflatten(-1, (-1, dim))
        queries, keys, values = joint.split([heads, groups, groups], dim=2)
        return output(attend(InPlaceRotation.apply(queries), InPlaceRotation.apply(keys), values.contiguous()))

    return forward


def latent_attention(card: ModelCard) -> Layer:
    mla, heads = card.mla, card.num_attention_heads
    assert mla is not None and mla.q_lora_rank is not None
    q_rank, kv_rank = mla.q_lora_rank, mla.kv_lora_rank
    nope, rope, dim_v = mla.qk_nope_head_dim, mla.qk_rope_head_dim, mla.v_head_dim
    q_down, q_norm, q_up = linear(card.hidden_size, q_rank), norm(q_rank), linear(q_rank, heads * (nope + rope))
    kv_down, kv_norm, kv_up = linear(card.hidden_size, kv_rank + rope), norm(kv_rank), linear(kv_rank, heads * (nope + dim_v))
    output = linear(heads * dim_v, card.hidden_size)

    def forward(x: torch.Tensor) -> torch.Tensor:
        queries = q_up(q_norm(q_down(x))).unflatten(-1, (heads, nope + rope))
        latent, shared = kv_down(x).split([kv_rank, rope], dim=-1)
        keys, values = kv_up(kv_norm(latent.contiguous())).unflatten(-1, (heads, nope + dim_v)).split([nope, dim_v], dim=-1)
        shared = InPlaceRotation.apply(shared)[:, :, None].expand(-1, -1, heads, -1)
        return output(attend(InPlaceRotation.apply(queries), torch.cat([keys, shared], dim=-1), values.contiguous()))

    return forward


def mlp(hidden: int, ffn: int) -> Layer:
    up, down = linear(hidden, 2 * ffn), linear(ffn, hidden)
    return lambda x: down(FusedSwiglu.apply(up(x)))


def experts(card: ModelCard) -> Layer:
    """All routed experts on one device, every expert with its even share of the token copies, as one batched product."""
    moe = card.moe
    assert moe is not None
    number, width, hidden = moe.num_experts, moe.moe_ffn_hidden_size, card.hidden_size
    up, down = weight(number, hidden, 2 * width), weight(number, width, hidden)

    def forward(x: torch.Tensor) -> torch.Tensor:
        tokens = x.flatten(0, 1)
        copies = RouteCopies.apply(tokens, moe.top_k).unflatten(0, (number, -1))
        joint = torch.bmm(copies, up)
        returned = torch.bmm(FusedSwiglu.apply(joint), down).flatten(0, 1)
        return CombineCopies.apply(returned, moe.top_k).view_as(x)

    return forward


class RouteCopies(torch.autograd.Function):
    """Every token top_k times, in expert order; keeps nothing but (not modelled here) integer maps."""

    @staticmethod
    def forward(ctx: Any, tokens: torch.Tensor, top_k: int) -> torch.Tensor:
        ctx.top_k = top_k
        return tokens.repeat(top_k, 1)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradients[0].unflatten(0, (ctx.top_k, -1)).sum(0), None


class CombineCopies(torch.autograd.Function):
    """Add the copies of each token."""

    @staticmethod
    def forward(ctx: Any, copies: torch.Tensor, top_k: int) -> torch.Tensor:
        ctx.top_k = top_k
        return copies.unflatten(0, (top_k, -1)).sum(0)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradients[0].repeat(ctx.top_k, 1), None


def transformer_layer(card: ModelCard, feed_forward: Callable[[], Layer]) -> Layer:
    first, second = norm(card.hidden_size), norm(card.hidden_size)
    attention = latent_attention(card) if card.mla else grouped_query_attention(card)
    inner = feed_forward()

    def forward(x: torch.Tensor) -> torch.Tensor:
        x = x + attention(first(x))
        return x + inner(second(x))

    return forward


def saved_bytes(make: Callable[[], Layer], shape: tuple[int, ...]) -> int:
    """Bytes of the distinct storages that autograd keeps for one forward pass over a bf16 input, weights left out."""
    storages: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if not isinstance(tensor, torch.nn.Parameter) and not _of_parameter(tensor):
            storage = tensor.untyped_storage()
            storages[storage._cdata] = storage.nbytes()
        return tensor

    with FakeTensorMode():
        layer = make()
        x = torch.empty(*shape, dtype=torch.bfloat16, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            result = layer(x * 1)  # a layer's input is itself a result
        assert result.shape == x.shape
    return sum(storages.values())


def forward_flops(make: Callable[[], Layer], shape: tuple[int, ...]) -> int:
    """FLOPs of one forward pass by PyTorch's own counter (which counts causal attention as full)."""
    unfused = sdpa_kernel(SDPBackend.MATH)  # the counter does not know the CPU's fused attention
    with FakeTensorMode(), unfused, torch.no_grad(), FlopCounterMode(display=False) as counter:
        make()(torch.empty(*shape, dtype=torch.bfloat16))
    return int(counter.get_total_flops())


def _of_parameter(tensor: torch.Tensor) -> bool:
    """A view of a weight, such as its transpose."""
    base = tensor._base
    return isinstance(base, torch.nn.Parameter)
