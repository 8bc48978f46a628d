"""Seconds of a collective over a group: the applicable algorithms, each by name, and the fastest of them.

Every algorithm is start-up + hops + bytes over bandwidth, summed over the tiers that the group spans (the Hockney model;
Thakur, Rabenseifner and Gropp, 2005, for ring and logarithmic algorithms). Tiers work on one tensor at the same time,
chunk by chunk, so the slowest tier sets the pace.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from projectors.columns import Quantity, at_least, at_most
from projectors.communication.groups import Group, Level, Network
from projectors.inputs.hardware import Vendor
from projectors.workload.operators import CollectiveKind


@dataclass(frozen=True, slots=True)
class Protocol:
    """How a collective library moves data: start-up, cost of a hop over the wire latency, share of the bandwidth."""

    name: str
    start: float       # seconds
    hop: float         # times the tier's latency
    bandwidth: float


NCCL_PROTOCOLS = (
    Protocol("LL", 6.6e-6, 1.0, 0.5),            # 4 bytes of data for each 4-byte flag
    Protocol("LL128", 14.0e-6, 3.2, 120 / 128),  # 120 of 128 bytes are data
    Protocol("Simple", 8.4e-6, 5.7, 1.0),
)
"""NCCL's ring start-up and NVLink hop latencies relative to LL's 0.6 us (NVIDIA/nccl src/graph/tuning.cc)."""

RCCL_PROTOCOLS = (
    Protocol("LL", 12.0e-6, 1.0, 0.5),
    Protocol("Simple", 17.0e-6, 2.6, 1.0),
)
"""RCCL's ring start-up and xGMI hop latencies relative to LL's 0.8 us on gfx94x (ROCm/rccl src/graph/tuning.cc)."""

TIERS_IN_STEP = 0.9
"""Part of the faster tiers' time that hides behind the slowest tier of a hierarchical collective (Primus, ar_overlap_factor)."""

TREE_BANDWIDTH = 0.85
"""Bandwidth of a tree over a ring's: H200, 4 nodes, 310 against 365 GB/s (stas00/ml-engineering, network/README.md)."""

IN_NETWORK_START = 25e-6
"""Start-up of an all-reduce inside the switch (NVLS), seconds (NVIDIA/nccl src/graph/tuning.cc)."""

ALL_TO_ALL_BANDWIDTH = 0.93
"""Bandwidth of an all-to-all over a gather of the same size inside a node: A100 203 of 209 GB/s, H100 315 of 336, B200
563 of 615, GB200 488 of 556 (ai-dynamo/aiconfigurator nccl-tests rows, 512 MB)."""

PEER_SECONDS = 0.45e-6
"""Host and card time to post one all-to-all message to a peer outside the innermost tier (Primus, a2a_peer_lat)."""


def collective_seconds(kind: CollectiveKind, nbytes: Quantity, group: Group, network: Network) -> Quantity:
    """Seconds of the fastest algorithm; 0 for a group of one or nothing to move. `nbytes` as `Collective` defines it."""
    if not isinstance(group.size, np.ndarray) and group.size <= 1:
        return 0.0
    if not isinstance(nbytes, np.ndarray) and nbytes <= 0:
        return 0.0
    times = algorithms(kind, nbytes, group, network)
    best: Quantity = next(times)[1]
    for _, seconds in times:
        best = at_most(best, seconds)
    if isinstance(group.size, np.ndarray) or isinstance(nbytes, np.ndarray):
        return best * ((np.asarray(group.size) > 1) & (np.asarray(nbytes) > 0))
    return best


def fastest(kind: CollectiveKind, nbytes: float, group: Group, network: Network) -> tuple[str, float]:
    """(name, seconds) of the algorithm and protocol that one group of more than one GPU would use."""
    name, seconds = min(algorithms(kind, nbytes, group, network), key=lambda named: float(named[1]))
    return name, float(seconds)


