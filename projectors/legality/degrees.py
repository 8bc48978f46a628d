"""Rules of the parallel degrees against the model's widths, the cluster's GPUs and the batch."""

from __future__ import annotations

from projectors.columns import Quantity
from projectors.inputs.hardware import Precision
from projectors.legality.rule import Condition, Situation, implies, rule

FP8_MULTIPLES = {Precision.FP8: (8, 16), Precision.MXFP8: (32, 32)}
"""What token count and matrix width must be multiples of in an fp8 GEMM: Transformer Engine's check of fp8 shapes, and the
32-element block of the MX formats (OCP MX specification 1.0, section 5.2)."""


@rule("recipe.tp", "model.num_attention_heads", reason="tp {r.tp} does not divide the {card.num_attention_heads} attention heads")
def tp_divides_heads(s: Situation) -> Condition:
    """Each tensor-parallel rank runs whole heads (Megatron-LM, arXiv:1909.08053, section 3; Megatron-Core
    `TransformerConfig`)."""
    return s.card.num_attention_heads % s.columns.tp == 0


@rule(
    "recipe.tp", "model.num_query_groups",
    reason="tp {r.tp} and the {card.num_query_groups} KV heads: one must be a multiple of the other, so that a GPU holds whole "
    "KV heads or a copy of one",
)
def tp_fits_query_groups(s: Situation) -> Condition:
    """KV heads are split, or copied where tp exceeds them (Megatron-Core, `SelfAttention`). MLA has none to split."""
    if s.card.mla or s.card.compressed_attention:
        return True
    groups, tp = s.card.num_query_groups, s.columns.tp
    return (groups % tp == 0) | (tp % groups == 0)


@rule(
    "recipe.tp", "model.compressed_attention.o_groups",
    reason="tp {r.tp} does not divide the {v4.o_groups} groups of the output projection",
)
def tp_divides_output_groups(s: Situation) -> Condition:
    """DeepSeek-V4's grouped low-rank output projection is split by whole groups (`workload/compressed_attention.py`)."""
    return s.card.compressed_attention is None or s.card.compressed_attention.o_groups % s.columns.tp == 0


@rule("recipe.tp", "model.hidden_size", reason="tp {r.tp} does not divide hidden_size {card.hidden_size}")
def tp_divides_hidden(s: Situation) -> Condition:
    """Row- and column-parallel matrices are cut into equal parts (Megatron-LM, arXiv:1909.08053, section 3)."""
    return s.card.hidden_size % s.columns.tp == 0


@rule(
    "recipe.tp", "model.ffn_hidden_size",
    reason="tp {r.tp} does not divide ffn_hidden_size {card.ffn_hidden_size} of the dense layers",
)
def tp_divides_ffn(s: Situation) -> Condition:
    """The dense MLP is cut into equal parts (Megatron-LM, arXiv:1909.08053, section 3)."""
    return not s.has_dense_layers or s.card.ffn_hidden_size % s.columns.tp == 0


@rule(
    "recipe.tp", "model.moe.shared_ffn_hidden_size",
    reason="tp {r.tp} does not divide shared_ffn_hidden_size {moe.shared_ffn_hidden_size}",
)
def tp_divides_shared_ffn(s: Situation) -> Condition:
    """Shared experts are split by tp, not by etp (Megatron-Core, `SharedExpertMLP`)."""
    return s.card.moe is None or s.card.moe.shared_ffn_hidden_size % s.columns.tp == 0


@rule(
    "recipe.etp", "model.moe.moe_ffn_hidden_size",
    reason="etp {r.etp} does not divide moe_ffn_hidden_size {moe.moe_ffn_hidden_size}",
)
def etp_divides_expert_ffn(s: Situation) -> Condition:
    """Routed experts are split by etp (Megatron-Core, parallel folding, arXiv:2504.14960)."""
    return s.card.moe is None or s.card.moe.moe_ffn_hidden_size % s.columns.etp == 0


@rule("recipe.ep", "model.moe.num_experts", reason="ep {r.ep} does not divide the {moe.num_experts} routed experts")
def ep_divides_experts(s: Situation) -> Condition:
    """Each expert-parallel rank holds as many experts (Megatron-Core, `BaseMoELayer`)."""
    return s.card.moe is None or s.card.moe.num_experts % s.columns.ep == 0


@rule("recipe.ep", reason="ep is {r.ep} and {card.name} is dense: it has no experts to split")
def ep_needs_moe(s: Situation) -> Condition:
    """Megatron-Core `TransformerConfig`: expert parallelism needs num_moe_experts."""
    return s.card.moe is not None or s.columns.ep == 1


@rule("recipe.etp", reason="etp is {r.etp} and {card.name} is dense: it has no experts to split")
def etp_needs_moe(s: Situation) -> Condition:
    """Expert tensor parallelism splits routed experts only (Megatron-Core, parallel folding, arXiv:2504.14960)."""
    return s.card.moe is not None or s.columns.etp == 1


@rule(
    "recipe.expert_imbalance", "recipe.ep", "model.moe.top_k",
    reason="expert_imbalance is {r.expert_imbalance:g}; with ep {r.ep} the busiest rank can take at most "
    "{s.most_imbalance:g} times the mean, since a token picks {moe.top_k} distinct experts of {moe.num_experts}",
)
def imbalance_is_possible(s: Situation) -> Condition:
    """Counting: see `Situation.most_imbalance`."""
    return s.card.moe is None or s.recipe.expert_imbalance <= s.most_imbalance


