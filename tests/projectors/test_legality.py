"""Each rule both ways, with recipes as they are met in the field."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from projectors.columns import columns_of
from projectors.inputs import Precision, Recipe, library
from projectors.inputs.cluster import ClusterSpec
from projectors.inputs.loading import load_study
from projectors.inputs.model_card import ModelCard
from projectors.inputs.recipe import (
    MoeDispatch,
    Optimizer,
    Recompute,
    RecomputeModule,
    Schedule,
    Sharding,
)
from projectors.inputs.study import Study
from projectors.legality import RULES, Violation, is_legal, legal_values, open_schedules, violations, warnings

MIXTRAL, LLAMA_70B, DEEPSEEK_V3, GPT_OSS, LLAMA_8B = "mixtral-8x22b", "llama3.1-70b", "deepseek-v3", "gpt-oss-20b", "llama3.1-8b"

BASES: dict[str, tuple[str, dict[str, Any]]] = {
    MIXTRAL: ("mi355x-4x8", {"pp": 4, "ep": 8, "mbs": 2, "gbs": 256, "seq_length": 8192}),
    LLAMA_70B: ("h100-8x8", {"tp": 4, "pp": 4, "mbs": 1, "gbs": 128, "seq_length": 8192}),
    DEEPSEEK_V3: ("h100-128x8", {"pp": 16, "ep": 64, "gbs": 2048, "seq_length": 4096}),
    GPT_OSS: ("h100-1x8", {"gbs": 64, "seq_length": 4096}),
    LLAMA_8B: ("h100-1x8", {"gbs": 64, "seq_length": 4096}),
    "deepseek-v4-pro": ("h100-8x8", {"gbs": 64, "seq_length": 4096}),
}


def found(model: str, **changes: Any) -> tuple[Violation, ...]:
    """Violations of a model's usual recipe with some values changed."""
    card, cluster, recipe = case(model, changes)
    return violations(card, cluster, recipe)


def case(model: str, changes: Mapping[str, Any]) -> tuple[ModelCard, ClusterSpec, Recipe]:
    cluster, base = BASES[model]
    return library.model(model), library.cluster(cluster), Recipe(**{**base, **changes})


def remarks(model: str, **changes: Any) -> tuple[str, ...]:
    return warnings(*case(model, changes))


