"""Peak bytes of one GPU of every pipeline rank, by component, for one recipe or many.

Everything is a product of what a part needs and how often a virtual stage holds it; arrays are [ranks, n].
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from projectors.columns import Columns, Quantity
from projectors.inputs.hardware import HardwareProfile
from projectors.inputs.model_card import ModelCard
from projectors.inputs.recipe import MoeDispatch, Recompute
from projectors.memory.overhead import Overhead, overhead
from projectors.memory.parts import Floats, Parts
from projectors.memory.state import FP8_CASTS_PER_WEIGHT, shard_sizes, state_bytes
from projectors.pipeline import live_chunks
from projectors.results import MemoryComponent
from projectors.stages import StagePlan, part_counts, recomputed_counts

PREFETCHED_LAYERS = 2
"""Sharded parameters gathered at a time: the layer in use and the next one (PyTorch FSDP2 prefetches one)."""

PIPELINE_BUFFERS = 2
"""Boundary tensors beside the saved ones: one activation and one gradient being received."""

DEEPEP_BUFFER_COPIES = 4
"""DeepEP's send and receive buffers, each for twice the mean of the token copies (Primus, facts 1.8)."""


@dataclass(frozen=True, slots=True)
class RankBytes:
    """Bytes by component, [ranks, n], and what the activations consist of."""

    components: dict[MemoryComponent, Floats]
    in_flight: Floats           # microbatch equivalents live at the peak
    live: NDArray[np.int64]     # [ranks, chunks, n]: live microbatches of each chunk at the peak
    dense_parameters: Floats
    expert_parameters: Floats
    chunk_bytes: Floats         # [ranks, chunks, n]: activations and logits of one microbatch
    overhead: Overhead

    @property
    def total(self) -> Floats:
        return sum(self.components.values(), start=np.zeros_like(self.in_flight))


def rank_bytes(card: ModelCard, hardware: HardwareProfile, columns: Columns, plan: StagePlan, parts: Parts) -> RankBytes:
    """Peak bytes per pipeline rank. The recipe must be legal: degrees divide what they split."""
    counts = part_counts(plan)
    dense, expert, matrices = (
        _by_rank(plan, counts @ values) for values in (parts.dense_parameters, parts.expert_parameters, parts.matrix_parameters)
    )
    parameters, gradients, optimizer = _model_state(columns, dense, expert, matrices)
    saved, recompute_transient = _saved(columns, plan, parts, counts)
    if plan.ranks > 1 and columns.framework.boundary_copies:
        saved = saved + columns.framework.boundary_copies * boundary_bytes(card, columns)
    of_logits = counts @ parts.logits
    activations, logits, live = _at_peak(columns, plan, saved, of_logits)
    held = counts > 0
    logits, transient = _at_worst_moment(plan, parts, held, of_logits, logits, recompute_transient)
    buffers = _communication_buffers(card, columns, plan, parts, held, dense.shape)
    tensors = parameters + gradients + optimizer + activations + logits + buffers + transient
    beside = overhead(card, hardware, columns, tensors)
    components = {
        MemoryComponent.PARAMETERS: parameters,
        MemoryComponent.GRADIENTS: gradients,
        MemoryComponent.OPTIMIZER: optimizer,
        MemoryComponent.ACTIVATIONS: activations,
        MemoryComponent.LOGITS: logits,
        MemoryComponent.COMMUNICATION_BUFFERS: buffers + beside.communicators,
        MemoryComponent.TEMPORARY: transient,
        MemoryComponent.FRAMEWORK: beside.framework,
    }
    chunks = (saved + of_logits)[plan.stages_of]
    return RankBytes(components, live.sum(axis=1) / plan.chunks, live, dense, expert, chunks, beside)


