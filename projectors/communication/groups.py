"""Which GPUs form a group, and how a group spreads over the network's tiers.

Rank order is Megatron-Core's tp-cp-dp-pp, tp innermost; the expert layers of the same GPUs are ordered etp-ep-edp-pp. Every
group is then an arithmetic progression of ranks, given by its size and its stride.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from projectors.columns import Columns, Quantity, at_least
from projectors.inputs.cluster import Algorithms, ClusterSpec, Tier, Topology
from projectors.inputs.hardware import Vendor
from projectors.workload.operators import Axis

if TYPE_CHECKING:
    from projectors.communication.measured import MeasuredLine

GIGA = 1e9
MICRO = 1e-6


@dataclass(frozen=True, slots=True)
class Level:
    """One network tier as collectives see it."""

    name: str
    domain: int                             # GPUs of this job in one domain
    bandwidth: float                        # bytes/s per GPU and direction that collectives reach with every link in use
    latency: float                          # seconds of one hop
    mesh_ways: int                          # members of a full mesh, whose links are used only towards members; 0 = no mesh
    in_network_efficiency: float | None     # reduction inside the switch, over `bandwidth`; None = the tier has none
    ring: bool = False                      # wired to two neighbors only, half the bandwidth to each


@dataclass(frozen=True, slots=True)
class Network:
    """A cluster's tiers from the inside out, the last one holding the whole job."""

    levels: tuple[Level, ...]
    vendor: Vendor
    every_algorithm: bool = False           # also those that the vendor's library does not have
    measured: tuple[MeasuredLine, ...] = ()  # collectives that were timed on the innermost tier


@dataclass(frozen=True, slots=True)
class Group:
    """Ranks base, base + stride, ...; `fanouts[i]`: how many domains of tier i-1 (for i = 0: GPUs) it joins in one of tier i.

    The product of the fan-outs is the size.
    """

    size: Quantity
    stride: Quantity
    fanouts: tuple[Quantity, ...]


def network_of(cluster: ClusterSpec) -> Network:
    """The tiers that a job on the whole cluster meets, innermost first."""
    network = network_of_tiers(cluster.tiers, cluster.nodes, cluster.gpus_per_node, cluster.hardware.vendor)
    return replace(network, every_algorithm=cluster.algorithms is Algorithms.ALL)


def network_of_tiers(tiers: tuple[Tier, ...], nodes: int, gpus_per_node: int, vendor: Vendor) -> Network:
    """The same from a cluster's parts."""
    levels: list[Level] = []
    gpus = nodes * gpus_per_node
    for tier in tiers:
        if levels and levels[-1].domain == gpus:
            break
        levels.append(
            Level(
                name=tier.name,
                domain=domain_gpus(tier.size, nodes, gpus_per_node),
                bandwidth=tier.bandwidth_gb_s * GIGA * tier.efficiency / tier.oversubscription,
                latency=tier.latency_us * MICRO,
                mesh_ways=(tier.size or gpus) if tier.topology is Topology.MESH else 0,
                in_network_efficiency=tier.in_network_efficiency,
                ring=tier.topology is Topology.RING,
            )
        )
    return Network(tuple(levels), vendor)


