"""Times the parts of the reduced model, the optimizer step, and collectives. Runs inside the measuring process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from projectors.benchmark.ends import Embedding, HeadAndLoss
from projectors.benchmark.layers import DecoderLayer, Situation
from projectors.benchmark.timing import sample_of, timed
from projectors.columns import Columns
from projectors.inputs.benchmark_record import MeasuredOptimizer, MeasuredPart, Sample
from projectors.inputs.recipe import Optimizer, Recipe
from projectors.workload.layers import LayerKind

NO_TIME = sample_of([0.0])
"""The input gradient of the embedding: token numbers have none."""


def part_module(at: Situation, kind: LayerKind | str, columns: Columns) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The module of a layer kind, the embedding or the head, and inputs for it; the first takes a gradient where it can."""
    card = at.card
    rows = int(columns.vocabulary(card.vocab_size))
    tokens = torch.arange(at.batch * at.seq_length, device=at.device) % card.vocab_size
    if kind == "Embedding":
        return Embedding(at, rows), (tokens,)
    stream = torch.randn(at.own_tokens, card.hidden_size, dtype=at.dtype, device=at.device, requires_grad=True)
    if isinstance(kind, LayerKind):
        return DecoderLayer(at, kind), (stream,)
    return HeadAndLoss(at, rows, fused_loss=columns.cross_entropy_fusion), (stream, tokens)


def measure_part(
    label: str, module: nn.Module, inputs: tuple[Tensor, ...], at: Situation, *, warm_up: int, repeats: int
) -> MeasuredPart:
    """Forward, whole backward and input gradient of one part, and what it keeps for backward."""
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    stream = inputs[0] if inputs[0].requires_grad else None
    context: Callable[[], AbstractContextManager[Any]] = at.kernels.fp8_context or nullcontext
    outputs: list[Tensor] = []

    def forward() -> None:
        with context():
            outputs[:] = [module(*inputs)]

    def backward() -> None:
        torch.autograd.backward(outputs[0], gradient)

    def input_gradient() -> None:
        assert stream is not None
        torch.autograd.grad(outputs[0], stream, gradient)

    def forget() -> None:
        outputs.clear()
        if stream is not None:
            stream.grad = None

    def anew() -> None:
        forget()
        forward()

    saved = saved_bytes(forward, {parameter.untyped_storage().data_ptr() for parameter in parameters})
    gradient = torch.ones_like(outputs[0])
    reset_peak(at.device)
    times = {"warm_up": warm_up, "repeats": repeats}
    ahead = timed(forward, at.device, **times, between=forget)
    both = timed(backward, at.device, **times, between=anew)
    inner = timed(input_gradient, at.device, **times, between=anew) if stream is not None else NO_TIME
    peak = peak_bytes(at.device)
    return MeasuredPart(part=label, forward=ahead, backward=both, input_gradient=inner, saved_bytes=saved, peak_bytes=peak)


def saved_bytes(forward: Callable[[], object], parameters: set[int]) -> int:
    """Bytes of distinct storages that one forward pass keeps for backward, parameters aside."""
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        forward()
    return sum(kept.values())


def measure_optimizer(
    module: nn.Module, recipe: Recipe, device: torch.device, *, warm_up: int, repeats: int
) -> MeasuredOptimizer:
    """The optimizer step over fp32 copies of the parameters of one part, gradients in place, as mixed precision keeps them.

    Adam, fused on GPUs, for every recipe that trains by Adam or Muon (whose further products are restored analytically);
    momentum otherwise.
    """
    parameters = [nn.Parameter(parameter.detach().float()) for parameter in module.parameters() if parameter.requires_grad]
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    optimizer: torch.optim.Optimizer
    if recipe.optimizer is Optimizer.SGD:
        optimizer = torch.optim.SGD(parameters, lr=1e-4, momentum=0.9)
    else:
        optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=device.type == "cuda" or None)
    step: Sample = timed(optimizer.step, device, warm_up=warm_up, repeats=repeats, between=lambda: None)
    return MeasuredOptimizer(parameters=sum(parameter.numel() for parameter in parameters), step=step)


def reset_peak(device: torch.device) -> None:
    """Start counting the allocator's peak anew."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peak_bytes(device: torch.device) -> int | None:
    """The allocator's peak since; a CPU's allocator keeps none."""
    return int(torch.cuda.max_memory_allocated(device)) if device.type == "cuda" else None
