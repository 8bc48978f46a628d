"""The memory of one recipe: integers per rank and component, each with the formula it came from."""

from __future__ import annotations

import numpy as np

from projectors.columns import Columns, Quantity
from projectors.inputs.framework import overhead_of
from projectors.inputs.hardware import MIB, HardwareProfile
from projectors.inputs.model_card import ModelCard
from projectors.inputs.recipe import Recompute
from projectors.memory.overhead import communicators, device_ends
from projectors.memory.parts import read_parts
from projectors.memory.ranks import RankBytes, rank_bytes
from projectors.memory.state import FP8_CASTS_PER_WEIGHT, shard_sizes, state_bytes
from projectors.results import MemoryBreakdown, MemoryComponent, RankMemory
from projectors.stages import StagePlan
from projectors.text import bytes_text, count_text
from projectors.workload.model import ModelPart


def memory_breakdown(
    card: ModelCard, hardware: HardwareProfile, columns: Columns, plan: StagePlan, model: tuple[ModelPart, ...], margin: float
) -> MemoryBreakdown:
    """Memory of one legal recipe (scalar columns) on every pipeline rank, with `margin` of the capacity kept free.

    `model`: the parts of the model under these columns, with the plan's layer kinds.
    """
    found = rank_bytes(card, hardware, columns, plan, read_parts(card, model, columns, 1))
    low, high = device_ends(card, hardware, columns, found.overhead)
    ranks = []
    for rank in range(plan.ranks):
        nbytes = {component: int(np.ceil(values[rank, 0])) for component, values in found.components.items()}
        formulas = _formulas(hardware, columns, plan, found, rank, nbytes)
        parameters = int(found.dense_parameters[rank, 0] + found.expert_parameters[rank, 0])
        kept = tuple(found.chunk_bytes[rank, :, 0].tolist())
        beside = found.overhead
        ranks.append(RankMemory(
            rank, nbytes, formulas, float(found.in_flight[rank, 0]), parameters,
            allocated=int(beside.allocated[rank, 0]),
            reserved=int(beside.reserved[rank, 0]),
            low=int(low[rank, 0]),
            high=int(high[rank, 0]),
            chunk_bytes=kept,
        ))
    return MemoryBreakdown(tuple(ranks), hardware.capacity_bytes, margin)


def _formulas(
    hardware: HardwareProfile, columns: Columns, plan: StagePlan, found: RankBytes, rank: int, nbytes: dict[MemoryComponent, int]
) -> dict[MemoryComponent, str]:
    """Where each number comes from, in the terms of the recipe."""
    each = state_bytes(columns)
    dense, expert = found.dense_parameters[rank, 0], found.expert_parameters[rank, 0]
    framework = overhead_of(columns.framework, hardware)
    sharding = columns.sharding
    casts = columns.fp8 and not sharding.parameters
    moments = str(each.matrix_moments)
    if each.matrix_moments != each.other_moments:
        moments = f"{each.matrix_moments} (matrices) or {each.other_moments}"
    state = f"({each.master} B master + {moments} B moments)"
    allocated = sum(size for component, size in nbytes.items() if component is not MemoryComponent.FRAMEWORK)
    return {
        MemoryComponent.PARAMETERS: _sharded(columns, dense, expert, f"{each.weight} B", sharded=sharding.parameters)
        + _if(casts, f" + {FP8_CASTS_PER_WEIGHT} cached fp8 casts of {columns.operand_bytes:.4g} B per layer weight"),
        MemoryComponent.GRADIENTS: _sharded(columns, dense, expert, f"{each.gradient} B", sharded=sharding.gradients),
        MemoryComponent.OPTIMIZER: _sharded(columns, dense, expert, state, sharded=sharding.optimizer)
        + _if(columns.offload_optimizer, f" × {1 - columns.offload_optimizer:.0%} on the GPU"),
        MemoryComponent.ACTIVATIONS: (
            f"{_live(found, plan, rank)}; {_recompute(columns)}; {columns.tokens:,} tokens per microbatch"
        ),
        MemoryComponent.LOGITS: _logits(columns, nbytes[MemoryComponent.LOGITS]),
        MemoryComponent.COMMUNICATION_BUFFERS: (
            f"{int(communicators(columns))} communicators × {framework.communicator_mib:g} MiB"
            + _if(plan.ranks > 1, " + pipeline receive buffers")
            + _if(sharding.parameters, " + gathered weights of two layers")
            + _if(sharding.gradients, " + one layer's gradients")
        ),
        MemoryComponent.TEMPORARY: "largest input and output gradients of one operator"
        + _if(columns.recompute is not Recompute.NONE, " + what recompute makes again in one layer"),
        MemoryComponent.FRAMEWORK: (
            f"{framework.context_gib:g} GiB context + {found.overhead.workspace / MIB:g} MiB workspaces and buffers + "
            f"{framework.fragmentation:.0%} fragmentation of {bytes_text(allocated)}"
        ),
    }


def _if(condition: object, text: str) -> str:
    return text if condition else ""


def _logits(columns: Columns, nbytes: int) -> str:
    if not nbytes:
        return "the head is on another rank"
    kept = "logits" if columns.cross_entropy_fusion else "fp32 softmax of the logits"
    return f"{kept} of each live microbatch, {columns.tokens:,} tokens × vocabulary / tp"


def _sharded(columns: Columns, dense: float, expert: float, per_parameter: str, *, sharded: bool) -> str:
    """`bytes × (dense / ranks + experts / ranks)` with the numbers."""
    dense_shards, expert_shards = shard_sizes(columns)

    def share(number: float, what: str, ranks: Quantity) -> str:
        return f"{count_text(number)} {what}" + (f" / {int(ranks)}" if sharded and int(ranks) > 1 else "")

    terms = [share(dense, "dense", dense_shards)] + ([share(expert, "expert", expert_shards)] if expert else [])
    return f"{per_parameter} × " + (f"({' + '.join(terms)})" if len(terms) > 1 else terms[0]) + " parameters"


def _live(found: RankBytes, plan: StagePlan, rank: int) -> str:
    """Live microbatches of each chunk of a rank, and its layers."""
    layers = [_layers_text(plan, int(stage)) for stage in plan.stages_of[rank]]
    live = [int(number) for number in found.live[rank, :, 0]]
    if len(set(zip(live, layers, strict=True))) == 1:
        chunks = f"{plan.chunks} chunks of " if plan.chunks > 1 else ""
        return f"{live[0]} microbatch{'es' if live[0] != 1 else ''} in flight × {chunks}{layers[0]}"
    return " + ".join(f"{number} × ({what})" for number, what in zip(live, layers, strict=True)) + " in flight"


def _layers_text(plan: StagePlan, stage: int) -> str:
    """Layers of each kind on one virtual stage, such as `14 MoE layers`."""
    counts = zip(plan.kinds, plan.layer_counts[stage].tolist(), strict=True)
    return " + ".join(f"{number} {kind.label}{'s' if number > 1 else ''}" for kind, number in counts if number) or "no layer"


def _recompute(columns: Columns) -> str:
    if columns.recompute is Recompute.NONE:
        return "nothing recomputed"
    if columns.recompute is Recompute.SELECTIVE:
        return "recomputed: " + ", ".join(module.value for module in columns.modules_recomputed)
    layers = "every layer" if columns.recompute_num_layers is None else f"{columns.recompute_num_layers} layers per virtual stage"
    return f"only the input of {layers} kept"
