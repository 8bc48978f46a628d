"""Schedules whose stages go round the ranks: GPipe, 1F1B, interleaved 1F1B, ZB-H1, ZB-H2. Each gives the actions of one rank."""

from __future__ import annotations

from projectors.pipeline.actions import JOINED_BIT, Actions, alternate, backward, forward, input_gradient, weight_gradient


def gpipe(microbatches: int) -> Actions:
    """All forwards, then all backwards (arXiv:1811.06965, section 2.2)."""
    return [forward()] * microbatches + [backward()] * microbatches


def one_f_one_b(rank: int, ranks: int, microbatches: int) -> Actions:
    """p - 1 - r forwards to warm up, then one forward, one backward (PipeDream-Flush, arXiv:2104.04473, section 2.2.1)."""
    ahead = min(ranks - 1 - rank, microbatches)
    return [forward()] * ahead + [forward(), backward()] * (microbatches - ahead) + [backward()] * ahead


def interleaved(rank: int, ranks: int, chunks: int, microbatches: int, group: int, *, paired: bool = False) -> Actions:
    """Groups of N microbatches go through one chunk after the other, backward in the opposite order of chunks.

    2(p - 1 - r) + (v - 1)N chunk-forwards warm up (arXiv:2104.04473, section 2.2.2; Megatron-Core `get_schedule_table` and
    `get_pp_rank_microbatches`, where N is `microbatch_group_size_per_vp_stage` and p by default).

    `paired`: each forward and the backward after it run as one block (Megatron-Core `overlap_moe_expert_parallel_comm`), for
    which one more forward warms up, so that the two are of different microbatches.
    """
    forwards = _in_groups([forward(chunk) for chunk in range(chunks)], microbatches, group)
    backwards = _in_groups([backward(chunk) for chunk in reversed(range(chunks))], microbatches, group)
    ahead = min(2 * (ranks - 1 - rank) + (chunks - 1) * group + paired, len(forwards))
    steady = len(forwards) - ahead
    turns = [each | JOINED_BIT for each in forwards[ahead:]] if paired else forwards[ahead:]
    return forwards[:ahead] + alternate(turns, backwards[:steady]) + backwards[steady:]


def _in_groups(each_chunk: Actions, microbatches: int, group: int) -> Actions:
    """Every chunk for a group of microbatches, group after group; the last group has what is left."""
    whole, left = divmod(microbatches, group)
    return [act for act in each_chunk for _ in range(group)] * whole + [act for act in each_chunk for _ in range(left)]


H1 = 1
"""Memory of 1F1B: ZB-H1, arXiv:2401.10241, section 2."""

H2 = 2
"""Twice the warm-up, so that the bubble before the first backward closes: ZB-H2, same place."""


def zero_bubble(rank: int, ranks: int, microbatches: int, handcrafted: int) -> Actions:
    """1F1B with split backward passes; `handcrafted`: 1 for ZB-H1, 2 for ZB-H2 (arXiv:2401.10241, section 2).

    Rank r warms up with `handcrafted` (p - 1 - r) forwards and computes each weight gradient `handcrafted` r microbatches
    after its input gradient, so that every rank holds equally many activations.
    """
    ahead = min(handcrafted * (ranks - 1 - rank), microbatches)
    behind = min(handcrafted * rank, microbatches)
    actions = [forward()] * ahead
    for done in range(microbatches):
        if done < microbatches - ahead:
            actions.append(forward())
        actions.append(input_gradient())
        if done >= behind:
            actions.append(weight_gradient())
    return actions + [weight_gradient()] * behind