def domain_gpus(size: int | None, nodes: int, gpus_per_node: int) -> int:
    """GPUs of the job in one domain of a tier that holds `size`.

    A job that needs several domains takes equally many nodes of each (256 GPUs on racks of 72: 64 of each rack), as
    topology-aware schedulers place it.
    """
    if size is None or size >= nodes * gpus_per_node:
        return nodes * gpus_per_node
    if size <= gpus_per_node:
        return size
    return max(count * gpus_per_node for count in range(1, size // gpus_per_node + 1) if nodes % count == 0)


def members_per_domain(size: Quantity, stride: Quantity, domain: int) -> Quantity:
    """Fewest members that any domain touched by a group of this kind holds; exact when groups and domains nest.

    The groups of one kind tile blocks of size * stride ranks, so blocks and domains share boundaries every
    gcd(size * stride, domain) ranks.
    """
    span = size * stride
    common: Quantity = np.gcd(span, domain) if isinstance(span, np.ndarray) else math.gcd(int(span), domain)
    return at_least(common // stride, 1)


def spread(network: Network, size: Quantity, stride: Quantity) -> Group:
    """A group of `size` ranks, `stride` apart, over the tiers."""
    fanouts: list[Quantity] = []
    inside: Quantity = 1
    for level in network.levels:
        members = size
        if level is not network.levels[-1]:
            members = at_least(members_per_domain(size, stride, level.domain), inside)
        fanouts.append(_divided(members, inside))
        inside = members
    return Group(size, stride, tuple(fanouts))


def _divided(members: Quantity, inside: Quantity) -> Quantity:
    """How many inner domains make up the members; whole for single recipes whose domains nest."""
    if isinstance(members, np.ndarray) or isinstance(inside, np.ndarray) or members % inside:
        return members / inside
    return members // inside


def size_and_stride(columns: Columns, axis: Axis) -> tuple[Quantity, Quantity]:
    """Members of an axis' group and the distance between their ranks."""
    tp, cp, ep, etp = columns.tp, columns.cp, columns.ep, columns.etp
    match axis:
        case Axis.TP:
            return tp, 1
        case Axis.CP:
            return cp, tp
        case Axis.DP:  # dense gradients and parameters: data parallel x context parallel, on every copy along the pipeline
            return columns.dp * cp * columns.schedule.copies, tp
        case Axis.PP:
            return columns.pp, columns.gpus // columns.pp
        case Axis.ETP:
            return etp, 1
        case Axis.EP:
            return ep, etp
        case Axis.EXPERT_DP:
            return columns.expert_dp * columns.schedule.copies, etp * ep


def group_of(columns: Columns, network: Network, axis: Axis) -> Group:
    """The group of an axis, spread over the tiers."""
    return spread(network, *size_and_stride(columns, axis))


def members(columns: Columns, axis: Axis, rank: int) -> Sequence[int]:
    """Ranks of the group of an axis that holds `rank`, in ascending order; of one recipe."""
    size, stride = (int(extent) for extent in size_and_stride(columns, axis))
    if columns.schedule.copies == 1 or axis not in (Axis.DP, Axis.EXPERT_DP):
        return _progression(rank, size, stride)
    block = int(columns.gpus // columns.pp)  # the second copy of a stage is on the opposite rank of the pipeline
    opposite = (int(columns.pp) - 1 - rank // block) * block + rank % block
    halves = (_progression(here, size // columns.schedule.copies, stride) for here in sorted((rank, opposite)))
    return tuple(member for half in halves for member in half)


def _progression(rank: int, size: int, stride: int) -> range:
    first = rank // (size * stride) * size * stride + rank % stride
    return range(first, first + size * stride, stride)


def all_groups(columns: Columns, axis: Axis) -> tuple[Sequence[int], ...]:
    """Every group of an axis, in the order of its first rank."""
    groups: list[Sequence[int]] = []
    seen: set[int] = set()
    for rank in range(columns.gpus):
        if rank not in seen:
            groups.append(members(columns, axis, rank))
            seen.update(groups[-1])
    return tuple(groups)


def sharing(ranks: Sequence[int], domain: int) -> int:
    """How many of a group's ascending ranks share a domain of this many GPUs (a node, a pod) with its first."""
    end = (ranks[0] // domain + 1) * domain
    return bisect_left(ranks, end)


def outermost(group: Group) -> int:
    """Number of the outermost tier that a group of one recipe crosses; -1 for a group of one."""
    return max((number for number, fanout in enumerate(group.fanouts) if fanout > 1), default=-1)


def level_between(network: Network, first: int, second: int) -> Level:
    """The innermost tier that holds both ranks."""
    inner = (level for level in network.levels[:-1] if first // level.domain == second // level.domain)
    return next(inner, network.levels[-1])
