"""Panel: the recipe, how the model is spread over the cluster and trained."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from PySide6.QtWidgets import QFrame, QHBoxLayout, QWidget

from primus_studio.panels.editor import Editor, rest
from primus_studio.theme.tokens import SPACE
from primus_studio.widgets.form_fields import form_fields
from primus_studio.widgets.forms import Form, Group
from primus_studio.widgets.labels import ElidedLabel
from primus_studio.widgets.library_box import LibraryBox
from projectors.columns import columns_of
from projectors.inputs import library
from projectors.inputs.recipe import Recipe, Recompute, Schedule, Sharding
from projectors.inputs.study import Study

if TYPE_CHECKING:
    from primus_studio.panels.panel import PanelContext

GROUPS: tuple[tuple[str, str], ...] = (
    ("Parallelism", "tp pp vpp cp ep etp"),
    ("Batch", "mbs gbs seq_length"),
    ("Precision and recompute", "precision cross_entropy_fusion recompute recompute_num_layers recompute_modules"),
    ("Pipeline", "schedule microbatch_group_size max_in_flight overlap_p2p post_validation stage_layers"),
    ("Sharding and overlap",
     "sharding shard_group overlap_grad_reduce overlap_param_gather sequence_parallel tp_overlap grad_reduce_dtype"),
    ("Experts", "moe_dispatch moe_overlap expert_imbalance"),
    ("Optimizer", "optimizer master_weights offload_optimizer"),
)
"""Titles, and names of fields in the order of the form; fields named nowhere stand in the last group."""

SCHEDULE_NEEDS = {
    "microbatch_group_size": (Schedule.INTERLEAVED, Schedule.AUTO),
    "max_in_flight": (Schedule.ZB_AUTO, Schedule.AUTO),
}
"""Fields that mean something to some schedules only."""

VALIDATED = (Schedule.AUTO, *(schedule for schedule in Schedule if schedule.splits_backward))
"""Schedules whose ranks may take their optimizer step at different times."""


def create(context: PanelContext) -> QWidget:
    """The panel, editing the recipe of the document of `context`."""
    derived = ElidedLabel("")
    derived.setObjectName("derived")
    card = QFrame()
    card.setProperty("card", True)
    layout = QHBoxLayout(card)
    layout.setContentsMargins(SPACE, SPACE // 2, SPACE, SPACE // 2)
    layout.addWidget(derived)

    framework = LibraryBox("Framework", "A framework of the library, or the path of one", library.names("frameworks"))

    def show(study: Study, form: Form) -> None:
        framework.show_name(study.framework.name, study.framework.title)
        derived.setText(derived_words(study))
        for path, applies in applicable(study).items():
            form.enable(path, applies)

    panel = Editor(context, lambda _study: recipe_groups(), [card, framework], show, companions=companions)
    framework.chosen.connect(lambda name: panel.choose(framework, "framework", name, f"Train with {name}"))
    return panel


@lru_cache(maxsize=1)
def recipe_groups() -> tuple[Group, ...]:
    """The form of a recipe."""
    fields = form_fields(Recipe, "recipe")
    groups = [Group(title, tuple(fields[name] for name in names.split())) for title, names in GROUPS]
    left = rest(fields, " ".join(names for _, names in GROUPS).split())
    return (*groups, Group("Other", left)) if left else tuple(groups)


def derived_words(study: Study) -> str:
    """What follows from recipe and cluster: GPUs, data-parallel sizes, microbatches per replica and step."""
    columns = columns_of(study.recipe, study.cluster)
    if columns.dp < 1:
        return f"One replica takes more than {counted(study.cluster.gpus, 'GPU')}"
    experts = f" · edp {columns.expert_dp:,}" if study.model.moe else ""
    gpus, batches = study.cluster.gpus, int(columns.microbatches)
    return f"{counted(gpus, 'GPU')} · dp {columns.dp:,}{experts} · {counted(batches, 'microbatch', 'es')}"


def counted(number: int, thing: str, plural: str = "s") -> str:
    """A number of things, such as 1 GPU or 32 GPUs."""
    return f"{number:,} {thing}{'' if number == 1 else plural}"


def applicable(study: Study) -> dict[str, bool]:
    """Whether fields mean something beside the present values of others; one that holds a value can always be reset."""
    recipe, moe = study.recipe, study.model.moe is not None
    of_schedules = {
        f"recipe.{name}": recipe.schedule in schedules or getattr(recipe, name) is not None
        for name, schedules in SCHEDULE_NEEDS.items()
    }
    return {
        "recipe.recompute_num_layers": recipe.recompute is Recompute.FULL or recipe.recompute_num_layers is not None,
        "recipe.recompute_modules": recipe.recompute is Recompute.SELECTIVE or bool(recipe.recompute_modules),
        **of_schedules,
        "recipe.post_validation": recipe.schedule in VALIDATED or recipe.post_validation,
        "recipe.shard_group": recipe.sharding is Sharding.HSDP or recipe.shard_group is not None,
        "recipe.ep": moe or recipe.ep > 1,
        "recipe.etp": moe or recipe.etp > 1,
        "recipe.moe_dispatch": moe or recipe.moe_dispatch is not Recipe.model_fields["moe_dispatch"].default,
        "recipe.moe_overlap": moe or recipe.moe_overlap,
        "recipe.expert_imbalance": moe or recipe.expert_imbalance > 1,
    }


def companions(study: Study, path: str, value: Any) -> Mapping[str, Any]:
    """What a new value makes meaningless is reset in the same step; hsdp starts with shard groups of one node."""
    if path == "recipe.recompute":
        layers = {} if value == Recompute.FULL else {"recipe.recompute_num_layers": None}
        return layers if value == Recompute.SELECTIVE else {**layers, "recipe.recompute_modules": []}
    if path == "recipe.schedule":
        unused: dict[str, Any] = {f"recipe.{name}": None for name, needs in SCHEDULE_NEEDS.items() if value not in needs}
        return unused if value in VALIDATED else {**unused, "recipe.post_validation": False}
    if path == "recipe.sharding":
        return {"recipe.shard_group": study.cluster.gpus_per_node if value == Sharding.HSDP else None}
    return {}
