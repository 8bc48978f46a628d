"""Forms made from the typed models: every field can be edited, what is typed is taken as typed, faults stand beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from primus_studio.widgets.form_controls import ChoiceBox, ChoicesBox, SwitchBox, TextBox
from primus_studio.widgets.form_fields import FormField, Kind, form_fields, value_at
from primus_studio.widgets.form_number import NumberBox
from primus_studio.widgets.forms import MORE, Form, Group
from projectors.inputs.cluster import ClusterSpec, Tier
from projectors.inputs.hardware import Efficiency, FrameworkOverhead, HardwareProfile, PeakThroughput
from projectors.inputs.loading import load_study
from projectors.inputs.model_card import CompressedAttention, LatentAttention, MixtureOfExperts, ModelCard, SlidingWindow
from projectors.inputs.recipe import Recipe

STUDY = load_study("mixtral-8x22b-mi355x-4x8")

NOT_IN_A_LINE = {
    ModelCard: {"mla", "compressed_attention", "moe", "sliding_window", "published", "sources"},
    HardwareProfile: {"peak_tflops", "efficiency", "framework", "measured", "notes", "sources"},
    ClusterSpec: {"hardware", "tiers"},
    Tier: {"sources"},
}
"""Parts with fields of their own, and remarks."""

MODELS = (
    Recipe, ModelCard, LatentAttention, CompressedAttention, MixtureOfExperts, SlidingWindow, ClusterSpec, Tier,
    HardwareProfile, PeakThroughput, Efficiency, FrameworkOverhead,
)

Edits = list[tuple[str, Any]]


@pytest.fixture
def form_of(qtbot: QtBot) -> Callable[..., tuple[Form, Edits]]:
    """A form of some recipe fields on screen, showing the shipped Mixtral study, and what is edited in it."""

    def made(*names: str, legal: Any = None) -> tuple[Form, Edits]:
        fields = form_fields(Recipe, "recipe")
        form = Form([Group("Recipe", tuple(fields[name] for name in names))], legal)
        qtbot.addWidget(form)
        edits: Edits = []
        form.edited.connect(lambda path, value: edits.append((path, value)))
        form.show_value(STUDY)
        form.show()
        return form, edits

    return made


def typed(qtbot: QtBot, control: NumberBox | TextBox, text: str) -> None:
    """What a user does: replace the text and press Enter."""
    control.setFocus()
    line = control.lineEdit() if isinstance(control, NumberBox) else control
    line.selectAll()
    qtbot.keyClicks(line, text)
    qtbot.keyClick(control, Qt.Key.Key_Return)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_field_has_a_line_with_title_and_description(model: type[BaseModel]) -> None:
    fields = form_fields(model, "x")
    assert set(model.model_fields) - set(fields) == NOT_IN_A_LINE.get(model, set())
    for name, field in fields.items():
        assert field.title
        assert field.says
        assert field.path == f"x.{name}"


def test_fields_say_what_null_means() -> None:
    recipe, tier = form_fields(Recipe, "recipe"), form_fields(Tier, "t")
    assert recipe["recompute_num_layers"].null == "all"
    assert recipe["stage_layers"].null == "even"
    assert tier["size"].null == "the whole cluster"
    assert recipe["tp"].null is None


def test_bounds_and_units_come_from_the_model() -> None:
    hbm = form_fields(HardwareProfile, "h")["memory_gib"]
    assert (hbm.kind, hbm.unit, hbm.above, hbm.most) == (Kind.NUMBER, "GiB", 0, 65536)
    tp = form_fields(Recipe, "recipe")["tp"]
    assert (tp.kind, tp.least, tp.most) == (Kind.WHOLE, 1, 1_000_000)


def test_titles_spell_the_words_of_the_field() -> None:
    card, mla = form_fields(ModelCard, "m"), form_fields(LatentAttention, "m")
    assert [card["qkv_bias"].title, card["mlp_bias"].title, mla["kv_lora_rank"].title] == ["QKV bias", "MLP bias", "KV LoRA rank"]
    assert form_fields(Tier, "t")["bandwidth_gb_s"].title == "Bandwidth", "the unit stands beside the value"


def test_values_are_found_below_lists_and_missing_parts() -> None:
    assert value_at(STUDY, "cluster.tiers[0].name") == "node"
    assert value_at(STUDY, "model.mla.kv_lora_rank") is None


def test_a_form_shows_the_study_and_says_nothing(form_of: Callable[..., tuple[Form, Edits]]) -> None:
    form, edits = form_of(*Recipe.model_fields)
    control = {path.removeprefix("recipe."): row.control for path, row in form.rows.items()}
    assert control["ep"].read() == 8
    assert control["gbs"].lineEdit().text() == "256 sequences"
    assert control["seq_length"].lineEdit().text() == "8,192 tokens"
    assert control["sequence_parallel"].currentText() == "auto"
    assert control["schedule"].currentText() == STUDY.recipe.schedule.value
    assert control["overlap_grad_reduce"].isChecked()
    assert control["stage_layers"].placeholderText() == "even"
    assert edits == []


@pytest.mark.parametrize(("text", "value"), [
    ("4", 4), ("1,024", 1024), ("8192 tokens", 8192), ("0", 0), ("-3", -3), ("2.5", 2.5), ("4e3", 4000), ("abc", "abc"),
    ("nan", "nan"), ("1e999", "1e999"), ("9" * 40, 10**40 - 1),
])
def test_what_is_typed_is_handed_on_as_typed(
    form_of: Callable[..., tuple[Form, Edits]], qtbot: QtBot, text: str, value: object
) -> None:
    """Judging is the document's: it answers zero, negative, huge and senseless input in words."""
    form, edits = form_of("seq_length")
    if value == STUDY.recipe.seq_length:
        form.rows["recipe.seq_length"].control.show_value(1)
    typed(qtbot, form.rows["recipe.seq_length"].control, text)
    assert edits == [("recipe.seq_length", value)]