BROKEN: list[tuple[str, str, dict[str, Any], str, int | str | None]] = [
    # rule, model, what is changed, the field to change, its nearest legal value
    ("tp-divides-heads", LLAMA_70B, {"tp": 3}, "recipe.tp", 2),
    # 48 heads, 8 KV heads: 3 divides the heads alone
    ("tp-fits-query-groups", MIXTRAL, {"tp": 3}, "recipe.tp", 2),
    # 16 output groups
    ("tp-divides-output-groups", "deepseek-v4-pro", {"tp": 64}, "recipe.tp", 16),
    ("tp-divides-hidden", LLAMA_8B, {"tp": 5}, "recipe.tp", 4),
    ("tp-divides-ffn", LLAMA_70B, {"tp": 5}, "recipe.tp", 4),
    ("tp-divides-shared-ffn", DEEPSEEK_V3, {"tp": 3}, "recipe.tp", 2),
    ("etp-divides-expert-ffn", MIXTRAL, {"etp": 3, "ep": 1}, "recipe.etp", 2),
    ("ep-divides-experts", MIXTRAL, {"ep": 3}, "recipe.ep", 2),
    ("ep-needs-moe", LLAMA_70B, {"ep": 2}, "recipe.ep", 1),
    ("etp-needs-moe", LLAMA_70B, {"etp": 2}, "recipe.etp", 1),
    # top 2 of 8: at most 8 / 2
    ("imbalance-is-possible", MIXTRAL, {"expert_imbalance": 6.0}, "recipe.expert_imbalance", 4),
    # the reference agent idles 4 of 32 GPUs here
    ("replicas-fill-the-cluster", MIXTRAL, {"pp": 7}, "recipe.pp", 4),
    ("replicas-fill-the-cluster", LLAMA_70B, {"cp": 3}, "recipe.cp", 2),
    # 16 x 128 GPUs are more than 1,024
    ("experts-fill-the-cluster", DEEPSEEK_V3, {"ep": 128}, "recipe.ep", 64),
    ("moe-with-tp-needs-sequence-parallel", MIXTRAL, {"tp": 2, "sequence_parallel": False}, "recipe.sequence_parallel", "true"),
    ("cp-divides-sequence", LLAMA_70B, {"cp": 2, "seq_length": 8190}, "recipe.seq_length", 8192),
    ("tp-divides-sequence", LLAMA_70B, {"seq_length": 8190}, "recipe.seq_length", 8188),
    # priced all the same by the reference
    ("batch-splits-into-microbatches", MIXTRAL, {"gbs": 250}, "recipe.gbs", 256),
    # less than one microbatch per replica
    ("batch-splits-into-microbatches", MIXTRAL, {"gbs": 8}, "recipe.gbs", 16),
    ("low-precision-shapes-align", LLAMA_8B, {"precision": Precision.FP8, "seq_length": 4090}, "recipe.mbs", 4),
    ("virtual-stages-need-a-pipeline", LLAMA_8B, {"vpp": 2, "schedule": Schedule.INTERLEAVED}, "recipe.pp", 2),
    ("layers-reach-every-stage", LLAMA_70B, {"vpp": 40, "schedule": Schedule.INTERLEAVED}, "recipe.vpp", 20),
    ("stage-layers-name-every-stage", LLAMA_70B, {"stage_layers": (40, 40)}, "recipe.pp", 2),
    ("stage-layers-hold-the-model", LLAMA_70B, {"stage_layers": (20, 20, 20, 19)}, "recipe.stage_layers", None),
    # 1F1B has one chunk per rank
    ("schedule-fits", MIXTRAL, {"vpp": 2}, "recipe.vpp", 1),
    # V schedules have two
    ("schedule-fits", MIXTRAL, {"schedule": Schedule.ZBV}, "recipe.vpp", 2),
    # the two directions meet only after 2 pp microbatches
    ("schedule-fits", MIXTRAL, {"schedule": Schedule.DUALPIPE_V, "vpp": 2, "gbs": 112}, "recipe.gbs", 128),
    # both ends feed equally many
    ("schedule-fits", MIXTRAL, {"schedule": Schedule.DUALPIPE, "gbs": 144}, "recipe.gbs", 128),
    # groups of 6 leave 4 = pp of 16 microbatches, groups of 5 leave 1
    (
        "schedule-fits", MIXTRAL, {"schedule": Schedule.INTERLEAVED, "vpp": 2, "microbatch_group_size": 5},
        "recipe.gbs", 240,
    ),
    ("limits-need-the-automatic-schedule", MIXTRAL, {"max_in_flight": 8}, "recipe.schedule", "zb-auto"),
    # with two ranks, the previous and the next are the same one
    (
        "interleaving-two-ranks-needs-overlap", MIXTRAL,
        {"schedule": Schedule.INTERLEAVED, "vpp": 2, "pp": 2, "overlap_p2p": False}, "recipe.overlap_p2p", "true",
    ),
    ("post-validation-needs-zero-bubble", MIXTRAL, {"post_validation": True}, "recipe.post_validation", "false"),
    ("groups-need-the-interleaved-schedule", MIXTRAL, {"microbatch_group_size": 8}, "recipe.schedule", "interleaved"),
    ("split-backward-needs-a-pipeline", LLAMA_8B, {"schedule": Schedule.ZB_H1}, "recipe.schedule", "1f1b"),
    (
        "recompute-needs-a-whole-backward", MIXTRAL, {"schedule": Schedule.ZB_H1, "recompute": Recompute.FULL},
        "recipe.recompute", "none",
    ),
    (
        "recompute-needs-a-whole-backward", MIXTRAL, {"schedule": Schedule.DUALPIPE, "recompute": Recompute.FULL},
        "recipe.recompute", "none",
    ),
    ("recomputed-layers-need-full", MIXTRAL, {"recompute_num_layers": 4}, "recipe.recompute", "full"),
    (
        "recomputed-layers-exist", MIXTRAL, {"recompute": Recompute.FULL, "recompute_num_layers": 999},
        "recipe.recompute_num_layers", 14,
    ),
    (
        "recomputed-modules-need-selective", MIXTRAL, {"recompute_modules": (RecomputeModule.MOE_ACT,)},
        "recipe.recompute", "selective",
    ),
    (
        "recomputed-modules-exist", LLAMA_70B,
        {"recompute": Recompute.SELECTIVE, "recompute_modules": (RecomputeModule.MOE_ACT,)},
        "recipe.recompute_modules", None,
    ),
    # Hopper has no MX formats
    ("device-has-the-precision", LLAMA_8B, {"precision": Precision.MXFP8}, "recipe.precision", "bf16"),
    ("shard-group-needs-hsdp", LLAMA_8B, {"shard_group": 8}, "recipe.sharding", "hsdp"),
    ("shard-groups-divide-replicas", LLAMA_8B, {"sharding": Sharding.HSDP, "shard_group": 3}, "recipe.shard_group", 2),
    ("offload-needs-sharding", LLAMA_8B, {"sharding": Sharding.NONE, "offload_optimizer": 0.5}, "recipe.sharding", "zero1"),
    ("gather-overlap-needs-reduce-overlap", LLAMA_8B, {"overlap_grad_reduce": False}, "recipe.overlap_grad_reduce", "true"),
    (
        "tp-overlap-needs-sequence-parallel", LLAMA_70B, {"tp_overlap": True, "sequence_parallel": False},
        "recipe.sequence_parallel", "true",
    ),
    ("dispatcher-needs-moe", LLAMA_8B, {"moe_dispatch": MoeDispatch.SYNC_FREE_1}, "recipe.moe_dispatch", "alltoall"),
    ("fused-dispatch-needs-expert-parallel", MIXTRAL, {"ep": 1, "moe_dispatch": MoeDispatch.DEEPEP}, "recipe.ep", 2),
    ("moe-overlap-needs-expert-parallel", LLAMA_8B, {"moe_overlap": True}, "recipe.moe_overlap", "false"),
    ("moe-overlap-needs-virtual-stages", MIXTRAL, {"moe_overlap": True}, "recipe.moe_overlap", "false"),
    (
        "moe-overlap-excludes-full-recompute", MIXTRAL,
        {"moe_overlap": True, "recompute": Recompute.FULL, "vpp": 2, "schedule": Schedule.INTERLEAVED},
        "recipe.recompute", "none",
    ),
    (
        "moe-overlap-needs-all-to-all", MIXTRAL,
        {"moe_overlap": True, "moe_dispatch": MoeDispatch.ALLGATHER, "vpp": 2, "schedule": Schedule.INTERLEAVED},
        "recipe.moe_dispatch", "alltoall",
    ),
]


