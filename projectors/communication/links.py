"""What links carry: protocols of the collective libraries, one message, the share of each tier in a collective."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from projectors.columns import Quantity, at_least, at_most
from projectors.communication.groups import Group, Level, Network
from projectors.inputs.hardware import Vendor


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

PROTOCOL_NAMES = tuple({protocol.name for protocol in (*NCCL_PROTOCOLS, *RCCL_PROTOCOLS)})

ALL_TO_ALL_BANDWIDTH = 0.93
"""Bandwidth of an all-to-all over a gather of the same size inside a node: A100 203 of 209 GB/s, H100 315 of 336, B200
563 of 615, GB200 488 of 556 (ai-dynamo/aiconfigurator nccl-tests rows, 512 MB)."""

TIERS_IN_STEP = 0.9
"""Part of the faster tiers' time that hides behind the slowest tier of a hierarchical collective (Primus, ar_overlap_factor)."""


def transfer_seconds(nbytes: Quantity, level: Level, network: Network) -> Quantity:
    """One message between two GPUs of a tier, every other GPU doing the same: one link of a mesh, one share of the cards."""
    links = level.mesh_ways - 1 if level.mesh_ways > 1 else 1 + level.ring
    times = [
        protocol.start + protocol.hop * level.latency + nbytes / (level.bandwidth / links * protocol.bandwidth)
        for protocol in protocols(network)
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


def all_to_all_bandwidth(level: Level, fanout: Quantity) -> Quantity:
    """Bytes/s of one member that sends to every other: on a ring a message takes a quarter of the way round on average and
    loads every link on it (Dally and Towles, Principles and Practices of Interconnection Networks, 3.3)."""
    bandwidth = group_bandwidth(level, fanout)
    return bandwidth / at_least(fanout / 4, 1) if level.ring else bandwidth


def protocols(network: Network) -> tuple[Protocol, ...]:
    """Those of the vendor's library, the one of the smallest messages first."""
    return RCCL_PROTOCOLS if network.vendor is Vendor.AMD else NCCL_PROTOCOLS


def volumes(nbytes: Quantity, group: Group, network: Network) -> list[Quantity]:
    """Seconds per tier of one gather or one scatter at full bandwidth: each tier works on what the tiers inside leave of
    the tensor, through every member's own card (rail by rail)."""
    seconds: list[Quantity] = []
    share = nbytes
    for level, fanout in zip(network.levels, group.fanouts, strict=True):
        seconds.append(share * (fanout - 1) / fanout / group_bandwidth(level, fanout))
        share = share / fanout
    return seconds


def in_step(seconds: list[Quantity]) -> Quantity:
    """Time of tiers that work chunk by chunk on the same tensor."""
    slowest = total = seconds[0]
    for tier in seconds[1:]:
        slowest, total = at_least(slowest, tier), total + tier
    return slowest + (1 - TIERS_IN_STEP) * (total - slowest)


def log2_ceil(fanout: Quantity) -> Quantity:
    """Rounds in which a number of members is reached when it doubles each time."""
    return np.ceil(np.log2(fanout)) if isinstance(fanout, np.ndarray) else float((int(fanout) - 1).bit_length())
