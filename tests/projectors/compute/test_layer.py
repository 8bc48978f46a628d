"""Layers from their operators: recompute, split backward, exposed communication, host time."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from projectors.columns import Columns
from projectors.compute.layer import Machine, PartSeconds, machine_of, part_seconds
from projectors.inputs.cluster import ClusterSpec
from projectors.inputs.hardware import Precision
from projectors.inputs.loading import load_cluster, load_model
from projectors.inputs.model_card import ModelCard
from projectors.inputs.recipe import MoeDispatch, Recompute, RecomputeModule, Schedule, Sharding
from projectors.workload.layers import LayerKind, distinct_kinds, layer_operators
from projectors.workload.operators import Axis, CollectiveKind
from projectors.workload.parameters import single_gpu_columns

DENSE, ROUTED = LayerKind(False, False), LayerKind(True, False)
LLAMA = load_model("llama3.1-70b")
MIXTRAL = load_model("mixtral-8x22b")
H100 = load_cluster("h100-8x8")


def columns(**numbers: Any) -> Columns:
    return replace(single_gpu_columns(8192), **{"gpus": 64, "gbs": 256, **numbers})


def layer(card: ModelCard, kind: LayerKind, layout: Columns, cluster: ClusterSpec = H100) -> PartSeconds:
    return part_seconds(layer_operators(card, kind, layout), machine_of(cluster, layout), layout)


def test_full_recompute_adds_one_forward_pass_with_its_communication() -> None:
    times = layer(LLAMA, DENSE, columns(tp=8, sequence_parallel=True))
    assert times.again.total == pytest.approx(times.forward.total)
    assert times.again.tp == times.forward.tp
    assert times.again.compute == 0


def test_selective_recompute_runs_the_named_modules_again() -> None:
    kept = layer(LLAMA, DENSE, columns())
    core = layer(LLAMA, DENSE, columns(recompute=Recompute.SELECTIVE, modules_recomputed=(RecomputeModule.CORE_ATTENTION,)))
    attention = next(row.seconds.forward for row in kept.rows if row.operator.name == "attention")
    assert core.backward.recompute == pytest.approx(attention)
    assert core.backward.total - kept.backward.total == pytest.approx(attention)


def test_split_backward_does_the_work_of_the_fused_one() -> None:
    fused = layer(LLAMA, DENSE, columns(pp=4))
    split = layer(LLAMA, DENSE, columns(pp=4, schedule=Schedule.ZB_H1))
    assert split.backward.total + split.weight.total == pytest.approx(fused.backward.total)
    assert split.weight.total < split.backward.total  # attention has input gradients alone


def test_tensor_parallel_narrows_the_weights() -> None:
    one, eight = (layer(LLAMA, DENSE, columns(tp=tp, sequence_parallel=tp > 1)) for tp in (1, 8))
    assert eight.forward.compute == pytest.approx(one.forward.compute / 8, rel=0.15)
    assert one.forward.tp == 0


def test_sequence_parallel_sends_what_all_reduce_sent_and_the_input_once_more() -> None:
    """All-reduce is reduce-scatter and all-gather (arXiv:2205.05198, 4.2.2); the rings here, without in-switch reduction."""
    cluster = load_cluster("a100-80gb-8x8")
    plain, sequence = (layer(LLAMA, DENSE, columns(tp=8, sequence_parallel=on), cluster) for on in (False, True))
    assert sequence.forward.tp == pytest.approx(plain.forward.tp, rel=0.05)
    assert sequence.backward.tp > plain.backward.tp


def test_overlapped_tensor_parallel_hides_no_more_than_its_product_and_leaves_one_piece_of_tp_exposed() -> None:
    bare, hidden = (layer(LLAMA, DENSE, columns(tp=2, sequence_parallel=True, tp_overlap=on)) for on in (False, True))
    assert hidden.forward.tp == pytest.approx(bare.forward.tp / 2)
    bare, hidden = (layer(LLAMA, DENSE, columns(tp=8, sequence_parallel=True, tp_overlap=on)) for on in (False, True))
    products = sum(row.seconds.forward for row in bare.rows if row.operator.gemm is not None)
    assert bare.forward.tp / 8 < hidden.forward.tp < bare.forward.tp
    assert bare.forward.tp - hidden.forward.tp < products


def exchange(layout: Columns) -> float:
    """Raw forward all-to-all of a Mixtral layer, dispatch and combine."""
    machine = machine_of(H100, layout)
    return sum(
        float(machine.seconds(collective.kind, collective.axis, collective.nbytes))
        for operator in layer_operators(MIXTRAL, ROUTED, layout)
        for collective in operator.collectives
        if collective.kind is CollectiveKind.ALL_TO_ALL
    )


@pytest.mark.parametrize(
    ("dispatch", "hidden"),
    [(MoeDispatch.ALLTOALL, 0), (MoeDispatch.DEEPEP, 0.65), (MoeDispatch.SYNC_FREE_1, 0.75), (MoeDispatch.SYNC_FREE_3, 0.85)],
)
def test_a_dispatcher_hides_its_share_once(dispatch: MoeDispatch, hidden: float) -> None:
    """The reference subtracts DeepEP's saving twice beyond 8 GPUs (defect 28a)."""
    layout = columns(ep=8, moe_dispatch=dispatch)
    assert layer(MIXTRAL, ROUTED, layout).forward.ep == pytest.approx((1 - hidden) * exchange(layout))


