"""Rules of the options: recompute, precision, sharding and overlap, expert dispatch."""

from __future__ import annotations

from projectors.inputs.recipe import MoeDispatch, Recompute, RecomputeModule, Sharding
from projectors.legality.rule import Condition, Situation, rule

MOE_ONLY = (
    MoeDispatch.DEEPEP, MoeDispatch.SYNC_FREE_1, MoeDispatch.SYNC_FREE_2, MoeDispatch.SYNC_FREE_3,
)
"""Dispatchers that only exist for experts."""

FUSED_DISPATCH = (MoeDispatch.DEEPEP, MoeDispatch.SYNC_FREE_2, MoeDispatch.SYNC_FREE_3)
"""Dispatchers that run on DeepEP kernels (Primus turns DeepEP on from sync-free stage 2)."""


@rule(
    "recipe.recompute", "recipe.recompute_num_layers",
    reason="recompute_num_layers is {r.recompute_num_layers} and recompute is {r.recompute.value}: only full counts layers",
)
def recomputed_layers_need_full(s: Situation) -> Condition:
    """Megatron-Core `TransformerConfig`: recompute_num_layers belongs to full recompute, and must be null with selective."""
    return s.recipe.recompute_num_layers is None or s.recipe.recompute is Recompute.FULL


@rule(
    "recipe.recompute_num_layers", "recipe.pp", "recipe.vpp",
    reason="recompute_num_layers is {r.recompute_num_layers}, the fullest virtual stage has {s.most_layers_per_stage} layers",
)
def recomputed_layers_exist(s: Situation) -> Condition:
    """Megatron-LM: layers to recompute per virtual stage are at most its layers."""
    return s.recipe.recompute_num_layers is None or s.recipe.recompute_num_layers <= s.most_layers_per_stage


@rule(
    "recipe.recompute", "recipe.recompute_modules",
    reason=lambda s: f"recompute_modules names {_words(s.recipe.recompute_modules)} and recompute is {s.recipe.recompute.value}: "
    "modules belong to selective",
)
def recomputed_modules_need_selective(s: Situation) -> Condition:
    """Megatron-Core `TransformerConfig`: recompute_modules are those of selective recompute."""
    return not s.recipe.recompute_modules or s.recipe.recompute is Recompute.SELECTIVE


@rule(
    "recipe.recompute_modules",
    reason=lambda s: f"recompute_modules names {_words(_absent_modules(s))}, which {s.card.name} does not have",
)
def recomputed_modules_exist(s: Situation) -> Condition:
    """Modules moe and moe_act need experts, mlp a dense layer, mla_up_proj latent attention (Megatron-Core
    `TransformerConfig`)."""
    return not _absent_modules(s)


def _absent_modules(s: Situation) -> tuple[RecomputeModule, ...]:
    present = {
        RecomputeModule.MOE: s.card.moe is not None,
        RecomputeModule.MOE_ACT: s.card.moe is not None,
        RecomputeModule.MLA_UP_PROJ: s.card.mla is not None,
    }
    if RecomputeModule.MLP in s.recipe.recompute_modules:
        present[RecomputeModule.MLP] = s.has_dense_layers
    return tuple(module for module in s.recipe.recompute_modules if not present.get(module, True))


def _words(modules: tuple[RecomputeModule, ...]) -> str:
    return ", ".join(module.value for module in modules)


@rule(
    "recipe.precision", "cluster.hardware",
    reason="{device.name} states no {r.precision.value} peak: the device does not compute in this format, or its peak is "
    "not known",
)
def device_has_the_precision(s: Situation) -> Condition:
    """A format without a peak in the hardware profile cannot be projected (profiles/hardware, each figure sourced)."""
    return s.cluster.hardware.peak_tflops.tflops(s.recipe.precision) is not None


@rule(
    "recipe.sharding", "recipe.shard_group",
    reason="shard_group is {r.shard_group} and sharding is {r.sharding.value}: only hsdp shards within groups",
)
def shard_group_needs_hsdp(s: Situation) -> Condition:
    """Hybrid sharding shards within a group and replicates between groups (PyTorch FSDP, arXiv:2304.11277, section 3.2.2)."""
    return s.recipe.shard_group is None or s.recipe.sharding is Sharding.HSDP


@rule(
    "recipe.shard_group", "recipe.tp", "recipe.pp", "recipe.cp", "recipe.sharding",
    reason="hsdp shards over groups of {s.columns.shard_group} GPUs (a node where shard_group is null), which do not divide the "
    "dp x cp = {s.dp} x {r.cp} = {s.replicas} GPUs that hold the same parameters",
)
def shard_groups_divide_replicas(s: Situation) -> Condition:
    """Shard groups have one size (PyTorch FSDP, arXiv:2304.11277, section 3.2.2)."""
    return s.recipe.sharding is not Sharding.HSDP or s.replicas % s.columns.shard_group == 0


