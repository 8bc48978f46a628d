"""Groups against brute-force enumeration of every rank under the rank order tp-cp-dp-pp (experts: etp-ep-edp-pp)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from projectors.columns import Columns
from projectors.communication.groups import (
    all_groups,
    domain_gpus,
    group_of,
    members,
    members_per_domain,
    network_of,
    sharing,
    size_and_stride,
)
from projectors.inputs.cluster import ClusterSpec
from projectors.inputs.loading import load_cluster
from projectors.inputs.recipe import Schedule
from projectors.workload.operators import Axis
from projectors.workload.parameters import single_gpu_columns


@pytest.fixture
def h100_cluster() -> ClusterSpec:
    return load_cluster("h100-8x8")


def layout(gpus: int, **degrees: int) -> Columns:
    return replace(single_gpu_columns(), gpus=gpus, **degrees)


def enumerated(columns: Columns, axis: Axis) -> set[tuple[int, ...]]:
    """Groups of an axis: ranks that differ in nothing but that axis' coordinates."""
    dense = axis in (Axis.TP, Axis.CP, Axis.DP, Axis.PP)
    inner, second = (columns.tp, columns.cp) if dense else (columns.etp, columns.ep)
    replicas = columns.dp if dense else columns.expert_dp
    extents = (inner, second, replicas, columns.pp)
    varying = {
        Axis.TP: {0}, Axis.CP: {1}, Axis.DP: {1, 2}, Axis.PP: {3}, Axis.ETP: {0}, Axis.EP: {1}, Axis.EXPERT_DP: {2},
    }[axis]
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for coordinates in product(*(range(extent) for extent in reversed(extents))):
        place = tuple(reversed(coordinates))
        rank = place[0] + extents[0] * (place[1] + extents[1] * (place[2] + extents[2] * place[3]))
        groups[tuple(value for position, value in enumerate(place) if position not in varying)].append(rank)
    return {tuple(sorted(ranks)) for ranks in groups.values()}


@pytest.mark.parametrize("axis", list(Axis))
@pytest.mark.parametrize(
    "degrees",
    [{"tp": 4, "cp": 2, "pp": 2, "ep": 8}, {"tp": 2, "cp": 1, "pp": 4, "ep": 4, "etp": 2}, {"tp": 1, "cp": 4, "pp": 1, "ep": 16}],
)
def test_every_group_is_an_arithmetic_progression_of_the_stated_size_and_stride(axis: Axis, degrees: dict[str, int]) -> None:
    columns = layout(64, **degrees)
    size, stride = size_and_stride(columns, axis)
    for ranks in enumerated(columns, axis):
        assert ranks == tuple(range(ranks[0], ranks[0] + size * stride, stride))


@given(size=st.integers(1, 24), stride=st.integers(1, 24), domain=st.sampled_from([2, 4, 6, 8, 16, 72]))
def test_members_per_domain_never_exceed_the_fewest_that_enumeration_finds(size: int, stride: int, domain: int) -> None:
    blocks = 2 * domain
    fewest = size
    for block in range(blocks):
        for offset in range(stride):
            ranks = [block * size * stride + offset + step * stride for step in range(size)]
            counts: dict[int, int] = defaultdict(int)
            for rank in ranks:
                counts[rank // domain] += 1
            fewest = min(fewest, *counts.values())
    members = members_per_domain(size, stride, domain)
    assert members <= fewest
    if domain % (size * stride) == 0 or ((size * stride) % domain == 0 and domain % stride == 0):
        assert members == fewest


def test_fan_outs_multiply_to_the_size(h100_cluster: ClusterSpec) -> None:
    network = network_of(h100_cluster)
    for tp, cp, pp, ep in product((1, 2, 8), (1, 2), (1, 4), (1, 8)):
        columns = layout(h100_cluster.gpus, tp=tp, cp=cp, pp=pp, ep=ep)
        for axis in Axis:
            group = group_of(columns, network, axis)
            assert np.prod(group.fanouts) == pytest.approx(group.size)


def test_tensor_parallel_stays_in_the_node_and_data_parallel_behind_it_uses_one_card_per_gpu(h100_cluster: ClusterSpec) -> None:
    columns = layout(h100_cluster.gpus, tp=8)
    network = network_of(h100_cluster)
    assert group_of(columns, network, Axis.TP).fanouts == (8, 1)
    assert group_of(columns, network, Axis.DP).fanouts == (1, h100_cluster.nodes)


def test_arrays_of_degrees_give_what_single_recipes_give(h100_cluster: ClusterSpec) -> None:
    network = network_of(h100_cluster)
    degrees = np.array([1, 2, 4, 8])
    table = group_of(layout(h100_cluster.gpus, tp=degrees), network, Axis.DP)  # type: ignore[arg-type]
    for row, tp in enumerate(degrees):
        single = group_of(layout(h100_cluster.gpus, tp=int(tp)), network, Axis.DP)
        assert [float(fanout[row]) for fanout in table.fanouts] == pytest.approx([float(fanout) for fanout in single.fanouts])


def test_a_job_takes_equally_many_nodes_of_every_rack() -> None:
    assert domain_gpus(72, nodes=64, gpus_per_node=4) == 64
    assert domain_gpus(72, nodes=36, gpus_per_node=4) == 72
    assert domain_gpus(72, nodes=2, gpus_per_node=4) == 8


@pytest.mark.parametrize("axis", list(Axis))
@pytest.mark.parametrize("degrees", [{"tp": 4, "cp": 2, "pp": 2, "ep": 8}, {"tp": 2, "cp": 1, "pp": 4, "ep": 4, "etp": 2}])
def test_members_are_the_groups_that_enumeration_finds(axis: Axis, degrees: dict[str, int]) -> None:
    columns = layout(64, **degrees)
    assert {tuple(ranks) for ranks in all_groups(columns, axis)} == enumerated(columns, axis)
    for rank in range(64):
        assert rank in members(columns, axis, rank)


def test_both_copies_of_a_dualpipe_stage_reduce_together() -> None:
    """Pipeline ranks 0 and 3 of 4 hold the first and the last stage, each once (DeepSeek-V3, arXiv:2412.19437)."""
    columns = layout(32, tp=2, pp=4, schedule=Schedule.DUALPIPE)
    assert tuple(members(columns, Axis.DP, 0)) == (0, 2, 4, 6, 24, 26, 28, 30)
    assert sorted(rank for group in all_groups(columns, Axis.DP) for rank in group) == list(range(32))


@given(size=st.integers(1, 24), stride=st.integers(1, 24), domain=st.sampled_from([4, 8, 72]))
def test_sharing_counts_the_ranks_in_the_first_ones_node(size: int, stride: int, domain: int) -> None:
    ranks = range(stride // 2, stride // 2 + size * stride, stride)
    assert sharing(ranks, domain) == sum(rank // domain == ranks[0] // domain for rank in ranks)
