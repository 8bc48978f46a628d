"""The cluster: how many nodes of which accelerator, and the network tiers between them."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from projectors.inputs.describe import Frozen, quantity
from projectors.inputs.hardware import HardwareProfile

MOST_NODES = 1_000_000


class Topology(StrEnum):
    """How the members of a tier are wired: links between every pair, a switch, or a ring."""

    MESH = "mesh"
    SWITCH = "switch"
    RING = "ring"


class Algorithms(StrEnum):
    """Which algorithms collectives may take: those of the vendor's library, or every published one as well."""

    LIBRARY = "library"
    ALL = "all"


class Tier(Frozen):
    """One level of the network, from the inside out."""

    name: str = Field(description="Name of the level, such as node or fabric", min_length=1)
    size: int | None = quantity(None, says="Accelerators in one domain; null = the whole cluster", least=1, most=100_000_000)
    bandwidth_gb_s: float = quantity(says="Bandwidth per accelerator and direction", unit="GB/s", above=0, most=1e6)
    latency_us: float = quantity(says="Latency of one hop as a collective sees it", unit="µs", least=0, most=1e6)
    topology: Topology = quantity(Topology.SWITCH, says="Wiring")
    oversubscription: float = quantity(1.0, says="Downlink over uplink bandwidth; 1 = full bisection", least=1, most=1000)
    nics_per_node: int | None = quantity(None, says="Network cards per node; null = one per accelerator", least=1, most=1024)
    efficiency: float = quantity(
        0.8, says="Bandwidth a collective achieves over the stated one", above=0, most=1.2, advanced=True
    )
    in_network_efficiency: float | None = quantity(
        None,
        says="Reduction inside the switch (NVLS) over what a ring achieves; null = the tier has none",
        above=0,
        most=1.2,
        advanced=True,
    )
    sources: dict[str, str] = Field(default_factory=dict, description="Field name -> where its figure comes from")


class NetworkProfile(Frozen):
    """A named set of tiers: what a node type usually comes with."""

    name: str = Field(description="Name of the profile", min_length=1, max_length=200)
    title: str = Field(default="", description="What it is")
    tiers: tuple[Tier, ...] = Field(description="Levels from the inside out", min_length=1)
    notes: tuple[str, ...] = Field(default=(), description="Remarks")
    sources: dict[str, str] = Field(default_factory=dict, description="Field name -> where its figure comes from")


class ClusterSpec(Frozen):
    """Nodes of one accelerator and the tiers between them, names already resolved.

    In a file `hardware` may be a name or a path, and `tiers` may be left out: `network` (default: the hardware's usual
    one) then names them. Loading fills both in.
    """

    name: str = Field(description="Name of the cluster", min_length=1, max_length=200)
    hardware: HardwareProfile = Field(description="The accelerator")
    nodes: int = quantity(says="Nodes", least=1, most=MOST_NODES)
    gpus_per_node: int = quantity(8, says="Accelerators per node", title="GPUs per node", least=1, most=1024)
    network: str | None = Field(
        None, description="Name of the network profile; null = the hardware's usual one, or the tiers stated"
    )
    tiers: tuple[Tier, ...] = Field(description="Network levels from the inside out", min_length=1)
    algorithms: Algorithms = quantity(
        Algorithms.LIBRARY, says="Algorithms of collectives: those of the vendor's library, or every published one", advanced=True
    )
    contention: bool = quantity(
        True,
        says="Traffic on one link shares it, and communication takes compute units from what it hides behind; false = neither",
        advanced=True,
    )
    node_spread: float = quantity(
        0.0,
        says="Standard deviation of the nodes' speed over its mean: a step waits for the slowest node; 0 = all alike, "
        "or in the calibration already",
        least=0,
        most=0.5,
        advanced=True,
    )
    price_per_gpu_hour: float | None = quantity(
        None, says="Price of one accelerator for an hour", unit="per GPU·h", least=0, most=1e6
    )

    @model_validator(mode="after")
    def _tiers_grow(self) -> Self:
        sizes = [tier.size for tier in self.tiers]
        for position, size in enumerate(sizes[:-1]):
            following = sizes[position + 1]
            if size is None or (following is not None and following <= size):
                raise ValueError(
                    f"tiers: level {self.tiers[position + 1].name} must be larger than level {self.tiers[position].name} "
                    "(sizes grow from the inside out; only the last may be null)"
                )
        if sizes[-1] is not None and sizes[-1] < self.gpus:
            raise ValueError(
                f"tiers: the last level {self.tiers[-1].name} holds {sizes[-1]} accelerators, "
                f"the cluster has {self.gpus}; make its size null or larger"
            )
        return self

    @property
    def gpus(self) -> int:
        """World size."""
        return self.nodes * self.gpus_per_node
