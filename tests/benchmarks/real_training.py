"""Trains a tiny GPT or MoE for real and prints the median time of a step: run by test_real_training.py, under torchrun for two.

Plain PyTorch, apart from the program: DistributedDataParallel, tensor parallelism by DTensor, a pipeline of two stages by
`torch.distributed.pipelining`, experts exchanged by PyTorch's functional all-to-all.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

HIDDEN, FFN, HEADS, KV_HEADS, LAYERS, VOCABULARY = 256, 1024, 8, 4, 4, 4096
EXPERTS, TOP_K, EXPERT_FFN = 4, 2, 512
SEQUENCE, MICROBATCH, MICROBATCHES = 256, 2, 4
WARM_UP, STEPS = 2, 9


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        dim = HIDDEN // HEADS
        self.q, self.k, self.v = (nn.Linear(HIDDEN, heads * dim, bias=False) for heads in (HEADS, KV_HEADS, KV_HEADS))
        self.o = nn.Linear(HIDDEN, HIDDEN, bias=False)
        angles = torch.outer(torch.arange(SEQUENCE).float(), 10_000 ** (-torch.arange(0, dim, 2).float() / dim))
        self.register_buffer("table", torch.stack([angles.cos(), angles.sin()]), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        dim = HIDDEN // HEADS
        q, k, v = (each(x).view(x.shape[0], SEQUENCE, -1, dim).transpose(1, 2) for each in (self.q, self.k, self.v))
        q, k = (self.turned(each) for each in (q, k))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o(mixed.transpose(1, 2).reshape(x.shape[0], SEQUENCE, -1))

    def turned(self, x: Tensor) -> Tensor:
        first, second = x.chunk(2, dim=-1)
        cosine, sine = self.table
        return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


class Dense(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(HIDDEN, FFN, bias=False) for _ in range(2))
        self.down = nn.Linear(FFN, HIDDEN, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Experts(nn.Module):
    """Evenly routed; with two processes each holds half of the experts and tokens travel."""

    def __init__(self, processes: int) -> None:
        super().__init__()
        self.processes, self.local = processes, EXPERTS // processes
        self.router = nn.Linear(HIDDEN, EXPERTS, bias=False)
        self.up = nn.Parameter(torch.randn(self.local, HIDDEN, 2 * EXPERT_FFN) * 0.02)
        self.down = nn.Parameter(torch.randn(self.local, EXPERT_FFN, HIDDEN) * 0.02)

    def forward(self, x: Tensor) -> Tensor:
        flat = x.reshape(-1, HIDDEN)
        tokens = flat.shape[0]
        scores = self.router(flat).float().softmax(-1)
        chosen = (torch.arange(tokens * TOP_K) % EXPERTS).view(tokens, TOP_K)
        order = chosen.flatten().argsort(stable=True)
        rows = flat.index_select(0, order // TOP_K)
        each = tokens * TOP_K // EXPERTS
        if self.processes > 1:
            rows = travel(rows)
            rows = rows.view(self.processes, self.local, each, HIDDEN).transpose(0, 1).reshape(self.local, -1, HIDDEN)
        else:
            rows = rows.view(self.local, each, HIDDEN)
        worked = torch.stack([self.expert(index, part) for index, part in enumerate(rows)])
        if self.processes > 1:
            worked = worked.view(self.local, self.processes, each, HIDDEN).transpose(0, 1).reshape(-1, HIDDEN)
            worked = travel(worked)
        weights = scores.gather(1, chosen).flatten().index_select(0, order)[:, None]
        out = torch.zeros_like(flat).index_add(0, order // TOP_K, worked.reshape(-1, HIDDEN) * weights)
        return out.view_as(x)

    def expert(self, index: int, rows: Tensor) -> Tensor:
        gate, up = (rows @ self.up[index]).chunk(2, dim=-1)
        return (F.silu(gate) * up) @ self.down[index]


def travel(rows: Tensor) -> Tensor:
    from torch.distributed._functional_collectives import all_to_all_single_autograd

    half = [rows.shape[0] // 2] * 2
    return all_to_all_single_autograd(rows.contiguous(), half, half, dist.group.WORLD)


class Block(nn.Module):
    def __init__(self, experts: int) -> None:
        super().__init__()
        self.first, self.second = nn.RMSNorm(HIDDEN), nn.RMSNorm(HIDDEN)
        self.attention = Attention()
        self.mlp: nn.Module = Experts(experts) if experts else Dense()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.first(x))
        return x + self.mlp(self.second(x))


class Model(nn.Module):
    """The whole model, or the stage of a pipeline of two."""

    def __init__(self, experts: int = 0, stage: int | None = None) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, HIDDEN) if stage != 1 else None
        self.blocks = nn.ModuleList([Block(experts) for _ in range(LAYERS // (1 if stage is None else 2))])
        self.norm = nn.RMSNorm(HIDDEN) if stage != 0 else None
        self.head = nn.Linear(HIDDEN, VOCABULARY, bias=False) if stage != 0 else None

    def forward(self, x: Tensor) -> Tensor:
        if self.embedding is not None:
            x = self.embedding(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)) if self.head is not None and self.norm is not None else x


def loss_of(logits: Tensor, tokens: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())


def batches() -> list[Tensor]:
    return [torch.randint(0, VOCABULARY, (MICROBATCH, SEQUENCE)) for _ in range(MICROBATCHES)]


def accumulate(model: nn.Module, quiet: Callable[[], Any] = contextlib.nullcontext, loss: Any = contextlib.nullcontext) -> None:
    data = batches()
    for number, tokens in enumerate(data):
        with quiet() if number < len(data) - 1 else contextlib.nullcontext(), loss():
            loss_of(model(tokens), tokens).backward()


def tensor_parallel(model: Model) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("cpu", (2,))
    parallelize_module(model, mesh, {
        "embedding": RowwiseParallel(input_layouts=Replicate()),
        "head": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False),
    })
    for block in model.blocks:
        plan = {f"attention.{name}": ColwiseParallel() for name in "qkv"} | {"attention.o": RowwiseParallel()}
        plan |= {"mlp.gate": ColwiseParallel(), "mlp.up": ColwiseParallel(), "mlp.down": RowwiseParallel()}
        parallelize_module(block, mesh, plan)


def prepared(how: str) -> tuple[nn.Module, Callable[[], None]]:
    """The model and what a step does before its optimizer."""
    if how in ("dense", "moe"):
        model = Model(experts=1 if how == "moe" else 0)
        return model, lambda: accumulate(model)
    if how == "ddp":
        replica = nn.parallel.DistributedDataParallel(Model())
        return replica, lambda: accumulate(replica, replica.no_sync)
    if how == "tp":
        from torch.distributed.tensor.parallel import loss_parallel

        model = Model()
        tensor_parallel(model)
        return model, lambda: accumulate(model, loss=loss_parallel)
    if how == "ep":
        model = Model(experts=2)

        def step() -> None:
            accumulate(model)
            dense = [each.grad for name, each in model.named_parameters() if not name.endswith(("mlp.up", "mlp.down"))]
            flat = torch.cat([gradient.flatten() for gradient in dense if gradient is not None])
            dist.all_reduce(flat)

        return model, step
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    rank = dist.get_rank()
    stage_model = Model(stage=rank)
    stage = PipelineStage(stage_model, rank, 2, torch.device("cpu"))
    schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=loss_of)

    def pipeline() -> None:
        tokens = torch.cat(batches())
        if rank == 0:
            schedule.step(tokens)
        else:
            schedule.step(target=tokens)

    return stage_model, pipeline


def clip(model: nn.Module) -> None:
    """Scale gradients by their norm over all processes; local shards of DTensors suffice for the time it takes."""
    gradients = [getattr(each.grad, "_local_tensor", each.grad) for each in model.parameters() if each.grad is not None]
    squared = torch.stack([gradient.square().sum() for gradient in gradients]).sum()
    if dist.is_initialized():
        dist.all_reduce(squared)
    scale = (1.0 / (squared.sqrt() + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(scale)


def main(how: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    model, run = prepared(how)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    seconds = []
    for _ in range(WARM_UP + STEPS):
        if dist.is_initialized():
            dist.barrier()
        began = time.perf_counter()
        run()
        clip(model)
        optimizer.step()
        optimizer.zero_grad()
        if dist.is_initialized():
            dist.barrier()
        seconds.append(time.perf_counter() - began)
    if not dist.is_initialized() or dist.get_rank() == 0:
        print("@steps " + json.dumps(seconds[WARM_UP:]), flush=True)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
