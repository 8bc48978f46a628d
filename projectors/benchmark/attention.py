"""Fused causal attention by the best kernel that is installed, and which one that is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class Kernels:
    """Kernels of a run, and their names for the record."""

    flash_attention: Callable[..., Any] | None   # flash-attn's function; None: PyTorch's own
    fp8_linear: Callable[..., Any] | None        # Transformer Engine's Linear; None: not in fp8
    fp8_context: Callable[[], Any] | None        # entered around every pass in fp8
    grouped: bool                                # experts by one grouped product, else one after the other
    names: dict[str, str]


def kernels_for(device: torch.device, dtype: torch.dtype, *, fp8: bool) -> Kernels:
    """What is installed for a device. flash-attn and Transformer Engine run on GPUs in 16 bits only."""
    half = device.type == "cuda" and dtype in (torch.bfloat16, torch.float16)
    flash = _found("flash_attn", "flash_attn_func") if half else None
    linear = _found("transformer_engine.pytorch", "Linear") if half and fp8 else None
    context = _found("transformer_engine.pytorch", "fp8_autocast") if linear else None
    grouped = half and dtype is torch.bfloat16 and hasattr(functional, "grouped_mm")
    names = {
        "attention": "flash-attn" if flash else "PyTorch scaled_dot_product_attention",
        "linear": "Transformer Engine fp8" if linear else "PyTorch",
        "experts": "PyTorch grouped_mm" if grouped else "one product per expert",
    }
    if fp8 and linear is None:
        names["precision"] = "measured in 16 bits, fp8 restored by the ratio of the simulated times"
    return Kernels(flash, linear, context, grouped, names)


def _found(module: str, name: str) -> Callable[..., Any] | None:
    try:
        return getattr(import_module(module), name, None)
    except (ImportError, OSError):  # OSError: the library is there, and its shared objects do not load
        return None


def attend(kernels: Kernels, query: Tensor, key: Tensor, value: Tensor, window: int | None) -> Tensor:
    """Causal attention of [batch, positions, heads, width]; a query sees `window` positions, itself included."""
    wide, narrow = query.shape[-1], value.shape[-1]
    if kernels.flash_attention is not None:
        if narrow != wide:  # flash-attn takes one width: Megatron-Core pads values for MLA the same way
            value = functional.pad(value, (0, wide - narrow))
        looks_back = (window - 1, 0) if window is not None else (-1, -1)
        mixed: Tensor = kernels.flash_attention(query, key, value, causal=True, window_size=looks_back)
        return mixed[..., :narrow]
    mask = _window_mask(query.shape[1], window, query.device) if window is not None and window < query.shape[1] else None
    mixed = functional.scaled_dot_product_attention(
        query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2),
        attn_mask=mask, is_causal=mask is None, enable_gqa=query.shape[2] != key.shape[2],
    )
    return mixed.transpose(1, 2)


@lru_cache(maxsize=4)
def _window_mask(positions: int, window: int, device: torch.device) -> Tensor:
    """Which keys each query sees, [positions, positions]."""
    distance = torch.arange(positions, device=device)[:, None] - torch.arange(positions, device=device)[None, :]
    return (distance >= 0) & (distance < window)
