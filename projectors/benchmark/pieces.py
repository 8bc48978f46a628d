"""Small parts of a layer: linear maps, norms, rotary embedding, the feed-forward network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from projectors.benchmark.parallel import into_region, out_of_region
from projectors.inputs.model_card import Activation, Norm

if TYPE_CHECKING:
    from projectors.benchmark.layers import Situation

ROTARY_BASE = 10_000.0
"""Base of the rotary frequencies; timings do not depend on it."""

WEIGHT_SCALE = 0.02
"""Standard deviation of random weights: values stay in range over a layer."""


def linear_like(at: Situation, inputs: int, outputs: int, *, bias: bool = False) -> nn.Module:
    """A linear map on this rank, by Transformer Engine where the reduced run multiplies in fp8."""
    if at.kernels.fp8_linear is not None:
        made: nn.Module = at.kernels.fp8_linear(inputs, outputs, bias=bias, params_dtype=at.dtype, device=at.device)
        return made
    layer = nn.Linear(inputs, outputs, bias=bias, dtype=at.dtype, device=at.device)
    nn.init.normal_(layer.weight, std=WEIGHT_SCALE)
    return layer


def make_norm(at: Situation, kind: Norm, width: int) -> nn.Module:
    """A norm over the last dimension."""
    if kind is Norm.RMSNORM:
        return nn.RMSNorm(width, dtype=at.dtype, device=at.device)
    return nn.LayerNorm(width, dtype=at.dtype, device=at.device)


def rotary_table(at: Situation, width: int) -> Tensor:
    """Cosines and sines, [2, positions, 1, width / 2]."""
    frequencies = ROTARY_BASE ** (-torch.arange(0, width, 2, device=at.device).float() / width)
    angles = torch.outer(torch.arange(at.seq_length, device=at.device).float(), frequencies)
    return torch.stack([angles.cos(), angles.sin()])[:, :, None, :].to(at.dtype)


def rotate(heads: Tensor, table: Tensor) -> Tensor:
    """[batch, positions, heads, width] turned by position (arXiv:2104.09864)."""
    first, second = heads.chunk(2, dim=-1)
    cosine, sine = table
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


def activated(activation: Activation, inner: Tensor) -> Tensor:
    """The non-linearity of a feed-forward network; gated ones take both branches side by side."""
    match activation:
        case Activation.SWIGLU:
            gate, up = inner.chunk(2, dim=-1)
            return functional.silu(gate) * up
        case Activation.GEGLU:
            gate, up = inner.chunk(2, dim=-1)
            return functional.gelu(gate) * up
        case Activation.GELU:
            return functional.gelu(inner)
        case Activation.RELU2:
            return functional.relu(inner).square()
        case Activation.RELU:
            return functional.relu(inner)


def branches(activation: Activation) -> int:
    """Matrices ahead of the non-linearity: two where one of them is the gate."""
    return 2 if activation in (Activation.SWIGLU, Activation.GEGLU) else 1


class FeedForward(nn.Module):
    """Column-parallel up (and gate) projection, row-parallel down projection."""

    def __init__(self, at: Situation, width: int) -> None:
        super().__init__()
        card = at.card
        self.at, self.activation = at, card.activation
        local = width // at.tp.size
        self.up = linear_like(at, card.hidden_size, branches(card.activation) * local, bias=card.mlp_bias)
        self.down = linear_like(at, local, card.hidden_size, bias=card.mlp_bias)

    def forward(self, own: Tensor) -> Tensor:
        at = self.at
        whole = into_region(own, at.tp, sequence_parallel=at.sequence_parallel)
        partial = self.down(activated(self.activation, self.up(whole)))
        return out_of_region(partial, at.tp, sequence_parallel=at.sequence_parallel)
