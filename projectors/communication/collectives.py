"""Seconds of a collective over a group: the applicable algorithms, each by name, and the fastest of them.

Every algorithm is start-up + hops + bytes over bandwidth, summed over the tiers that the group spans (the Hockney model;
Thakur, Rabenseifner and Gropp, 2005, for ring and logarithmic algorithms). Tiers work on one tensor at the same time,
chunk by chunk, so the slowest tier sets the pace.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

import numpy as np

from projectors.columns import Quantity, at_least, at_most
from projectors.communication.groups import Group, Network
from projectors.communication.links import (
    ALL_TO_ALL_BANDWIDTH,
    PROTOCOL_NAMES,
    all_to_all_bandwidth,
    in_step,
    log2_ceil,
    protocols,
    transfer_seconds,
    volumes,
)
from projectors.communication.measured import measured_factor
from projectors.communication.published import published_algorithms
from projectors.workload.operators import CollectiveKind

TREE_BANDWIDTH = 0.85
"""Bandwidth of a tree over a ring's: H200, 4 nodes, 310 against 365 GB/s (stas00/ml-engineering, network/README.md)."""

IN_NETWORK_START = 25e-6
"""Start-up of an all-reduce inside the switch (NVLS), seconds (NVIDIA/nccl src/graph/tuning.cc)."""

PEER_SECONDS = 0.45e-6
"""Host and card time to post one all-to-all message to a peer outside the innermost tier (Primus, a2a_peer_lat)."""


def collective_seconds(kind: CollectiveKind, nbytes: Quantity, group: Group, network: Network) -> Quantity:
    """Seconds of the fastest algorithm; 0 for a group of one or nothing to move. `nbytes` as `Collective` defines it."""
    if not isinstance(group.size, np.ndarray) and group.size <= 1:
        return 0.0
    if not isinstance(nbytes, np.ndarray) and nbytes <= 0:
        return 0.0
    best = _simulated(kind, nbytes, group, network)
    if network.measured:
        best = best * measured_factor(kind, nbytes, network, _simulated)
    if isinstance(group.size, np.ndarray) or isinstance(nbytes, np.ndarray):
        return best * ((np.asarray(group.size) > 1) & (np.asarray(nbytes) > 0))
    return best


def _simulated(kind: CollectiveKind, nbytes: Quantity, group: Group, network: Network) -> Quantity:
    if isinstance(nbytes, np.ndarray) or any(isinstance(part, np.ndarray) for part in (group.size, *group.fanouts)):
        return _least(kind, nbytes, group, network)
    return _remembered(kind, nbytes, group, network)


def _least(kind: CollectiveKind, nbytes: Quantity, group: Group, network: Network) -> Quantity:
    times = algorithms(kind, nbytes, group, network)
    best: Quantity = next(times)[1]
    for _, seconds in times:
        best = at_most(best, seconds)
    return best


_remembered = lru_cache(maxsize=4096)(_least)
"""Edits and candidates share most of their collectives."""


def fastest(kind: CollectiveKind, nbytes: float, group: Group, network: Network) -> tuple[str, float]:
    """(name, seconds) of the algorithm and protocol that one group of more than one GPU would use."""
    name, seconds = min(algorithms(kind, nbytes, group, network), key=lambda named: float(named[1]))
    return name, float(seconds * measured_factor(kind, nbytes, network, _simulated))


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
    """(name, seconds) of every algorithm that applies to more than one GPU: those of the vendor's library, and where the
    network allows every one those of `published.py` too."""
    yield from _library(kind, nbytes, group, network)
    if network.every_algorithm:
        yield from published_algorithms(kind, nbytes, group, network)


@lru_cache(maxsize=1024)
def alternatives(kind: CollectiveKind, nbytes: float, group: Group, network: Network) -> tuple[tuple[str, float], ...]:
    """(name, seconds) of the algorithms of the library and of the published ones, fastest first; of each its best protocol."""
    every = replace(network, every_algorithm=True)
    best: dict[str, float] = {}
    for name, seconds in algorithms(kind, nbytes, group, every):
        plain = name.rsplit(" ", 1)[0] if name.endswith(PROTOCOL_NAMES) else name
        best[plain] = min(best.get(plain, np.inf), float(seconds))
    applicable = ((name, seconds) for name, seconds in best.items() if seconds < np.inf)
    return tuple(sorted(applicable, key=lambda named: named[1]))


def _library(kind: CollectiveKind, nbytes: Quantity, group: Group, network: Network) -> Iterator[tuple[str, Quantity]]:
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