@pytest.mark.parametrize(
    ("rule", "model", "changes", "field", "nearest"), BROKEN, ids=[f"{row[0]}-{row[1]}" for row in BROKEN]
)
def test_a_broken_rule_is_named_with_the_field_to_change_and_its_nearest_legal_value(
    rule: str, model: str, changes: dict[str, Any], field: str, nearest: int | str | None
) -> None:
    broken = {violation.rule: violation for violation in found(model, **changes)}
    assert rule in broken
    violation = broken[rule]
    assert (violation.fields[0], violation.nearest) == (field, nearest)
    assert "{" not in violation.reason
    assert len(violation.reason) > 20


def test_every_rule_has_a_recipe_that_breaks_it_and_a_source() -> None:
    assert {row[0] for row in BROKEN} == {rule.name for rule in RULES}
    assert all(rule.source for rule in RULES)
    assert len({rule.name for rule in RULES}) == len(RULES)


@pytest.mark.parametrize("model", BASES)
def test_usual_recipes_break_no_rule(model: str) -> None:
    assert found(model) == ()


@pytest.mark.parametrize("study", library.names("studies"))
def test_shipped_studies_are_legal(study: str) -> None:
    loaded = load_study(study)
    assert violations(loaded.model, loaded.cluster, loaded.recipe) == ()


