"""Rules of the pipeline: layers over virtual stages, and which schedule runs them."""

from __future__ import annotations

from projectors.inputs.model_card import ModelCard
from projectors.inputs.recipe import Recipe, Recompute, Schedule
from projectors.legality.rule import Condition, Situation, rule
from projectors.pipeline import V_CHUNKS, applicable

SCHEDULES = tuple(schedule for schedule in Schedule if schedule is not Schedule.AUTO)


@rule("recipe.vpp", "recipe.pp", reason="vpp is {r.vpp} and pp is 1: virtual stages interleave pipeline ranks, and there is one")
def virtual_stages_need_a_pipeline(s: Situation) -> Condition:
    """Megatron-Core: the interleaved schedule needs more than one pipeline rank (`get_forward_backward_func`)."""
    return s.recipe.vpp == 1 or s.recipe.pp > 1


@rule(
    "recipe.vpp", "recipe.pp", "model.num_layers",
    reason="pp x vpp = {r.pp} x {r.vpp} = {s.virtual_stages} virtual stages are more than the {card.num_layers} layers; "
    "state stage_layers if some are to stay empty",
)
def layers_reach_every_stage(s: Situation) -> Condition:
    """Every virtual stage has at least one layer. The count need not divide: DeepSeek-V3 trains 61 layers on 16 ranks
    (arXiv:2412.19437, section 3.2)."""
    return s.recipe.stage_layers is not None or s.virtual_stages <= s.card.num_layers


@rule(
    "recipe.stage_layers", "recipe.pp", "recipe.vpp",
    reason="stage_layers has {s.stages_stated} entries, pp x vpp = {r.pp} x {r.vpp} needs {s.virtual_stages}",
)
def stage_layers_name_every_stage(s: Situation) -> Condition:
    """One count per virtual stage (the study's own format; Megatron-Core's `pipeline_model_parallel_layout` alike)."""
    return s.recipe.stage_layers is None or len(s.recipe.stage_layers) == s.virtual_stages


@rule(
    "recipe.stage_layers", "model.num_layers",
    reason="stage_layers adds up to {s.layers_stated}, {card.name} has {card.num_layers} layers",
)
def stage_layers_hold_the_model(s: Situation) -> Condition:
    """Each layer stands on exactly one virtual stage."""
    return s.recipe.stage_layers is None or sum(s.recipe.stage_layers) == s.card.num_layers


def chunk_counts(card: ModelCard, recipe: Recipe, schedule: Schedule) -> tuple[int, ...]:
    """Virtual stages per rank with which a schedule is worth a look: the number that it needs; for the interleaved one the
    recipe's own and each that gives every virtual stage equally many layers."""
    if schedule is not Schedule.INTERLEAVED:
        return (V_CHUNKS,) if schedule.v_shaped else (1,)
    most = card.num_layers // recipe.pp if recipe.pp > 1 else 1
    even = {chunks for chunks in range(2, most + 1) if card.num_layers % (recipe.pp * chunks) == 0}
    own = {recipe.vpp} if recipe.vpp > 1 else set()
    return tuple(sorted(even | own)) or (2,)


def _schedule_faults(s: Situation) -> str:
    faults = {schedule.value: str(_fault(s, schedule)) for schedule in _options(s)}
    return "; ".join(fault if fault.startswith(name) else f"{name}: {fault}" for name, fault in faults.items())


@rule(
    "recipe.vpp", "recipe.gbs", "recipe.microbatch_group_size", "recipe.schedule", "recipe.mbs", reason=_schedule_faults
)
def schedule_fits(s: Situation) -> Condition:
    """What each schedule demands of ranks, chunks and microbatches: `projectors.pipeline.applicable`, with its sources."""
    return any(_fault(s, schedule) is None for schedule in _options(s))


def _options(s: Situation) -> tuple[Schedule, ...]:
    """The schedule, or for auto those that the rest of the recipe allows (rules on groups, limits and split backward passes)."""
    if s.recipe.schedule is not Schedule.AUTO:
        return (s.recipe.schedule,)
    if s.recipe.microbatch_group_size is not None:
        return (Schedule.INTERLEAVED,)
    if s.recipe.max_in_flight is not None:
        return (Schedule.ZB_AUTO,)
    return tuple(
        schedule
        for schedule in SCHEDULES
        if (s.recipe.pp > 1 and _keeps_inputs(s, schedule) if schedule.splits_backward else not s.recipe.post_validation)
    )