def test_the_value_that_stands_there_is_no_edit(form_of: Callable[..., tuple[Form, Edits]], qtbot: QtBot) -> None:
    form, edits = form_of("seq_length")
    typed(qtbot, form.rows["recipe.seq_length"].control, "8192")
    assert edits == []
    assert form.rows["recipe.seq_length"].control.lineEdit().text() == "8,192 tokens"


def test_escape_takes_back_what_was_typed(form_of: Callable[..., tuple[Form, Edits]], qtbot: QtBot) -> None:
    form, edits = form_of("tp")
    box = form.rows["recipe.tp"].control
    box.setFocus()
    qtbot.keyClicks(box.lineEdit(), "77")
    qtbot.keyClick(box, Qt.Key.Key_Escape)
    assert box.read() == STUDY.recipe.tp
    assert edits == []


def test_what_was_refused_can_be_taken_back_by_typing_the_old_value(
    form_of: Callable[..., tuple[Form, Edits]], qtbot: QtBot
) -> None:
    form, edits = form_of("tp", "stage_layers")
    typed(qtbot, form.rows["recipe.tp"].control, "0")
    typed(qtbot, form.rows["recipe.tp"].control, str(STUDY.recipe.tp))
    typed(qtbot, form.rows["recipe.stage_layers"].control, "x")
    qtbot.keyClick(form.rows["recipe.stage_layers"].control, Qt.Key.Key_Escape)
    assert [value for _, value in edits] == [0, STUDY.recipe.tp, "x", None]


def test_leaving_a_field_commits_it(form_of: Callable[..., tuple[Form, Edits]], qtbot: QtBot) -> None:
    form, edits = form_of("tp", "pp")
    box = form.rows["recipe.tp"].control
    form.activateWindow()
    box.setFocus()
    qtbot.waitUntil(box.hasFocus)
    box.lineEdit().selectAll()
    qtbot.keyClicks(box.lineEdit(), "2")
    assert edits == [], "not with every key"
    form.rows["recipe.pp"].control.setFocus()
    assert edits == [("recipe.tp", 2)]


def test_steps_go_through_legal_values(form_of: Callable[..., tuple[Form, Edits]], qtbot: QtBot) -> None:
    asked: list[str] = []

    def legal(path: str) -> tuple[int, ...]:
        asked.append(path)
        return (1, 2, 4, 8)

    form, edits = form_of("ep", legal=legal)
    box = form.rows["recipe.ep"].control
    assert asked == [], "legal values are worked out when a step needs them"
    for key, value in ((Qt.Key.Key_Down, 4), (Qt.Key.Key_Up, 8), (Qt.Key.Key_Up, 8)):
        qtbot.keyClick(box, key)
        if edits:
            box.show_value(edits[-1][1])
        assert box.value == value
    box.show_value(3)
    qtbot.keyClick(box, Qt.Key.Key_Up)
    assert edits[-1] == ("recipe.ep", 4), "from an illegal value to the next legal one"


