"""Seconds of one part of a model (a layer kind, the embedding, the head) for one microbatch: the one door to layer times.

Today every time is simulated (`roofline.py`, `communication/`); a measured layer will come in through here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from projectors.columns import Columns, Quantity, at_least, at_most
from projectors.communication.collectives import collective_seconds
from projectors.communication.groups import Group, Network, group_of, network_of, spread
from projectors.communication.measured import MeasuredLine, with_lines
from projectors.communication.overlap import (
    expert_exchange_exposed,
    ring_exposed,
    sharded_backward_exposed,
    sharded_forward_exposed,
    tensor_parallel_exposed,
)
from projectors.compute.host import DISPATCH_BACKWARD, DISPATCH_FORWARD, DISPATCH_SHARE, HOST_BACKWARD, HOST_FORWARD
from projectors.compute.roofline import Device, OperatorSeconds, device_of, operator_seconds
from projectors.inputs.cluster import ClusterSpec
from projectors.inputs.recipe import Sharding
from projectors.workload.operators import RECOMPUTED, Axis, CollectiveKind, Module, Operator


@dataclass(frozen=True, slots=True)
class Machine:
    """Device and network under a recipe's layout: computed once, used for every part."""

    device: Device
    network: Network
    groups: dict[Axis, Group]
    shard: Group            # ranks that share sharded dense parameters
    expert_shard: Group
    known: dict[tuple[CollectiveKind, Axis, float], Quantity] = field(default_factory=dict)

    def seconds(self, kind: CollectiveKind, axis: Axis, nbytes: Quantity) -> Quantity:
        """Seconds of a collective over an axis' group."""
        if not isinstance(nbytes, (int, float)):
            return collective_seconds(kind, nbytes, self.groups[axis], self.network)
        key = (kind, axis, float(nbytes))
        if key not in self.known:
            self.known[key] = collective_seconds(kind, nbytes, self.groups[axis], self.network)
        return self.known[key]


def machine_of(cluster: ClusterSpec, columns: Columns, lines: tuple[MeasuredLine, ...] = ()) -> Machine:
    """`lines`: collectives that were measured on the innermost tier.

    Raises ValueError where the device has no peak for the recipe's precision.
    """
    network = with_lines(network_of(cluster), lines)
    groups = {axis: group_of(columns, network, axis) for axis in Axis}
    shard, expert_shard = groups[Axis.DP], groups[Axis.EXPERT_DP]
    if columns.sharding is Sharding.HSDP:
        shard, expert_shard = (
            spread(network, at_most(group.size, columns.shard_group), group.stride) for group in (shard, expert_shard)
        )
    return Machine(device_of(cluster.hardware, columns), network, groups, shard, expert_shard)


@dataclass(frozen=True, slots=True)
class PassSeconds:
    """Seconds of one pass by what they go to: compute, recompute, and communication that nothing hides."""

    compute: Quantity = 0.0
    recompute: Quantity = 0.0
    tp: Quantity = 0.0
    cp: Quantity = 0.0
    ep: Quantity = 0.0
    fsdp: Quantity = 0.0

    @property
    def total(self) -> Quantity:
        return self.compute + self.recompute + self.tp + self.cp + self.ep + self.fsdp


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """An operator with its device seconds and its exposed communication, both directions."""

    operator: Operator
    seconds: OperatorSeconds
    exposed_forward: Quantity
    exposed_backward: Quantity
    recomputed: bool


@dataclass(frozen=True, slots=True)
class PartSeconds:
    """A part's passes. Without split backward `weight` is empty and `backward` holds both gradients."""

    forward: PassSeconds
    backward: PassSeconds
    weight: PassSeconds
    again: PassSeconds           # what full recompute adds to the backward pass
    rows: tuple[OperatorRow, ...]


def part_seconds(operators: tuple[Operator, ...], machine: Machine, columns: Columns) -> PartSeconds:
    """Seconds of every pass of a part on one GPU.

    Each pass takes the longer of device time and host time (`host.py`); what the host adds is counted as compute, since
    the device waits.
    """
    dropped = frozenset().union(*(RECOMPUTED[module] for module in columns.modules_recomputed))
    forward: Quantity = 0.0
    inputs: Quantity = 0.0
    weights: Quantity = 0.0
    repeated: Quantity = 0.0
    tp: list[Quantity] = [0.0, 0.0]
    cp: list[Quantity] = [0.0, 0.0]
    exchange: list[Quantity] = [0.0, 0.0]
    expert: list[Quantity] = [0.0, 0.0]
    rows: list[OperatorRow] = []
    for operator in operators:
        seconds = operator_seconds(operator, machine.device)
        again = operator.module in dropped
        forward = forward + seconds.forward
        inputs = inputs + seconds.input_gradient
        weights = weights + seconds.weight_gradient
        if again:
            repeated = repeated + seconds.forward
        exposed: list[Quantity] = [0.0, 0.0]
        if operator.collectives:
            raw_tp, raw_cp, raw_exchange, raw_expert = _traffic(operator, machine)
            both_gradients = seconds.input_gradient + seconds.weight_gradient
            for direction, window in enumerate((seconds.forward, both_gradients)):
                tensor = tensor_parallel_exposed(raw_tp[direction], window if operator.gemm is not None else 0.0, columns)
                ring = ring_exposed(raw_cp[direction], window, columns)
                exposed[direction] = tensor + ring + raw_exchange[direction] + raw_expert[direction]
                for into in (0, 1) if again and direction == 0 else (direction,):
                    tp[into], cp[into] = tp[into] + tensor, cp[into] + ring
                    exchange[into], expert[into] = exchange[into] + raw_exchange[direction], expert[into] + raw_expert[direction]
        rows.append(OperatorRow(operator, seconds, exposed[0], exposed[1], again))
    ep = [
        expert_exchange_exposed(exchange[direction], window, columns) + expert[direction]
        for direction, window in enumerate((forward, inputs + weights + repeated))
    ]
    fsdp = _sharded(operators, machine, columns, forward, inputs + weights + repeated)
    ahead = PassSeconds(forward, 0.0, tp[0], cp[0], ep[0], fsdp[0])
    behind = PassSeconds(inputs, repeated, tp[1], cp[1], ep[1], fsdp[1])
    return _with_host(ahead, behind, weights, tuple(rows), columns)