def bus_bandwidth(kind: CollectiveKind, nbytes: float, size: int, seconds: float) -> float:
    """Bytes/s over the links, comparable between group sizes (NVIDIA/nccl-tests doc/PERFORMANCE.md); a send's own rate."""
    match kind:
        case CollectiveKind.ALL_REDUCE:
            factor = 2 * (size - 1) / size
        case CollectiveKind.SEND_RECEIVE:
            factor = 1.0
        case CollectiveKind.RING_EXCHANGE:
            factor = size - 1.0
        case _:
            factor = (size - 1) / size
    return factor * nbytes / seconds


def algorithms(kind: CollectiveKind, nbytes: Quantity, group: Group, network: Network) -> Iterator[tuple[str, Quantity]]:
    """(name, seconds) of every algorithm that applies to more than one GPU."""
    match kind:
        case CollectiveKind.ALL_GATHER | CollectiveKind.REDUCE_SCATTER:
            yield from _passes(1, nbytes, group, network)
        case CollectiveKind.ALL_REDUCE:
            yield from _passes(2, nbytes, group, network)
            yield from _one_shot(nbytes, group, network)
            yield from _in_network(nbytes, group, network)
        case CollectiveKind.ALL_TO_ALL:
            yield from _all_to_all(nbytes, group, network)
        case CollectiveKind.RING_EXCHANGE:
            yield "ring", _ring_exchange(nbytes, group, network)
        case CollectiveKind.SEND_RECEIVE:
            yield "send", _slowest_transfer(nbytes, group, network)


def transfer_seconds(nbytes: Quantity, level: Level, network: Network) -> Quantity:
    """One message between two GPUs of a tier, every other GPU doing the same: one link of a mesh, one share of the cards."""
    links = level.mesh_ways - 1 if level.mesh_ways > 1 else 1
    times = [
        protocol.start + protocol.hop * level.latency + nbytes / (level.bandwidth / links * protocol.bandwidth)
        for protocol in _protocols(network)
    ]
    best = times[0]
    for seconds in times[1:]:
        best = at_most(best, seconds)
    return best


def group_bandwidth(level: Level, fanout: Quantity) -> Quantity:
    """Bytes/s of one member: on a mesh only the links towards other members carry anything."""
    if level.mesh_ways <= 1:
        return level.bandwidth
    return level.bandwidth * at_least(fanout - 1, 1) / (level.mesh_ways - 1)


def _protocols(network: Network) -> tuple[Protocol, ...]:
    return RCCL_PROTOCOLS if network.vendor is Vendor.AMD else NCCL_PROTOCOLS


def _volumes(nbytes: Quantity, group: Group, network: Network) -> list[Quantity]:
    """Seconds per tier of one gather or one scatter at full bandwidth: each tier works on what the tiers inside leave of
    the tensor, through every member's own card (rail by rail)."""
    seconds: list[Quantity] = []
    share = nbytes
    for level, fanout in zip(network.levels, group.fanouts, strict=True):
        seconds.append(share * (fanout - 1) / fanout / group_bandwidth(level, fanout))
        share = share / fanout
    return seconds


def _in_step(seconds: list[Quantity]) -> Quantity:
    """Time of tiers that work chunk by chunk on the same tensor."""
    slowest = total = seconds[0]
    for tier in seconds[1:]:
        slowest, total = at_least(slowest, tier), total + tier
    return slowest + (1 - TIERS_IN_STEP) * (total - slowest)


def _passes(passes: int, nbytes: Quantity, group: Group, network: Network) -> Iterator[tuple[str, Quantity]]:
    """Ring and tree: reduce-scatter or all-gather in one pass, all-reduce in two. Rings hop over every member of a tier,
    trees over the logarithm of their number."""
    wire = passes * _in_step(_volumes(nbytes, group, network))
    ring: Quantity = 0.0
    tree: Quantity = 0.0
    for level, fanout in zip(network.levels, group.fanouts, strict=True):
        ring = ring + (fanout - 1) * level.latency
        tree = tree + _log2(fanout) * level.latency
    for protocol in _protocols(network):
        yield f"ring {protocol.name}", protocol.start + passes * protocol.hop * ring + wire / protocol.bandwidth
        if len(network.levels) > 1:
            slower = wire / (protocol.bandwidth * TREE_BANDWIDTH)
            yield f"tree {protocol.name}", protocol.start + passes * protocol.hop * tree + slower


