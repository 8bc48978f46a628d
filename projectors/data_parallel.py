"""Gradients reduced and parameters gathered once a step: seconds per rank, and what the schedule leaves exposed of them."""

from __future__ import annotations

from dataclasses import dataclass

from projectors.columns import Columns
from projectors.communication.collectives import collective_seconds
from projectors.communication.groups import Group, spread
from projectors.communication.overlap import bucketed_exposed
from projectors.compute.layer import Machine
from projectors.inputs.recipe import Sharding
from projectors.memory.state import state_bytes
from projectors.workload.operators import Axis, CollectiveKind


@dataclass(frozen=True, slots=True)
class RankWork:
    """What a pipeline rank has for one step, on one of its GPUs."""

    dense: float            # parameters replicated over dp x cp
    expert: float           # parameters replicated over expert dp
    forward: float          # seconds of one microbatch' forward passes, all chunks
    backward: float         # seconds of one microbatch' backward passes, all chunks, weight gradients included
    starts: float           # when its first pass starts
    ends: float             # when its last pass ends
    forward_traffic: float = 0.0   # of `forward`, seconds in which other collectives fill the links that replicas need
    backward_traffic: float = 0.0


def exposed_data_parallel(work: list[RankWork], machine: Machine, columns: Columns, makespan: float) -> float:
    """Seconds that a step takes beyond its makespan because of gradient reduction and parameter gathering.

    A link carries what it carries once: while other collectives fill the outermost tier that replicas are apart, reduction and
    gathering wait, which takes as long as sharing it fairly does (`ClusterSpec.contention` turns it off).

    A rank that ends early reduces while others still work, and one that starts late gathers before; the last to be done
    and the last to begin count.
    """
    late_start = late_end = 0.0
    for rank in work:
        gather, reduce = _rank_exposed(rank, machine, columns)
        late_start = max(late_start, gather - rank.starts)
        late_end = max(late_end, reduce - (makespan - rank.ends))
    return late_start + late_end


def _rank_exposed(rank: RankWork, machine: Machine, columns: Columns) -> tuple[float, float]:
    """Exposed parameter gathering before and gradient reduction after the passes of one rank."""
    replicas = float(columns.dp * columns.cp)
    parameters = rank.dense + rank.expert
    gather, reduce = reduction_seconds(rank.dense, rank.expert, machine, columns)
    if columns.overlap_param_gather:
        gather = bucketed_exposed(gather, parameters, replicas, rank.forward - rank.forward_traffic, columns)
    if columns.overlap_grad_reduce:
        reduce = bucketed_exposed(reduce, parameters, replicas, rank.backward - rank.backward_traffic, columns)
    if columns.sharding is Sharding.ZERO2:  # sharded gradients cannot wait for the last microbatch
        reduce = reduce * float(columns.microbatches)
    return gather, reduce


def reduction_seconds(dense: float, expert: float, machine: Machine, columns: Columns) -> tuple[float, float]:
    """Parameter gathering and gradient reduction of a rank, overlap aside."""
    gather = reduce = 0.0
    for transfer in transfers(dense, expert, machine, columns):
        seconds = float(collective_seconds(transfer.kind, transfer.nbytes, transfer.group, machine.network))
        if transfer.kind is CollectiveKind.ALL_GATHER:
            gather += seconds
        else:
            reduce += seconds
    return gather, reduce


@dataclass(frozen=True, slots=True)
class Transfer:
    """One collective over replicas; `nbytes` as `Collective` defines it."""

    axis: Axis
    kind: CollectiveKind
    nbytes: float
    group: Group


def transfers(dense: float, expert: float, machine: Machine, columns: Columns) -> list[Transfer]:
    """Gradient reduction and parameter gathering of a rank.

    Gradients travel in `grad_reduce_dtype`: reduce-scattered and followed by a gather of the weights where the optimizer is
    sharded (ZeRO, arXiv:1910.02054), else all-reduced. With sharded parameters the microbatches did that already; hsdp
    still all-reduces its shards between replicas.
    """
    each = state_bytes(columns)
    found: list[Transfer] = []
    for axis, elements in ((Axis.DP, dense), (Axis.EXPERT_DP, expert)):
        group = machine.groups[axis]
        if columns.sharding.parameters:
            shard = machine.shard if axis is Axis.DP else machine.expert_shard
            replicas = spread(machine.network, group.size // shard.size, group.stride * shard.size)
            found.append(Transfer(axis, CollectiveKind.ALL_REDUCE, float(elements / shard.size * each.gradient), replicas))
        elif columns.sharding.optimizer:
            found.append(Transfer(axis, CollectiveKind.REDUCE_SCATTER, float(elements * each.gradient), group))
            found.append(Transfer(axis, CollectiveKind.ALL_GATHER, float(elements * each.weight), group))
        else:
            found.append(Transfer(axis, CollectiveKind.ALL_REDUCE, float(elements * each.gradient), group))
    return found
