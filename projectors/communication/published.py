"""Published algorithms that NCCL and RCCL do not take by themselves: what a library or a kernel of one's own could reach.

Start-up and protocols are the vendor library's, so that names compare algorithms and nothing else. An algorithm that does not
apply to a group takes infinitely long.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from projectors.columns import Quantity, at_least
from projectors.communication.groups import Group, Level, Network
from projectors.communication.links import ALL_TO_ALL_BANDWIDTH, all_to_all_bandwidth, in_step, log2_ceil, protocols, volumes
from projectors.workload.operators import CollectiveKind

PASSES = {CollectiveKind.ALL_GATHER: 1, CollectiveKind.REDUCE_SCATTER: 1, CollectiveKind.ALL_REDUCE: 2}


def published_algorithms(
    kind: CollectiveKind, nbytes: Quantity, group: Group, network: Network
) -> Iterator[tuple[str, Quantity]]:
    """(name, seconds) for a group of more than one GPU."""
    if kind in PASSES:
        yield from _halving_and_doubling(kind, nbytes, group, network)
        yield from _bidirectional_ring(PASSES[kind], nbytes, group, network)
        yield from _direct(kind, nbytes, group, network)
    elif kind is CollectiveKind.ALL_TO_ALL:
        yield from _exchanges(nbytes, group, network)


def _halving_and_doubling(
    kind: CollectiveKind, nbytes: Quantity, group: Group, network: Network
) -> Iterator[tuple[str, Quantity]]:
    """Partners at distance 1, 2, 4, ...: blocks halve (scatter) or double (gather) each time, so the bytes are a ring's and the
    hops are log2 n; or an all-reduce of the whole tensor in log2 n exchanges (Thakur, Rabenseifner and Gropp, 2005, 4). Powers
    of two, not on a ring of links."""
    hops: Quantity = 0.0
    whole: Quantity = 0.0
    halves: Quantity = 0.0
    share = nbytes
    for level, fanout in zip(network.levels, group.fanouts, strict=True):
        rounds, bandwidth = log2_ceil(fanout), _partner_bandwidth(level)
        hops = hops + rounds * level.latency
        whole = whole + rounds * nbytes / bandwidth
        halves = halves + share * (fanout - 1) / fanout / bandwidth
        share = share / fanout
    applies = _power_of_two(group.size) if not any(level.ring for level in network.levels) else False
    name = {
        CollectiveKind.ALL_GATHER: "recursive doubling", CollectiveKind.REDUCE_SCATTER: "recursive halving",
    }.get(kind, "recursive halving and doubling")
    passes = PASSES[kind]
    for protocol in protocols(network):
        there = protocol.start + passes * protocol.hop * hops
        yield f"{name} {protocol.name}", _where(applies, there + passes * halves / protocol.bandwidth)
        if kind is CollectiveKind.ALL_REDUCE:
            exchanges = protocol.start + protocol.hop * hops + whole / protocol.bandwidth
            yield f"recursive doubling {protocol.name}", _where(applies, exchanges)


def _partner_bandwidth(level: Level) -> float:
    """Bytes/s towards a single partner: one link of a mesh."""
    return level.bandwidth / (level.mesh_ways - 1) if level.mesh_ways > 1 else level.bandwidth


def _bidirectional_ring(passes: int, nbytes: Quantity, group: Group, network: Network) -> Iterator[tuple[str, Quantity]]:
    """Half of the tensor each way round: the bytes of a ring in half its hops (Chan et al., 2007, Collective communication:
    theory, practice, and experience)."""
    hops: Quantity = 0.0
    for level, fanout in zip(network.levels, group.fanouts, strict=True):
        hops = hops + fanout // 2 * level.latency
    wire = passes * in_step(volumes(nbytes, group, network))
    for protocol in protocols(network):
        yield f"bidirectional ring {protocol.name}", protocol.start + passes * protocol.hop * hops + wire / protocol.bandwidth


def _direct(kind: CollectiveKind, nbytes: Quantity, group: Group, network: Network) -> Iterator[tuple[str, Quantity]]:
    """Everyone sends each member its block at once: one hop a pass inside a tier's domain. An all-reduce of two such passes is
    the two-shot kernel of TensorRT-LLM and vLLM, whose one-shot kernel sends everyone everything."""
    level, fanout = network.levels[0], group.fanouts[0]
    passes = PASSES[kind]
    wire = passes * nbytes * (fanout - 1) / fanout / all_to_all_bandwidth(level, fanout)
    applies = group.size == fanout
    name = "two-shot" if passes > 1 else "direct"
    one_shot = nbytes * (fanout - 1) / all_to_all_bandwidth(level, fanout)
    for protocol in protocols(network):
        hop = protocol.hop * level.latency
        yield f"{name} {protocol.name}", _where(applies, protocol.start + passes * hop + wire / protocol.bandwidth)
        if passes > 1:
            yield f"one-shot {protocol.name}", _where(applies, protocol.start + hop + one_shot / protocol.bandwidth)


def _exchanges(nbytes: Quantity, group: Group, network: Network) -> Iterator[tuple[str, Quantity]]:
    """All-to-all in n - 1 rounds of pairs; after Bruck in log2 n rounds of half the tensor; or tier by tier, where ranks first
    hand over inside a domain what is meant for their peers' rails (Bruck et al., 1997; DeepSpeed-MoE, arXiv:2201.05596, 5.3)."""
    pairs: Quantity = 0.0
    reached: Quantity = 1
    rounds: Quantity = 0.0
    halves: Quantity = 0.0
    slowest: Quantity = 0.0
    tiers: Quantity = 0.0
    latency: Quantity = 0.0
    for level, fanout in zip(network.levels, group.fanouts, strict=True):
        bandwidth = all_to_all_bandwidth(level, fanout) * (ALL_TO_ALL_BANDWIDTH if level is network.levels[0] else 1.0)
        pairs = pairs + reached * (fanout - 1) * level.latency
        slowest = at_least(slowest, nbytes / group.size * reached * (fanout - 1) / bandwidth)
        tiers = tiers + nbytes * (fanout - 1) / fanout / bandwidth
        latency = latency + (fanout - 1) * level.latency
        rounds = rounds + log2_ceil(fanout) * level.latency
        halves = halves + log2_ceil(fanout) * nbytes / 2 / _partner_bandwidth(level)
        reached = reached * fanout
    for protocol in protocols(network):
        start, hop, share = protocol.start, protocol.hop, protocol.bandwidth
        yield f"pairwise {protocol.name}", start + hop * pairs + slowest / share
        yield f"Bruck {protocol.name}", start + hop * rounds + halves / share
        yield f"hierarchical all-to-all {protocol.name}", start + hop * latency + tiers / share


Condition = bool | NDArray[np.bool_]


def _power_of_two(size: Quantity) -> Condition:
    whole = size.astype(np.int64) if isinstance(size, np.ndarray) else int(size)
    powers: Condition = (whole & (whole - 1)) == 0
    return powers


def _where(applies: Condition, seconds: Quantity) -> Quantity:
    if isinstance(applies, np.ndarray):
        return np.where(applies, seconds, np.inf)
    return seconds if applies else seconds * 0 + np.inf