@rule(
    "recipe.sharding", "recipe.offload_optimizer",
    reason="offload_optimizer is {r.offload_optimizer:g} and sharding is none: optimizer offload works on a sharded optimizer",
)
def offload_needs_sharding(s: Situation) -> Condition:
    """ZeRO-Offload builds on ZeRO (arXiv:2101.06840, section 4); Megatron-Core's CPU offload on the distributed optimizer."""
    return s.recipe.offload_optimizer == 0 or s.recipe.sharding.optimizer


@rule(
    "recipe.overlap_grad_reduce", "recipe.overlap_param_gather", "recipe.sharding",
    reason="overlap_param_gather with {r.sharding.value} needs overlap_grad_reduce: both use the same buckets",
)
def gather_overlap_needs_reduce_overlap(s: Situation) -> Condition:
    """Megatron-LM accepts overlapped parameter gathering only with overlapped gradient reduction (`validate_args`)."""
    if s.recipe.sharding not in (Sharding.ZERO1, Sharding.ZERO2):
        return True  # nothing to gather, or prefetched by FSDP on its own
    return s.recipe.overlap_grad_reduce or not s.recipe.overlap_param_gather


@rule(
    "recipe.sequence_parallel", "recipe.tp_overlap",
    reason="tp_overlap with tp {r.tp} needs sequence_parallel: its all-gathers and reduce-scatters are what runs beside the "
    "GEMMs",
)
def tp_overlap_needs_sequence_parallel(s: Situation) -> Condition:
    """Megatron-LM `validate_args`: tp_comm_overlap needs sequence_parallel."""
    return not s.recipe.tp_overlap or (s.columns.tp == 1) | (s.columns.sp > 1)


@rule(
    "recipe.moe_dispatch",
    reason="moe_dispatch is {r.moe_dispatch.value} and {card.name} is dense: there are no experts to send tokens to",
)
def dispatcher_needs_moe(s: Situation) -> Condition:
    """DeepEP and sync-free dispatch exist for experts only (Primus and Megatron-Core refuse them on dense models)."""
    return s.card.moe is not None or s.recipe.moe_dispatch not in MOE_ONLY


@rule(
    "recipe.ep", "recipe.etp", "recipe.moe_dispatch",
    reason="moe_dispatch {r.moe_dispatch.value} sends tokens between GPUs, and ep x etp is 1",
)
def fused_dispatch_needs_expert_parallel(s: Situation) -> Condition:
    """Megatron-Core `MoEFlexTokenDispatcher`: tp x ep of the experts must exceed 1."""
    return s.card.moe is None or s.recipe.moe_dispatch not in FUSED_DISPATCH or s.columns.ep * s.columns.etp > 1


@rule(
    "recipe.ep", "recipe.moe_overlap",
    reason="moe_overlap hides the expert communication, and there is none: ep is {r.ep} and the model has {s.experts} experts",
)
def moe_overlap_needs_expert_parallel(s: Situation) -> Condition:
    """Megatron-LM `validate_args`: overlap of expert communication needs expert parallelism."""
    return not s.recipe.moe_overlap or (s.card.moe is not None and s.columns.ep > 1)


@rule(
    "recipe.vpp", "recipe.moe_overlap",
    reason="moe_overlap with pp {r.pp} needs vpp above 1: only then are the forward and backward that run together independent",
)
def moe_overlap_needs_virtual_stages(s: Situation) -> Condition:
    """Megatron-LM `validate_args`: overlap of expert communication with a pipeline needs virtual stages."""
    return not s.recipe.moe_overlap or s.recipe.pp == 1 or s.recipe.vpp * s.recipe.schedule.copies > 1


@rule(
    "recipe.recompute", "recipe.moe_overlap",
    reason="moe_overlap with recompute full: pieces of a layer run beside another microbatch's, so it is not run again as a "
    "whole",
)
def moe_overlap_excludes_full_recompute(s: Situation) -> Condition:
    """Megatron-Core `TransformerConfig`: overlap of expert communication excludes full recompute."""
    return not s.recipe.moe_overlap or s.recipe.recompute is not Recompute.FULL


@rule(
    "recipe.moe_dispatch", "recipe.moe_overlap",
    reason="moe_overlap hides all-to-all, and moe_dispatch is allgather",
)
def moe_overlap_needs_all_to_all(s: Situation) -> Condition:
    """Megatron-Core `TransformerConfig`: overlap of expert communication needs the all-to-all or the fused dispatcher."""
    return not s.recipe.moe_overlap or s.recipe.moe_dispatch is not MoeDispatch.ALLGATHER


RULES = (
    recomputed_layers_need_full,
    recomputed_layers_exist,
    recomputed_modules_need_selective,
    recomputed_modules_exist,
    device_has_the_precision,
    shard_group_needs_hsdp,
    shard_groups_divide_replicas,
    offload_needs_sharding,
    gather_overlap_needs_reduce_overlap,
    tp_overlap_needs_sequence_parallel,
    dispatcher_needs_moe,
    fused_dispatch_needs_expert_parallel,
    moe_overlap_needs_expert_parallel,
    moe_overlap_needs_virtual_stages,
    moe_overlap_excludes_full_recompute,
    moe_overlap_needs_all_to_all,
)
