"""Measured collectives: a line through a sweep, and what the formulas make of it for other sizes and groups.

measured(target) = simulated(target) x measured(base) / simulated(base), where the base is the group that was swept and the
message the target's (facts/primus_projection.md 2.3 does so for all-reduces).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from projectors.columns import Quantity, at_least
from projectors.communication.groups import Group, Level, Network, spread
from projectors.communication.links import transfer_seconds
from projectors.workload.operators import CollectiveKind


@dataclass(frozen=True, slots=True)
class MeasuredLine:
    """seconds = latency + bytes / bandwidth, of one collective over `members` neighboring devices."""

    kind: CollectiveKind
    members: int
    latency: float     # seconds
    bandwidth: float   # bytes/s


Simulated = Callable[[CollectiveKind, Quantity, Group, Network], Quantity]


def with_lines(network: Network, lines: tuple[MeasuredLine, ...]) -> Network:
    """The network with collectives that were measured on it."""
    return replace(network, measured=lines)


def measured_factor(kind: CollectiveKind, nbytes: Quantity, network: Network, simulated: Simulated) -> Quantity:
    """Measured over simulated seconds of a message over the group that was swept; 1 where the kind was not measured."""
    line = next((line for line in network.measured if line.kind is kind), None)
    if line is None:
        return 1.0
    bare = replace(network, measured=())
    base = simulated(kind, nbytes, spread(bare, line.members, 1), bare)
    return (line.latency + nbytes / line.bandwidth) / at_least(base, LEAST_SECONDS)


LEAST_SECONDS = 1e-9
"""Shorter collectives than this are nothing, and no ratio is taken of them."""


def send_seconds(nbytes: float, level: Level, network: Network) -> float:
    """One message between two devices of a tier, measured where sends were."""
    simulated = float(transfer_seconds(nbytes, level, network))

    def over_innermost(_kind: CollectiveKind, amount: Quantity, _group: Group, bare: Network) -> Quantity:
        return transfer_seconds(amount, bare.levels[0], bare)

    return simulated * float(measured_factor(CollectiveKind.SEND_RECEIVE, nbytes, network, over_innermost))
