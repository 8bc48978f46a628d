"""Panel: the model card, the architecture that is trained."""

from __future__ import annotations

from functools import lru_cache
from math import gcd
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QFrame, QHBoxLayout, QWidget

from primus_studio.panels.editor import Editor, fault_words, rest
from primus_studio.theme.tokens import SPACE
from primus_studio.widgets.form_fields import form_fields
from primus_studio.widgets.forms import Form, Group
from primus_studio.widgets.labels import ElidedLabel
from primus_studio.widgets.library_box import LibraryBox
from projectors.inputs import library
from projectors.inputs.describe import Frozen
from projectors.inputs.model_card import (
    CompressedAttention,
    LatentAttention,
    MixtureOfExperts,
    ModelCard,
    SlidingWindow,
    attention_name,
)
from projectors.inputs.study import Study
from projectors.text import count_text
from projectors.workload.parameters import model_parameters

if TYPE_CHECKING:
    from primus_studio.panels.panel import PanelContext

SIZE = ("name", "num_layers", "hidden_size", "ffn_hidden_size", "vocab_size", "max_seq_len", "tied_embeddings", "mtp_layers")
ATTENTION = (
    "num_attention_heads", "num_query_groups", "head_dim", "position_embedding", "qkv_bias", "o_bias", "qk_norm", "attn_sinks",
)
EXPERTS = ("router_bias", "expert_bias")

PARTS: dict[str, tuple[type[Frozen], str, str]] = {
    "mla": (LatentAttention, "Latent attention (MLA)", "deepseek-v3"),
    "sliding_window": (SlidingWindow, "Sliding window", "gemma2-27b"),
    "compressed_attention": (CompressedAttention, "Compressed attention (CSA/HCA)", "deepseek-v4-flash"),
    "moe": (MixtureOfExperts, "Mixture of experts", "mixtral-8x22b"),
}
"""Optional parts of a card: type, title, and the shipped card whose figures a new one starts from."""


def create(context: PanelContext) -> QWidget:
    """The panel, editing the model of the document of `context`."""
    start = LibraryBox("Start from", "A model card of the library, or the path of one", library.names("models"))
    facts = ElidedLabel("")
    facts.setObjectName("facts")
    card = QFrame()
    card.setProperty("card", True)
    layout = QHBoxLayout(card)
    layout.setContentsMargins(SPACE, SPACE // 2, SPACE, SPACE // 2)
    layout.addWidget(facts)

    def show(study: Study, _form: Form) -> None:
        start.show_name(study.model.name, "\n".join(study.model.sources))
        facts.setText(model_words(study.model))

    def switch(path: str, wanted: bool) -> None:
        study = context.document.study
        name = path.rpartition(".")[2]
        if study is None:
            return
        title = PARTS[name][1]
        if wanted:
            error = panel.edit("model", with_part(study.model, name).model_dump(mode="json"), f"Add {title}")
            if error is not None:
                panel.form.show_part_problem(path, fault_words("model", error))
        else:
            panel.edit(path, None, f"Remove {title}")

    panel = Editor(context, lambda _study: model_groups(), [start, card], show, on_switch=switch)
    start.chosen.connect(lambda name: panel.choose(start, "model", name, f"Start from {name}"))
    return panel


@lru_cache(maxsize=1)
def model_groups() -> tuple[Group, ...]:
    """The form of a model card."""
    fields = form_fields(ModelCard, "model")
    others = rest(fields, [*SIZE, *ATTENTION, *EXPERTS])

    def part(name: str, beside: tuple[str, ...] = ()) -> Group:
        model, title, _ = PARTS[name]
        own = tuple(form_fields(model, f"model.{name}").values())
        says = ModelCard.model_fields[name].description or ""
        return Group(title, (*own, *(fields[other] for other in beside)), part=f"model.{name}", says=says)

    attention = (part("mla"), part("sliding_window"), part("compressed_attention"))
    return (
        Group("Size", tuple(fields[name] for name in SIZE)),
        Group("Attention", tuple(fields[name] for name in ATTENTION), groups=attention),
        part("moe", EXPERTS),
        Group("Layers", others),
    )


def model_words(card: ModelCard) -> str:
    """Parameters and the kind of attention and MLP."""
    count = model_parameters(card)
    active = f" · {count_text(count.active)} active" if card.moe else ""
    return f"{count_text(count.total)} parameters{active} · {attention_name(card)}"


def with_part(card: ModelCard, name: str) -> ModelCard:
    """The card with an optional part added that starts from a shipped card's figures; what excludes it goes.

    Raises ValidationError where the card cannot have it.
    """
    model = library.model(PARTS[name][2])
    changes: dict[str, object] = {name: getattr(model, name)}
    if name == "mla":
        changes["compressed_attention"] = None
    if name == "compressed_attention" and model.compressed_attention is not None:
        ratios = model.compressed_attention.compress_ratios
        repeats = -(-card.num_layers // len(ratios))
        changes[name] = model.compressed_attention.model_copy(update={
            "compress_ratios": (ratios * repeats)[: card.num_layers],
            "o_groups": gcd(card.num_attention_heads, model.compressed_attention.o_groups),
        })
        changes |= {"mla": None, "num_query_groups": 1, "sliding_window": model.sliding_window}
    return card.model_copy(update=changes)