LEGAL: list[tuple[str, dict[str, Any]]] = [
    # 8 KV heads on 16 ranks: each head is copied
    (LLAMA_70B, {"tp": 16, "cp": 1}),
    # parallel folding: experts split another way than attention
    (MIXTRAL, {"tp": 2, "etp": 2, "ep": 4}),
    (MIXTRAL, {"tp": 2, "etp": 1, "ep": 8}),
    (DEEPSEEK_V3, {"pp": 8, "ep": 128}),                       # 61 layers on 8 ranks
    (DEEPSEEK_V3, {"stage_layers": (3, *(4,) * 14, 2)}),
    (LLAMA_70B, {"stage_layers": (20, 20, 21, 19)}),
    # FSDP prefetches on its own
    (LLAMA_8B, {"sharding": Sharding.ZERO3, "overlap_grad_reduce": False}),
    (LLAMA_8B, {"sharding": Sharding.HSDP, "shard_group": 4}),
    (LLAMA_8B, {"sharding": Sharding.HSDP}),                   # groups of a node
    (LLAMA_8B, {"precision": Precision.FP8}),
    (LLAMA_8B, {"precision": Precision.FP16}),
    (LLAMA_8B, {"recompute": Recompute.FULL, "recompute_num_layers": 32}),
    (MIXTRAL, {"recompute": Recompute.SELECTIVE, "recompute_modules": (RecomputeModule.MOE_ACT, RecomputeModule.LAYERNORM)}),
    (DEEPSEEK_V3, {"recompute": Recompute.SELECTIVE, "recompute_modules": (RecomputeModule.MLA_UP_PROJ, RecomputeModule.MLP)}),
    (MIXTRAL, {"moe_dispatch": MoeDispatch.DEEPEP}),
    (MIXTRAL, {"moe_dispatch": MoeDispatch.SYNC_FREE_1, "ep": 1}),
    (MIXTRAL, {"vpp": 2, "schedule": Schedule.INTERLEAVED, "moe_overlap": True}),
    (MIXTRAL, {"vpp": 7, "schedule": Schedule.INTERLEAVED}),
    (MIXTRAL, {"vpp": 2, "schedule": Schedule.AUTO}),
    (MIXTRAL, {"schedule": Schedule.ZB_H1}),
    (MIXTRAL, {"schedule": Schedule.ZBV, "vpp": 2, "gbs": 48}),  # fewer than 2 pp - 1 microbatches: surplus passes are left out
    (MIXTRAL, {"schedule": Schedule.DUALPIPE_V, "vpp": 2}),
    (MIXTRAL, {"schedule": Schedule.DUALPIPE}),
    # as DeepSeek-V3 was trained
    (
        DEEPSEEK_V3,
        {
            "schedule": Schedule.DUALPIPE_V, "vpp": 2, "moe_overlap": True, "recompute": Recompute.SELECTIVE,
            "recompute_modules": (RecomputeModule.LAYERNORM, RecomputeModule.MLA_UP_PROJ), "recompute_num_layers": None,
        },
    ),
    (
        MIXTRAL, {"schedule": Schedule.AUTO, "recompute": Recompute.SELECTIVE, "vpp": 2},
    ),
    (MIXTRAL, {"schedule": Schedule.ZB_AUTO}),
    (MIXTRAL, {"schedule": Schedule.ZB_AUTO, "max_in_flight": 6, "post_validation": True}),
    (MIXTRAL, {"schedule": Schedule.AUTO, "max_in_flight": 6}),
    (MIXTRAL, {"schedule": Schedule.INTERLEAVED, "vpp": 2, "overlap_p2p": False}),
    (MIXTRAL, {"schedule": Schedule.DUALPIPE, "moe_overlap": True}),
    (MIXTRAL, {"vpp": 2, "schedule": Schedule.INTERLEAVED, "microbatch_group_size": 6}),
    (MIXTRAL, {"vpp": 2, "schedule": Schedule.AUTO, "microbatch_group_size": 6}),
    (MIXTRAL, {"vpp": 2, "schedule": Schedule.INTERLEAVED, "microbatch_group_size": 5, "gbs": 80}),
    (MIXTRAL, {"expert_imbalance": 4.0}),
    (LLAMA_70B, {"cp": 2, "tp_overlap": True}),
    (GPT_OSS, {"ep": 8, "tp": 8}),
    (LLAMA_8B, {"optimizer": Optimizer.MUON, "offload_optimizer": 1.0}),
]


@pytest.mark.parametrize(("model", "changes"), LEGAL, ids=[f"{row[0]}-{'-'.join(row[1])}" for row in LEGAL])
def test_what_frameworks_accept_is_legal(model: str, changes: dict[str, Any]) -> None:
    assert found(model, **changes) == ()