def test_overlap_with_another_microbatch_replaces_the_dispatchers_own() -> None:
    layout = columns(ep=8, moe_dispatch=MoeDispatch.DEEPEP, moe_overlap=True, mbs=1, gbs=64 * 10)
    assert layout.microbatches == 10
    assert layer(MIXTRAL, ROUTED, layout).forward.ep == pytest.approx(0.1 * exchange(layout))


def test_the_busiest_expert_rank_sets_the_pace() -> None:
    even, uneven = (layer(MIXTRAL, ROUTED, columns(ep=8, expert_imbalance=imbalance)) for imbalance in (1.0, 1.5))
    assert uneven.forward.compute > 1.2 * even.forward.compute
    assert uneven.forward.ep > 1.4 * even.forward.ep


def test_context_parallel_blocks_hide_behind_attention_of_long_sequences() -> None:
    long = columns(cp=8, seq_length=131072)
    assert layer(LLAMA, DENSE, long).forward.cp == 0
    assert machine_of(H100, long).seconds(CollectiveKind.RING_EXCHANGE, Axis.CP, 2**20) > 0
    assert layer(LLAMA, DENSE, columns(cp=8, seq_length=1024)).forward.cp > 0


def test_sharded_parameters_are_gathered_both_ways_every_microbatch() -> None:
    """At least the ceilings' rest of two gathers and a scatter is exposed (Primus, FSDP2: 0.95, 0.93, 0.92 hide)."""
    whole, sharded = (layer(LLAMA, DENSE, columns(sharding=sharding)) for sharding in (Sharding.ZERO1, Sharding.ZERO3))
    assert whole.forward.fsdp == whole.backward.fsdp == 0
    assert 0 < sharded.forward.fsdp < sharded.backward.fsdp


def test_sharded_experts_are_gathered_too() -> None:
    """The reference gathers a dense layer's bytes whatever the layer is (defect 28)."""
    layouts = columns(sharding=Sharding.ZERO3, ep=1, mbs=1, seq_length=512)
    assert layer(MIXTRAL, ROUTED, layouts).forward.fsdp > 3 * layer(MIXTRAL, DENSE, layouts).forward.fsdp