def _one_shot(nbytes: Quantity, group: Group, network: Network) -> Iterator[tuple[str, Quantity]]:
    """Small all-reduce in one exchange: everyone writes everything to every other member, one after another, and reduces
    alone. One tier, LL only."""
    if len(network.levels) > 1 and not _within(group):
        return
    level, protocol = network.levels[0], _protocols(network)[0]
    wire = (group.size - 1) * nbytes / (group_bandwidth(level, group.fanouts[0]) * protocol.bandwidth)
    yield "one-shot", protocol.start + (group.size - 1) * protocol.hop * level.latency + wire


def _in_network(nbytes: Quantity, group: Group, network: Network) -> Iterator[tuple[str, Quantity]]:
    """All-reduce inside the switch of the innermost tier (NVLS), rings beyond it.

    A member sends its tensor once and its reduced share once: (g + 1) / g of the tensor instead of 2 (g - 1) / g.
    """
    level, members = network.levels[0], group.fanouts[0]
    if level.in_network_efficiency is None:
        return
    outer = [2 * seconds for seconds in _volumes(nbytes, group, network)[1:]]
    hops: Quantity = level.latency
    for beyond, fanout in zip(network.levels[1:], group.fanouts[1:], strict=True):
        hops = hops + 2 * _log2(fanout) * beyond.latency
    inner = nbytes * (members + 1) / members / (level.bandwidth * level.in_network_efficiency)
    yield "in-network", IN_NETWORK_START + _protocols(network)[-1].hop * hops + _in_step([inner, *outer])


def _all_to_all(nbytes: Quantity, group: Group, network: Network) -> Iterator[tuple[str, Quantity]]:
    """Every member sends its share straight to every other; tiers carry their part at the same time."""
    block = nbytes / group.size
    reached: Quantity = 1
    wire: Quantity = 0.0
    latency: Quantity = 0.0
    for level, fanout in zip(network.levels, group.fanouts, strict=True):
        peers = reached * (fanout - 1)
        bandwidth = group_bandwidth(level, fanout) * (ALL_TO_ALL_BANDWIDTH if level is network.levels[0] else 1.0)
        wire = at_least(wire, block * peers / bandwidth)
        latency = at_least(latency, level.latency * (fanout > 1))
        reached = reached * fanout
    posting = PEER_SECONDS * (group.size - group.fanouts[0])
    for protocol in _protocols(network):
        yield f"direct {protocol.name}", protocol.start + protocol.hop * latency + posting + wire / protocol.bandwidth


def _ring_exchange(nbytes: Quantity, group: Group, network: Network) -> Quantity:
    """A block passes round the ring: size - 1 messages, each as slow as the slowest link of the ring."""
    return (group.size - 1) * _slowest_transfer(nbytes, group, network)


def _slowest_transfer(nbytes: Quantity, group: Group, network: Network) -> Quantity:
    slowest: Quantity = 0.0
    for level, fanout in zip(network.levels, group.fanouts, strict=True):
        slowest = at_least(slowest, transfer_seconds(nbytes, level, network) * (fanout > 1))
    return slowest


def _within(group: Group) -> bool:
    """Whether the group lies inside one innermost domain (arrays: every recipe's)."""
    return bool(np.all(np.asarray(group.fanouts[0]) == group.size))


def _log2(fanout: Quantity) -> Quantity:
    return np.ceil(np.log2(fanout)) if isinstance(fanout, np.ndarray) else float((int(fanout) - 1).bit_length())