def test_vocabularies_are_padded_and_never_illegal() -> None:
    """Megatron-LM pads the embedding to 128 x tp rows: 201,088 rows of gpt-oss on 8 ranks are no multiple of 1,024."""
    assert library.model(GPT_OSS).vocab_size % (128 * 8)
    assert found(GPT_OSS, tp=8) == ()


def test_a_prime_layer_count_is_usable_on_any_pipeline() -> None:
    """DeepSeek-V3's 61 layers: refused by estimators that want pp to divide them (facts/peers.md)."""
    for pp in (2, 4, 8, 16):
        assert found(DEEPSEEK_V3, pp=pp, ep=32) == ()


def test_data_parallel_size_of_mixtral_counts_no_experts() -> None:
    """The reference agent divides by ep and reports dp 1 where its engine has 8 (facts/tuning_agent.md, 1.3)."""
    _, cluster, recipe = case(MIXTRAL, {})
    columns = columns_of(recipe, cluster)
    assert (columns.dp, columns.expert_dp, columns.microbatches) == (8, 1, 16)


def test_interleaving_needs_a_multiple_of_pp_microbatches() -> None:
    """Megatron-Core; with other counts in-order execution deadlocks (facts/pipeline.md, section 2: p8 m10 v2)."""
    changes = {"pp": 8, "ep": 4, "vpp": 2, "schedule": Schedule.INTERLEAVED, "mbs": 1}
    assert found(MIXTRAL, **changes, gbs=4 * 16) == ()
    (violation,) = found(MIXTRAL, **changes, gbs=4 * 10)
    assert violation.rule == "schedule-fits"
    assert violation.fields[0] == "recipe.gbs"
    assert found(MIXTRAL, **changes, gbs=violation.nearest) == ()


def test_a_degree_larger_than_the_cluster_is_answered_with_numbers() -> None:
    for field in ("tp", "pp", "ep", "etp", "cp", "mbs"):
        assert any("1000000" in violation.reason for violation in found(MIXTRAL, **{field: 1_000_000}))


def test_all_broken_rules_are_reported_at_once() -> None:
    names = {violation.rule for violation in found(LLAMA_70B, tp=3, ep=2, gbs=7, recompute_num_layers=3)}
    assert {"tp-divides-heads", "ep-needs-moe", "replicas-fill-the-cluster", "recomputed-layers-need-full"} <= names


def test_auto_only_opens_schedules_that_break_no_other_rule() -> None:
    card, cluster, recipe = case(MIXTRAL, {"schedule": Schedule.AUTO})
    assert {Schedule.GPIPE, Schedule.ONE_F_ONE_B, Schedule.ZB_H1} <= set(open_schedules(card, cluster, recipe))
    recomputing = recipe.model_copy(update={"recompute": Recompute.FULL})
    assert not any(schedule.splits_backward for schedule in open_schedules(card, cluster, recomputing))
    single = case(LLAMA_8B, {"schedule": Schedule.AUTO})
    assert set(open_schedules(*single)) == {Schedule.GPIPE, Schedule.ONE_F_ONE_B}


NUMERIC = ("tp", "pp", "vpp", "cp", "ep", "etp", "mbs", "gbs", "seq_length")


def study(model: str, **changes: Any) -> Study:
    card, cluster, recipe = case(model, changes)
    return Study(model=card, cluster=cluster, recipe=recipe)


@pytest.mark.parametrize("model", [MIXTRAL, LLAMA_70B, DEEPSEEK_V3])
@pytest.mark.parametrize("field", NUMERIC)
def test_every_legal_value_of_a_legal_study_is_legal_and_the_present_one_is_among_them(model: str, field: str) -> None:
    here = study(model)
    values = legal_values(here, f"recipe.{field}")
    assert values is not None
    assert getattr(here.recipe, field) in values
    for value in values:
        recipe = here.recipe.model_copy(update={field: value})
        broken = violations(here.model, here.cluster, recipe)
        assert not any(f"recipe.{field}" in violation.fields for violation in broken)