def _model_state(columns: Columns, dense: Floats, expert: Floats, matrices: Floats) -> tuple[Floats, Floats, Floats]:
    """Weights (with fp8 casts), gradients and optimizer state of each rank after sharding."""
    each = state_bytes(columns)
    dense_shards, expert_shards = shard_sizes(columns)
    sharding = columns.sharding

    def sharded(dense_elements: Floats, expert_elements: Floats, on: bool) -> Floats:
        return dense_elements / dense_shards + expert_elements / expert_shards if on else dense_elements + expert_elements

    weights = each.weight * sharded(dense, expert, sharding.parameters)
    cast = columns.fp8 and not sharding.parameters
    casts = FP8_CASTS_PER_WEIGHT * columns.operand_bytes * (matrices if cast else np.zeros_like(matrices))
    gradients = each.gradient * sharded(dense, expert, sharding.gradients)
    if columns.framework.gradient_buckets and not sharding.optimizer:
        reduced = (dense * (np.asarray(dense_shards) > 1), expert * (np.asarray(expert_shards) > 1))
        gradients = gradients + each.gradient * (reduced[0] + reduced[1])
    dense_matrices = np.maximum(matrices - expert, 0)
    moments = each.matrix_moments * sharded(dense_matrices, expert, sharding.optimizer) + each.other_moments * sharded(
        dense - dense_matrices, np.zeros_like(expert), sharding.optimizer
    )
    optimizer = (each.master * sharded(dense, expert, sharding.optimizer) + moments) * (1 - columns.offload_optimizer)
    return weights + casts, gradients, optimizer