ByDirection = list[Quantity]
"""Seconds in the forward and in the backward pass."""


def _traffic(operator: Operator, machine: Machine) -> tuple[ByDirection, ByDirection, ByDirection, ByDirection]:
    """Communication of an operator before overlap: tensor parallel, context parallel, the all-to-all over experts (which
    dispatchers overlap), and the rest of the expert layer's (gathers over ep, expert tensor parallel)."""
    tp: ByDirection = [0.0, 0.0]
    cp: ByDirection = [0.0, 0.0]
    exchange: ByDirection = [0.0, 0.0]
    expert: ByDirection = [0.0, 0.0]
    for collective in operator.collectives:
        seconds = machine.seconds(collective.kind, collective.axis, collective.nbytes)
        match collective.axis, collective.kind:
            case Axis.TP, _:
                sums = tp
            case Axis.CP, _:
                sums = cp
            case Axis.EP, CollectiveKind.ALL_TO_ALL:
                sums = exchange
            case _:
                sums = expert
        sums[0] = sums[0] + collective.forward * seconds
        sums[1] = sums[1] + collective.backward * seconds
    return tp, cp, exchange, expert


def _sharded(
    operators: tuple[Operator, ...], machine: Machine, columns: Columns, forward: Quantity, backward: Quantity
) -> tuple[Quantity, Quantity]:
    """Exposed gathers and scatters of sharded parameters (zero3, hsdp), every microbatch.

    Parameters are gathered ahead of the forward pass and again ahead of the backward one, recompute included, which uses
    the same copy (PyTorch FSDP2 with reshard_after_forward); gradients are scattered behind it.
    """
    if not columns.sharding.parameters:
        return 0.0, 0.0
    gather: Quantity = 0.0
    scatter: Quantity = 0.0
    for group, gathered, scattered in sharded_bytes(operators, machine, columns):
        gather = gather + collective_seconds(CollectiveKind.ALL_GATHER, gathered, group, machine.network)
        scatter = scatter + collective_seconds(CollectiveKind.REDUCE_SCATTER, scattered, group, machine.network)
    return sharded_forward_exposed(gather, forward), sharded_backward_exposed(gather, scatter, backward)


def sharded_bytes(
    operators: tuple[Operator, ...], machine: Machine, columns: Columns
) -> tuple[tuple[Group, Quantity, Quantity], tuple[Group, Quantity, Quantity]]:
    """(group, bytes of parameters gathered, bytes of gradients scattered) of the dense and of the expert parameters of a part."""
    dense, expert = parameter_counts(operators)
    weight, gradient = columns.weight_bytes, columns.grad_reduce_dtype.nbytes
    return (
        (machine.shard, dense * weight, dense * gradient),
        (machine.expert_shard, expert * weight, expert * gradient),
    )


def parameter_counts(operators: tuple[Operator, ...]) -> tuple[Quantity, Quantity]:
    """Dense and expert parameters of a part on one GPU, before data parallelism shards them."""
    dense: Quantity = 0
    expert: Quantity = 0
    for operator in operators:
        if not operator.weights:
            continue
        if operator.expert_weights:
            expert = expert + operator.parameters
        else:
            dense = dense + operator.parameters
    return dense, expert


def _with_host(
    ahead: PassSeconds, behind: PassSeconds, weights: Quantity, rows: tuple[OperatorRow, ...], columns: Columns
) -> PartSeconds:
    """Passes that take as long as the host needs to issue them, at least."""
    operators = len(rows)
    routers = sum(row.operator.module is Module.ROUTER and row.operator.gemm is not None for row in rows)
    waits = routers * DISPATCH_SHARE[columns.moe_dispatch]
    host_forward = operators * HOST_FORWARD + waits * DISPATCH_FORWARD
    host_backward = operators * HOST_BACKWARD + waits * DISPATCH_BACKWARD + sum(row.recomputed for row in rows) * HOST_FORWARD
    forward = _raised(ahead, host_forward)
    again = PassSeconds(0.0, forward.compute, forward.tp, forward.cp, forward.ep, 0.0)
    if not columns.schedule.splits_backward:
        fused = PassSeconds(behind.compute + weights, behind.recompute, behind.tp, behind.cp, behind.ep, behind.fsdp)
        return PartSeconds(forward, _raised(fused, host_backward), PassSeconds(), again, rows)
    host_weights = sum(row.operator.gemm is not None for row in rows) * HOST_BACKWARD / 2
    weight = _raised(PassSeconds(weights), host_weights)
    return PartSeconds(forward, _raised(behind, host_backward - host_weights), weight, again, rows)


def _raised(seconds: PassSeconds, host: float) -> PassSeconds:
    """The pass with the device's wait for the host counted as compute."""
    waiting = at_least(host - seconds.total, 0.0)
    return PassSeconds(seconds.compute + waiting, seconds.recompute, seconds.tp, seconds.cp, seconds.ep, seconds.fsdp)