def test_legal_tensor_parallel_sizes_of_mixtral_on_32_gpus() -> None:
    """48 heads, 8 KV heads, 32 GPUs on 4 pipeline ranks: 1, 2, 4, 8 (16 divides the GPUs, but leaves half a replica)."""
    assert legal_values(study(MIXTRAL), "recipe.tp") == (1, 2, 4, 8)


def test_legal_values_step_on_from_an_illegal_one() -> None:
    assert legal_values(study(MIXTRAL, tp=3), "recipe.tp") == (1, 2, 4, 8)


def test_values_that_no_list_limits_have_none() -> None:
    assert legal_values(study(MIXTRAL), "recipe.offload_optimizer") is None
    assert legal_values(study(MIXTRAL), "model.num_layers") is None


def test_legal_values_come_within_a_frame() -> None:
    here = study(DEEPSEEK_V3)
    legal_values(here, "recipe.gbs")
    start = time.perf_counter()
    for field in NUMERIC:
        legal_values(here, f"recipe.{field}")
    assert (time.perf_counter() - start) / len(NUMERIC) < 0.016  # meant: 5 ms; the machine may be busy


@settings(max_examples=60, deadline=None)
@given(
    model=st.sampled_from([MIXTRAL, LLAMA_70B, DEEPSEEK_V3]),
    field=st.sampled_from(NUMERIC),
    value=st.one_of(st.integers(1, 64), st.integers(1, 20_000)),
)
def test_the_nearest_value_mends_its_rule(model: str, field: str, value: int) -> None:
    card, cluster, recipe = case(model, {field: value})
    for violation in violations(card, cluster, recipe):
        if isinstance(violation.nearest, int):
            name = violation.fields[0].removeprefix("recipe.")
            mended = violations(card, cluster, recipe.model_copy(update={name: violation.nearest}))
            assert violation.rule not in {left.rule for left in mended}


@settings(max_examples=60, deadline=None)
@given(st.fixed_dictionaries({name: st.integers(1, 40) for name in ("tp", "pp", "vpp", "cp", "ep", "etp", "mbs", "gbs")}))
def test_legal_means_no_violation_and_never_an_exception(changes: dict[str, int]) -> None:
    card, cluster, recipe = case(MIXTRAL, changes)
    assert is_legal(card, cluster, recipe) == (violations(card, cluster, recipe) == ())
    warnings(card, cluster, recipe)


def test_slow_tensor_parallelism_is_remarked_on() -> None:
    assert any("level node" in remark for remark in remarks(LLAMA_70B, tp=16))
    assert remarks(LLAMA_70B, tp=8) == ()


def test_a_rack_of_72_takes_tensor_parallel_over_its_nodes() -> None:
    """GB200 NVL72: one NVLink domain over 18 nodes of 4."""
    card, cluster = library.model("llama3.1-405b"), library.cluster("gb200-18x4")
    assert warnings(card, cluster, Recipe(tp=8, pp=9, gbs=72, seq_length=8192)) == ()


@pytest.mark.parametrize(
    ("model", "changes", "word"),
    [
        (LLAMA_8B, {"seq_length": 262_144}, "longer than"),
        (MIXTRAL, {"gbs": 32}, "do not fill"),
        (LLAMA_70B, {"sharding": Sharding.ZERO3}, "for every microbatch"),
        (LLAMA_70B, {"sharding": Sharding.ZERO2}, "for every microbatch"),
        (LLAMA_8B, {"sharding": Sharding.ZERO3, "optimizer": Optimizer.MUON}, "whole matrices"),
        (LLAMA_8B, {"sharding": Sharding.ZERO3, "tp": 8}, "no effect"),
        (LLAMA_8B, {"sharding": Sharding.HSDP, "shard_group": 1}, "shards nothing"),
        (LLAMA_8B, {"tp_overlap": True}, "no effect"),
        (LLAMA_8B, {"expert_imbalance": 2.0}, "no effect"),
        (LLAMA_8B, {"moe_dispatch": MoeDispatch.ALLGATHER}, "no effect"),
    ],
)
def test_legal_but_doubtful_recipes_get_a_remark(model: str, changes: dict[str, Any], word: str) -> None:
    assert found(model, **changes) == ()
    assert any(word in remark for remark in remarks(model, **changes))


def test_usual_recipes_get_no_remark() -> None:
    assert [remarks(model) for model in BASES] == [()] * len(BASES)