def _saved(columns: Columns, plan: StagePlan, parts: Parts, counts: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Bytes that each virtual stage keeps of one microbatch, [V, n], and what recompute needs again in backward, [ranks, n]."""
    if columns.recompute is not Recompute.FULL:
        dropped = parts.saved_in_full - parts.saved
        return counts @ parts.saved, _largest_by_rank(plan, counts > 0, dropped)
    again = recomputed_counts(plan, columns)
    only_input = parts.saved - parts.input
    return counts @ parts.saved - again @ only_input, _largest_by_rank(plan, again > 0, only_input)


def _at_worst_moment(
    plan: StagePlan, parts: Parts, held: NDArray[np.bool_], of_logits: Floats, logits: Floats, recompute: Floats
) -> tuple[Floats, Floats]:
    """Logits and transients at the worse of two moments of a backward pass: in the loss and the head, or, when the logits of
    that microbatch are gone, in another part with what recompute makes again. [ranks, n] each."""
    of_one = of_logits[plan.stages_of].max(axis=1)  # logits of one microbatch on the ranks that have the head
    others = held.copy()
    others[:, -1] = False
    head_transient = np.where(of_one > 0, parts.transient[-1], 0.0)
    in_layers = _largest_by_rank(plan, others, parts.transient) + recompute
    in_head = of_one + head_transient >= in_layers
    return np.where(in_head, logits, logits - of_one), np.where(in_head, head_transient, in_layers)


def _at_peak(columns: Columns, plan: StagePlan, saved: Floats, logits: Floats) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Activations, logits and live microbatches per chunk at each rank's peak.

    The order of passes decides which chunks can be live together; the peak is the dearest of these sets.
    """
    saved_chunks, logit_chunks = saved[plan.stages_of], logits[plan.stages_of]  # [ranks, chunks, n]
    recipes = saved.shape[1]
    activations = np.empty((plan.ranks, recipes))
    kept_logits = np.empty((plan.ranks, recipes))
    live = np.empty((plan.ranks, plan.chunks, recipes), dtype=np.int64)
    for chosen, sets in _live_sets(columns, plan, recipes):
        kept = np.einsum("rkc,rcn->rkn", sets, saved_chunks[:, :, chosen])
        of_logits = np.einsum("rkc,rcn->rkn", sets, logit_chunks[:, :, chosen])
        if sets.shape[1] == 1:
            activations[:, chosen], kept_logits[:, chosen] = kept[:, 0], of_logits[:, 0]
            live[:, :, chosen] = sets[:, 0, :, None]
            continue
        dearest = np.argmax(kept + of_logits, axis=1)[:, None]  # [ranks, 1, n]
        activations[:, chosen] = np.take_along_axis(kept, dearest, axis=1)[:, 0]
        kept_logits[:, chosen] = np.take_along_axis(of_logits, dearest, axis=1)[:, 0]
        live[:, :, chosen] = np.moveaxis(sets[np.arange(plan.ranks)[:, None], dearest[:, 0]], 2, 1)
    return activations, kept_logits, live


def _live_sets(columns: Columns, plan: StagePlan, recipes: int) -> Iterator[tuple[NDArray[np.intp], NDArray[np.int64]]]:
    """Recipes with the same live sets, and those sets as one array [ranks, k, chunks], padded with empty ones."""
    microbatches = np.broadcast_to(np.asarray(columns.microbatches), (recipes,))
    numbers, group = np.unique(microbatches, return_inverse=True)
    distinct: dict[int, tuple[int, tuple[NDArray[np.int64], ...]]] = {}
    which = np.empty(len(numbers), dtype=np.int64)  # of the distinct sets each number of microbatches has
    for position, number in enumerate(numbers):
        sets = live_chunks(
            columns.schedule, plan.ranks, plan.chunks, int(number), columns.microbatch_group_size,
            limit=columns.max_in_flight, paired=columns.pairs_passes,
        )
        which[position] = distinct.setdefault(id(sets), (len(distinct), sets))[0]
    of_recipe = which[group]
    for index, sets in distinct.values():
        padded = np.zeros((plan.ranks, max(len(rows) for rows in sets), plan.chunks), dtype=np.int64)
        for rank, rows in enumerate(sets):
            padded[rank, : len(rows)] = rows
        yield np.flatnonzero(of_recipe == index), padded


def _communication_buffers(
    card: ModelCard, columns: Columns, plan: StagePlan, parts: Parts, held: NDArray[np.bool_], shape: tuple[int, ...]
) -> Floats:
    """Tensors of communication: pipeline receive buffers, DeepEP buffers, gathered shards."""
    element = columns.activation_bytes
    buffers = np.zeros(shape)
    if plan.ranks > 1:
        buffers += PIPELINE_BUFFERS * boundary_bytes(card, columns)
    if card.moe and columns.moe_dispatch not in (MoeDispatch.ALLTOALL, MoeDispatch.ALLGATHER):
        copies = card.moe.top_k * columns.tokens_sp * (np.asarray(columns.ep) > 1)
        buffers += DEEPEP_BUFFER_COPIES * copies * card.hidden_size * element
    largest = _largest_by_rank(plan, held, parts.dense_parameters + parts.expert_parameters)
    if columns.sharding.parameters:
        buffers += PREFETCHED_LAYERS * largest * columns.weight_bytes
    if columns.sharding.gradients:
        buffers += largest * state_bytes(columns).gradient
    return buffers


def boundary_bytes(card: ModelCard, columns: Columns) -> Quantity:
    """What one pipeline rank sends to the next of one microbatch."""
    return columns.tokens_sp * card.residual_width * columns.activation_bytes


def _by_rank(plan: StagePlan, values: Floats) -> Floats:
    """Sum over the chunks of each rank: [V, n] to [ranks, n]."""
    summed: Floats = values[plan.stages_of].sum(axis=1)
    return summed


def _largest_by_rank(plan: StagePlan, held: NDArray[np.bool_], values: Floats) -> Floats:
    """Largest value among the parts that a rank holds: [V, P] and [P, n] to [ranks, n]."""
    held_by_rank = np.any(held[plan.stages_of], axis=1)  # [ranks, P]
    largest: Floats = np.where(np.expand_dims(held_by_rank, 2), values[None], 0.0).max(axis=1)
    return largest