@rule(
    "recipe.tp", "recipe.pp", "recipe.cp", "cluster.nodes", "cluster.gpus_per_node",
    reason="tp x cp x pp = {r.tp} x {r.cp} x {r.pp} = {s.model_parallel} does not divide the {s.gpus} GPUs of the cluster, "
    "so that dp = GPUs / (tp x cp x pp) is no whole number of replicas",
)
def replicas_fill_the_cluster(s: Situation) -> Condition:
    """Data-parallel size is GPUs / (tp·cp·pp), experts or not, without idle GPUs (Megatron-Core, `initialize_model_parallel`)."""
    return s.gpus % s.model_parallel == 0


@rule(
    "recipe.ep", "recipe.etp", "recipe.pp",
    reason="etp x ep x pp = {r.etp} x {r.ep} x {r.pp} = {s.expert_parallel} does not divide the {s.gpus} GPUs of the "
    "cluster, so that the replicas of an expert are no whole number",
)
def experts_fill_the_cluster(s: Situation) -> Condition:
    """Expert data-parallel size = GPUs / (etp·ep·pp) (Megatron-Core, `initialize_model_parallel`, expert rank generator)."""
    return s.gpus % s.expert_parallel == 0


@rule(
    "recipe.sequence_parallel", "recipe.tp",
    reason="{card.name} has experts and tp is {r.tp}: this needs sequence_parallel, else every tp rank routes the same tokens",
)
def moe_with_tp_needs_sequence_parallel(s: Situation) -> Condition:
    """Megatron-Core refuses to train MoE with tp > 1 and no sequence parallelism (`MoELayer.forward`)."""
    return s.card.moe is None or (s.columns.tp == 1) | (s.columns.sp > 1)


@rule(
    "recipe.seq_length", "recipe.cp",
    reason="seq_length {r.seq_length} is no multiple of 2 x cp = 2 x {r.cp}: each GPU takes one chunk from the front and "
    "one from the back, so that causal attention is balanced",
)
def cp_divides_sequence(s: Situation) -> Condition:
    """Load-balanced causal context parallelism cuts a sequence into 2·cp chunks (Megatron-Core `get_batch_on_this_cp_rank`)."""
    return implies(s.columns.cp > 1, s.columns.seq_length % (2 * s.columns.cp) == 0)


@rule(
    "recipe.seq_length", "recipe.tp", "recipe.cp", "recipe.sequence_parallel",
    reason="seq_length / cp = {r.seq_length} / {r.cp} is no multiple of tp {r.tp}, by which sequence_parallel splits it",
)
def tp_divides_sequence(s: Situation) -> Condition:
    """Sequence parallelism cuts the tokens of a GPU into tp equal parts (arXiv:2205.05198, section 4.2.2)."""
    return s.columns.seq_length // s.columns.cp % s.columns.sp == 0


@rule(
    "recipe.gbs", "recipe.mbs", "recipe.tp", "recipe.pp", "recipe.cp",
    reason="gbs {r.gbs} is no multiple of mbs x dp = {r.mbs} x {s.dp} = {s.sequences_at_once}",
)
def batch_splits_into_microbatches(s: Situation) -> Condition:
    """Every replica runs the same whole number of microbatches, at least one (Megatron-Core, `ConstantNumMicroBatches`)."""
    return s.columns.gbs % s.sequences_at_once == 0


def _misaligned(s: Situation) -> str:
    tokens, width = _multiples(s)
    sizes = [f"{s.columns.tokens} tokens"] if s.columns.tokens % tokens else []
    sizes += [f"{name} = {size}" for name, size in _widths(s) if size % width]
    return (
        f"{s.recipe.precision.value} GEMMs need token counts that are multiples of {tokens} and widths of {width}; "
        f"one GPU has {', '.join(sizes)}"
    )


@rule("recipe.mbs", "recipe.tp", "recipe.etp", "recipe.seq_length", "recipe.precision", reason=_misaligned)
def low_precision_shapes_align(s: Situation) -> Condition:
    """Transformer Engine refuses fp8 GEMMs of other shapes; expert token counts are padded and do not matter."""
    tokens, width = _multiples(s)
    aligned: Condition = s.columns.tokens % tokens == 0
    for _, size in _widths(s):
        aligned = aligned & (size % width == 0)
    return aligned


def _multiples(s: Situation) -> tuple[int, int]:
    return FP8_MULTIPLES.get(s.recipe.precision, (1, 1))


def _widths(s: Situation) -> list[tuple[str, Quantity]]:
    """Widths of a layer's matrices on one GPU, named."""
    card, columns = s.card, s.columns
    widths: list[tuple[str, Quantity]] = [("hidden_size", card.hidden_size)]
    if s.has_dense_layers:
        widths.append(("ffn_hidden_size / tp", card.ffn_hidden_size // columns.tp))
    if card.moe:
        widths.append(("moe_ffn_hidden_size / etp", card.moe.moe_ffn_hidden_size // columns.etp))
        widths.append(("shared_ffn_hidden_size / tp", card.moe.shared_ffn_hidden_size // columns.tp))
    return widths


RULES = (
    tp_divides_heads,
    tp_fits_query_groups,
    tp_divides_output_groups,
    tp_divides_hidden,
    tp_divides_ffn,
    tp_divides_shared_ffn,
    etp_divides_expert_ffn,
    ep_divides_experts,
    ep_needs_moe,
    etp_needs_moe,
    imbalance_is_possible,
    replicas_fill_the_cluster,
    experts_fill_the_cluster,
    moe_with_tp_needs_sequence_parallel,
    cp_divides_sequence,
    tp_divides_sequence,
    batch_splits_into_microbatches,
    low_precision_shapes_align,
)