def _keeps_inputs(s: Situation, schedule: Schedule) -> bool:
    """Whether weight gradients that run later find their inputs although activations are dropped."""
    if s.recipe.recompute is Recompute.SELECTIVE:
        return schedule in (Schedule.DUALPIPE, Schedule.DUALPIPE_V)
    return s.recipe.recompute is Recompute.NONE


def _fault(s: Situation, schedule: Schedule) -> str | None:
    microbatches = int(s.microbatches)
    if microbatches < 1:
        return None  # the batch is at fault, and its own rule says so
    group = s.recipe.microbatch_group_size if schedule is Schedule.INTERLEAVED else None
    return applicable(schedule, s.recipe.pp, s.recipe.vpp * schedule.copies, microbatches, group)


@rule(
    "recipe.microbatch_group_size", "recipe.schedule",
    reason="microbatch_group_size is {r.microbatch_group_size} and schedule is {r.schedule.value}: only interleaved works in "
    "groups of microbatches",
)
def groups_need_the_interleaved_schedule(s: Situation) -> Condition:
    """Megatron-Core `ModelParallelConfig`: microbatch_group_size_per_vp_stage is read by the interleaved schedule alone."""
    return s.recipe.microbatch_group_size is None or s.recipe.schedule in (Schedule.INTERLEAVED, Schedule.AUTO)


@rule(
    "recipe.max_in_flight", "recipe.schedule",
    reason="max_in_flight is {r.max_in_flight} and schedule is {r.schedule.value}: every schedule but zb-auto has its own number "
    "of microbatches in flight",
)
def limits_need_the_automatic_schedule(s: Situation) -> Condition:
    """The limit on activations is an input of the automatic schedule alone (arXiv:2401.10241, section 3)."""
    return s.recipe.max_in_flight is None or s.recipe.schedule in (Schedule.ZB_AUTO, Schedule.AUTO)


@rule(
    "recipe.overlap_p2p", "recipe.pp", "recipe.schedule",
    reason="interleaved without overlap_p2p needs pp above 2, found {r.pp}: with two ranks each would send and receive with the "
    "other in both directions at once",
)
def interleaving_two_ranks_needs_overlap(s: Situation) -> Condition:
    """Megatron-LM `validate_args`: the interleaved schedule needs more than two pipeline ranks unless p2p overlaps."""
    return s.recipe.overlap_p2p or s.recipe.schedule is not Schedule.INTERLEAVED or s.recipe.pp != 2


@rule(
    "recipe.post_validation", "recipe.schedule",
    reason="post_validation with {r.schedule.value}: it lets the ranks of a zero-bubble schedule take their optimizer step at "
    "different times; others have no use for it",
)
def post_validation_needs_zero_bubble(s: Situation) -> Condition:
    """arXiv:2401.10241, section 4; sail-sg/zero-bubble-pipeline-parallelism has it for its zero-bubble schedules only."""
    return not s.recipe.post_validation or s.recipe.schedule.splits_backward or s.recipe.schedule is Schedule.AUTO


@rule(
    "recipe.schedule", "recipe.pp",
    reason="{r.schedule.value} splits the backward pass to fill the pipeline's bubble, and pp is 1: there is no bubble, only "
    "activations that stay longer",
)
def split_backward_needs_a_pipeline(s: Situation) -> Condition:
    """The zero-bubble schedules are defined on several ranks (arXiv:2401.10241, section 2)."""
    return s.recipe.pp > 1 or not s.recipe.schedule.splits_backward


@rule(
    "recipe.recompute", "recipe.schedule",
    reason="recompute {r.recompute.value} with {r.schedule.value}: weight gradients that run later need the recomputed "
    "inputs, which would have to be kept until then",
)
def recompute_needs_a_whole_backward(s: Situation) -> Condition:
    """Primus refuses recompute with schedules that split off the weight gradients: they pin the recomputed inputs. DualPipe
    defers them only while it fills and drains; DeepSeek-V3 was trained with it and dropped norms and MLA up-projections
    (arXiv:2412.19437, sections 3.2.1 and 3.2.3)."""
    return not s.recipe.schedule.splits_backward or _keeps_inputs(s, s.recipe.schedule)


RULES = (
    virtual_stages_need_a_pipeline,
    layers_reach_every_stage,
    stage_layers_name_every_stage,
    stage_layers_hold_the_model,
    schedule_fits,
    groups_need_the_interleaved_schedule,
    limits_need_the_automatic_schedule,
    interleaving_two_ranks_needs_overlap,
    post_validation_needs_zero_bubble,
    split_backward_needs_a_pipeline,
    recompute_needs_a_whole_backward,
)