def _passes(passes: int, nbytes: Quantity, group: Group, network: Network) -> Iterator[tuple[str, Quantity]]:
    """Ring and tree: reduce-scatter or all-gather in one pass, all-reduce in two. Rings hop over every member of a tier,
    trees over the logarithm of their number; in one pass that is Bruck's order, which NCCL calls PAT (2.23 release notes).
    On a tier wired as a ring both directions are used."""
    wire = passes * in_step(volumes(nbytes, group, network))
    ring: Quantity = 0.0
    tree: Quantity = 0.0
    for level, fanout in zip(network.levels, group.fanouts, strict=True):
        ring = ring + (fanout - 1) * level.latency
        tree = tree + log2_ceil(fanout) * level.latency
    rings = "hierarchical ring" if _tiers_crossed(group) > 1 else "ring"
    trees = "tree" if passes > 1 else "Bruck"
    for protocol in protocols(network):
        yield f"{rings} {protocol.name}", protocol.start + passes * protocol.hop * ring + wire / protocol.bandwidth
        if len(network.levels) > 1:
            slower = wire / (protocol.bandwidth * TREE_BANDWIDTH)
            yield f"{trees} {protocol.name}", protocol.start + passes * protocol.hop * tree + slower


def _one_shot(nbytes: Quantity, group: Group, network: Network) -> Iterator[tuple[str, Quantity]]:
    """Small all-reduce in one exchange: everyone writes everything to every other member, one after another, and reduces
    alone. One tier, LL only."""
    if len(network.levels) > 1 and not _within(group):
        return
    level, protocol = network.levels[0], protocols(network)[0]
    wire = (group.size - 1) * nbytes / (all_to_all_bandwidth(level, group.fanouts[0]) * protocol.bandwidth)
    yield "one-shot", protocol.start + (group.size - 1) * protocol.hop * level.latency + wire


def _in_network(nbytes: Quantity, group: Group, network: Network) -> Iterator[tuple[str, Quantity]]:
    """All-reduce inside the switch of the innermost tier (NVLS), rings beyond it.

    A member sends its tensor once and its reduced share once: (g + 1) / g of the tensor instead of 2 (g - 1) / g.
    """
    level, members = network.levels[0], group.fanouts[0]
    if level.in_network_efficiency is None:
        return
    outer = [2 * seconds for seconds in volumes(nbytes, group, network)[1:]]
    hops: Quantity = level.latency
    for beyond, fanout in zip(network.levels[1:], group.fanouts[1:], strict=True):
        hops = hops + 2 * log2_ceil(fanout) * beyond.latency
    inner = nbytes * (members + 1) / members / (level.bandwidth * level.in_network_efficiency)
    yield "in-network", IN_NETWORK_START + protocols(network)[-1].hop * hops + in_step([inner, *outer])


def _all_to_all(nbytes: Quantity, group: Group, network: Network) -> Iterator[tuple[str, Quantity]]:
    """Every member sends its share straight to every other; tiers carry their part at the same time."""
    block = nbytes / group.size
    reached: Quantity = 1
    wire: Quantity = 0.0
    latency: Quantity = 0.0
    for level, fanout in zip(network.levels, group.fanouts, strict=True):
        peers = reached * (fanout - 1)
        bandwidth = all_to_all_bandwidth(level, fanout) * (ALL_TO_ALL_BANDWIDTH if level is network.levels[0] else 1.0)
        wire = at_least(wire, block * peers / bandwidth)
        latency = at_least(latency, level.latency * (fanout > 1))
        reached = reached * fanout
    posting = PEER_SECONDS * (group.size - group.fanouts[0])
    for protocol in protocols(network):
        yield f"direct {protocol.name}", protocol.start + protocol.hop * latency + posting + wire / protocol.bandwidth


def _ring_exchange(nbytes: Quantity, group: Group, network: Network) -> Quantity:
    """A block passes round the ring: size - 1 messages, each as slow as the slowest link of the ring."""
    return (group.size - 1) * _slowest_transfer(nbytes, group, network)


def _slowest_transfer(nbytes: Quantity, group: Group, network: Network) -> Quantity:
    slowest: Quantity = 0.0
    for level, fanout in zip(network.levels, group.fanouts, strict=True):
        slowest = at_least(slowest, transfer_seconds(nbytes, level, network) * (fanout > 1))
    return slowest


def _tiers_crossed(group: Group) -> int:
    """How many tiers carry anything (arrays: for any recipe)."""
    return sum(bool(np.any(fanout > 1)) if isinstance(fanout, np.ndarray) else fanout > 1 for fanout in group.fanouts)


def _within(group: Group) -> bool:
    """Whether the group lies inside one innermost domain (arrays: every recipe's)."""
    inside = group.fanouts[0] == group.size
    return bool(inside.all()) if isinstance(inside, np.ndarray) else bool(inside)