def test_a_value_that_may_be_null_steps_down_to_it(form_of: Callable[..., tuple[Form, Edits]], qtbot: QtBot) -> None:
    form, edits = form_of("recompute_num_layers", legal=lambda _path: (1, 2, 3))
    box = form.rows["recipe.recompute_num_layers"].control
    box.show_value(1)
    qtbot.keyClick(box, Qt.Key.Key_Down)
    assert edits[-1] == ("recipe.recompute_num_layers", None)
    box.show_value(None)
    qtbot.keyClick(box, Qt.Key.Key_Up)
    assert edits[-1] == ("recipe.recompute_num_layers", 1)


@pytest.mark.parametrize(("present", "steps", "following"), [
    (6144, 1, 6400), (56, 1, 57), (1, -1, 1), (1_000_000, 1, 1_000_000), (128, -1, 120),
])
def test_sizes_without_a_list_step_by_a_part_of_themselves(qtbot: QtBot, present: int, steps: int, following: int) -> None:
    box = NumberBox(form_fields(ModelCard, "model")["hidden_size"], lambda _path: None)
    qtbot.addWidget(box)
    edits: list[Any] = []
    box.edited.connect(edits.append)
    box.show_value(present)
    box.stepBy(steps)
    assert edits == ([] if present == following else [following])


def test_fractions_step_in_their_second_digit_and_stay_in_bounds(qtbot: QtBot) -> None:
    box = NumberBox(form_fields(Recipe, "recipe")["offload_optimizer"], lambda _path: None)
    qtbot.addWidget(box)
    edits: list[Any] = []
    box.edited.connect(edits.append)
    for present, steps in ((0.25, 1), (0.0, 1), (0.0, -1), (1.0, 1)):
        box.show_value(present)
        box.stepBy(steps)
    assert edits == [0.26, 0.1]


def test_lists_of_numbers_are_read_and_what_is_none_is_left_for_the_document(
    form_of: Callable[..., tuple[Form, Edits]], qtbot: QtBot
) -> None:
    form, edits = form_of("stage_layers")
    box = form.rows["recipe.stage_layers"].control
    for text in ("14, 14, 14 14", "14, x"):
        typed(qtbot, box, text)
    box.show_value((1, 2))
    typed(qtbot, box, " ")
    assert [value for _, value in edits] == [[14, 14, 14, 14], "14, x", None]


def test_a_pattern_may_be_a_word_or_numbers(qtbot: QtBot) -> None:
    box = TextBox(form_fields(SlidingWindow, "model.sliding_window")["pattern"])
    qtbot.addWidget(box)
    read = []
    for text in ("alternating", "5:1", "0, 2, 4"):
        box.setText(text)
        read.append(box.read())
    assert read == ["alternating", "5:1", [0, 2, 4]]


def test_choices_switches_and_sets(form_of: Callable[..., tuple[Form, Edits]], qtbot: QtBot) -> None:
    form, edits = form_of("precision", "sequence_parallel", "tp_overlap", "recompute_modules")
    precision, parallel, overlap, modules = (row.control for row in form.rows.values())
    assert isinstance(precision, ChoiceBox)
    assert isinstance(parallel, ChoiceBox)
    assert isinstance(overlap, SwitchBox)
    assert isinstance(modules, ChoicesBox)
    precision.activated.emit(precision.findText("fp8"))
    parallel.activated.emit(parallel.findText("off"))
    overlap.click()
    modules.boxes["mlp"].click()
    modules.boxes["core_attention"].click()
    assert edits == [
        ("recipe.precision", "fp8"), ("recipe.sequence_parallel", False), ("recipe.tp_overlap", True),
        ("recipe.recompute_modules", ["mlp"]), ("recipe.recompute_modules", ["core_attention", "mlp"]),
    ]


def test_a_wheel_over_the_form_changes_nothing(form_of: Callable[..., tuple[Form, Edits]]) -> None:
    form, edits = form_of("tp", "precision")
    form.clearFocus()
    for row in form.rows.values():
        wheel = QWheelEvent(
            QPointF(5, 5), QPointF(5, 5), QPoint(), QPoint(0, 120), Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier,
            Qt.ScrollPhase.NoScrollPhase, False,
        )
        row.control.clearFocus()
        QApplication.sendEvent(row.control, wheel)
        assert not wheel.isAccepted()
    assert edits == []