def megatron_test_model(*, routed: bool) -> ModelCard:
    """The 12-layer GPT of Megatron-LM's functional tests: hidden 512, 8 heads, GELU; or with 8 routed experts."""
    moe = load_model("mixtral-8x22b").moe
    assert moe is not None
    experts = moe.model_copy(update={"moe_ffn_hidden_size": 2048})
    return load_model("gpt3-175b").model_copy(
        update={
            "num_layers": 12, "hidden_size": 512, "num_attention_heads": 8, "num_query_groups": 8, "head_dim": 64,
            "ffn_hidden_size": 2048, "moe": experts if routed else None,
        }
    )


@pytest.mark.parametrize(("routed", "measured"), [(False, 47.5e-3), (True, 112e-3)])
def test_small_layers_wait_for_the_host_as_long_as_megatrons_tests_do(*, routed: bool, measured: float) -> None:
    """H100, 4 x 1024 tokens a microbatch: 190 ms for 4 microbatches (gpt3_mcore_tp4_pp1_*), with experts 224 ms for 2
    (gpt3_mcore_te_tp2_pp1_*_te_8experts2parallel_*, golden values dev_dgx_h100)."""
    card = megatron_test_model(routed=routed)
    times = layer(card, ROUTED if routed else DENSE, replace(columns(mbs=4), seq_length=1024))
    assert 12 * (times.forward.total + times.backward.total) == pytest.approx(measured, rel=0.1)


def test_sync_free_dispatch_waits_less_for_the_host() -> None:
    card = megatron_test_model(routed=True)
    waiting, free = (
        layer(card, ROUTED, columns(seq_length=256, moe_dispatch=dispatch)).forward.compute
        for dispatch in (MoeDispatch.ALLTOALL, MoeDispatch.SYNC_FREE_3)
    )
    assert free < waiting


def test_tables_of_recipes_give_what_single_recipes_give() -> None:
    tp = np.array([1, 2, 4, 8])
    table = columns(tp=tp, sequence_parallel=tp > 1, precision=Precision.BF16)
    kinds = distinct_kinds(LLAMA)
    many = layer(LLAMA, kinds[0], table)
    for row, degree in enumerate(tp.tolist()):
        one = layer(LLAMA, kinds[0], columns(tp=degree, sequence_parallel=degree > 1))
        for passes, single in ((many.forward, one.forward), (many.backward, one.backward)):
            assert np.broadcast_to(passes.total, 4)[row] == pytest.approx(float(single.total))
            assert np.broadcast_to(passes.tp, 4)[row] == pytest.approx(float(single.tp))


def test_tables_over_every_axis_give_what_single_recipes_give() -> None:
    axes = {"tp": [1, 1, 2, 4, 8], "cp": [1, 2, 1, 2, 1], "ep": [1, 2, 4, 8, 8], "etp": [1, 1, 2, 1, 1], "mbs": [1, 2, 4, 2, 4]}
    shared = {"moe_dispatch": MoeDispatch.DEEPEP, "moe_overlap": True, "sharding": Sharding.HSDP, "shard_group": 8}
    degrees_of = {name: np.array(values) for name, values in axes.items()}
    table = columns(**degrees_of, sequence_parallel=degrees_of["tp"] > 1, **shared)
    many = layer(MIXTRAL, ROUTED, table)
    for row, numbers in enumerate(zip(*axes.values(), strict=True)):
        degrees = dict(zip(axes, numbers, strict=True))
        one = layer(MIXTRAL, ROUTED, columns(**degrees, sequence_parallel=degrees["tp"] > 1, **shared))
        for passes, single in ((many.forward, one.forward), (many.backward, one.backward)):
            for part in fields(passes):
                in_table = np.broadcast_to(getattr(passes, part.name), len(axes["tp"]))[row]
                assert in_table == pytest.approx(float(getattr(single, part.name)))


def test_a_machine_remembers_what_it_has_timed() -> None:
    machine: Machine = machine_of(H100, columns(tp=8))
    first = machine.seconds(CollectiveKind.ALL_GATHER, Axis.TP, 2**24)
    assert machine.seconds(CollectiveKind.ALL_GATHER, Axis.TP, 2**24) == first
    assert len(machine.known) == 1