def test_a_fault_stands_under_its_field_with_a_click_that_mends_it(
    form_of: Callable[..., tuple[Form, Edits]], qtbot: QtBot
) -> None:
    form, edits = form_of("tp")
    row = form.rows["recipe.tp"]
    form.show_problem("recipe.tp", "tp 3 does not divide the 48 attention heads", 2)
    assert row.reason.isVisible()
    assert "48 attention heads" in row.reason.words.toolTip()
    assert "48 attention heads" in row.control.accessibleDescription()
    assert row.reason.button.text() == "Use 2"
    qtbot.mouseClick(row.reason.button, Qt.MouseButton.LeftButton)
    assert edits == [("recipe.tp", 2)]
    form.show_problem("recipe.tp", "")
    assert not row.reason.isVisible()
    assert "48" not in row.control.accessibleDescription()


def test_advanced_fields_are_folded_until_one_is_at_fault(qtbot: QtBot) -> None:
    fields = form_fields(ModelCard, "model")
    form = Form([Group("Attention", (fields["num_attention_heads"], fields["qk_norm"]))])
    qtbot.addWidget(form)
    form.show()
    (more,) = (section for section in form.sections if section.group.title == MORE)
    assert not more.unfolded
    form.show_problem("model.qk_norm", "some reason")
    assert more.unfolded
    qtbot.mouseClick(more.header, Qt.MouseButton.LeftButton)
    assert not more.unfolded


def test_an_optional_part_is_asked_for_with_a_check_box(qtbot: QtBot) -> None:
    own = tuple(form_fields(LatentAttention, "model.mla").values())
    form = Form([Group("Latent attention", own, part="model.mla")])
    qtbot.addWidget(form)
    form.show()
    form.show_value(STUDY)
    (section,) = form.sections
    assert not section.unfolded
    switched: list[tuple[str, bool]] = []
    form.part_switched.connect(lambda path, wanted: switched.append((path, wanted)))
    section.header.click()
    assert switched == [("model.mla", True)]


def test_labels_lead_to_their_controls(form_of: Callable[..., tuple[Form, Edits]], qtbot: QtBot) -> None:
    form, edits = form_of("tp", "tp_overlap")
    form.activateWindow()
    for row in form.rows.values():
        assert row.label.buddy() is row.control
        assert row.field.says in row.label.toolTip()
    qtbot.mouseClick(form.rows["recipe.tp_overlap"].label, Qt.MouseButton.LeftButton)
    assert edits == [("recipe.tp_overlap", True)]


def test_every_control_has_a_name(form_of: Callable[..., tuple[Form, Edits]]) -> None:
    form, _ = form_of(*Recipe.model_fields)
    assert nameless(form) == []


def nameless(parent: QWidget) -> list[QWidget]:
    """Widgets that take the keyboard and tell a screen reader nothing."""
    return [
        widget for widget in parent.findChildren(QWidget)
        if widget.focusPolicy() != Qt.FocusPolicy.NoFocus and widget.focusProxy() is None and not widget.accessibleName()
    ]


def test_groups_come_and_go_and_keep_their_widgets(qtbot: QtBot) -> None:
    fields: dict[str, FormField] = form_fields(Recipe, "recipe")
    one, two = Group("One", (fields["tp"],)), Group("Two", (fields["pp"],))
    form = Form([one, two])
    qtbot.addWidget(form)
    form.show()
    box = form.rows["recipe.pp"].control
    form.arrange([one])
    assert list(form.rows) == ["recipe.tp"]
    assert not box.isVisible()
    form.arrange([one, two])
    assert form.rows["recipe.pp"].control is box
    assert box.isVisible()


def test_a_form_made_ahead_is_shown_without_making_anything(qtbot: QtBot) -> None:
    fields = form_fields(Recipe, "recipe")
    groups = (
        Group("Split", (fields["tp"], fields["pp"]), groups=(Group("Inside", (fields["mbs"],)),)),
        Group("Memory", (fields["recompute"],)),
    )
    form = Form()
    qtbot.addWidget(form)
    form.show()
    steps = sum(1 for _ in form.make_ahead(groups))
    assert steps == 4 + 2, "one line at a step, then each group"
    made = set(form.findChildren(QWidget))
    assert made and not any(widget.isVisible() for widget in made)
    form.arrange(groups)
    assert set(form.findChildren(QWidget)) == made
    assert form.rows["recipe.mbs"].control.isVisible()
    assert list(form.make_ahead(groups)) == []
