"""Parameter counts of every shipped model against published ones (`parameter_counts.yaml`, from data/models.yaml)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from projectors.inputs import library
from projectors.inputs.model_card import PositionEmbedding
from projectors.workload.layers import LayerKind, layer_kinds
from projectors.workload.parameters import forward_flops_per_sequence, model_parameters

COUNTS: dict[str, dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "parameter_counts.yaml").read_text(encoding="utf-8"))
CLOSE_PERCENT = 0.5
ACTIVE_IS_STATED = sorted(name for name, model in COUNTS.items() if "active" in model["published"])


def test_every_shipped_model_has_a_published_count() -> None:
    assert set(library.names(library.Kind.MODEL)) == set(COUNTS)


@pytest.mark.parametrize("name", COUNTS)
def test_total_active_and_mtp_parameters_match_to_the_unit(name: str) -> None:
    found = model_parameters(library.model(name))
    assert {"total": found.total, "active": found.active, "mtp": found.mtp} == COUNTS[name]["counts"]


@pytest.mark.parametrize("name", COUNTS)
def test_the_published_total_is_met_within_half_a_percent_or_the_reason_is_known(name: str) -> None:
    published = COUNTS[name]["published"]["total"]["parameters"]
    total = model_parameters(library.model(name)).total
    percent = 100 * (total / published - 1)
    known = COUNTS[name].get("deviates", {}).get("total")
    assert percent == pytest.approx(known["percent"], abs=0.01) if known else abs(percent) <= CLOSE_PERCENT


@pytest.mark.parametrize("name", ACTIVE_IS_STATED)
def test_the_published_active_count_is_met_under_one_of_the_conventions_or_the_reason_is_known(name: str) -> None:
    """Authors count active parameters with all embeddings, without the input embedding, or without both."""
    model = COUNTS[name]
    active, published = model_parameters(library.model(name)).active, model["published"]["active"]["parameters"]
    without_input = active - model["embedding"]["input"]
    conventions = (active, without_input, without_input - model["embedding"]["head"])
    closest = min((100 * (count / published - 1) for count in conventions), key=abs)
    known = model.get("deviates", {}).get("active")
    assert closest == pytest.approx(known["percent"], abs=0.01) if known else abs(closest) <= CLOSE_PERCENT


@pytest.mark.parametrize("name", COUNTS)
def test_a_forward_pass_costs_two_flops_per_active_parameter_and_token_besides_attention(name: str) -> None:
    """2N per token (PaLM, arXiv:2204.02311, appendix B): one multiply-add for each active weight but the embeddings.

    A table lookup multiplies nothing: embeddings count only where the head uses them. At one token attention costs next to
    nothing.
    """
    card = library.model(name).model_copy(update={"mtp_layers": 0})
    embedding = COUNTS[name]["embedding"]
    positions = card.max_seq_len * card.hidden_size if card.position_embedding is PositionEmbedding.LEARNED else 0
    lookups = positions + (0 if card.tied_embeddings else embedding["input"])
    assert forward_flops_per_sequence(card, 1) / 2 == pytest.approx(COUNTS[name]["counts"]["active"] - lookups, rel=2e-3)


def test_mixtral_sends_a_token_through_two_of_eight_experts() -> None:
    """arXiv:2401.04088, section 2: 8x7B holds 47B parameters and uses 13B per token."""
    card = library.model("mixtral-8x7b")
    found = model_parameters(card)
    assert card.moe is not None
    expert = 3 * card.hidden_size * card.moe.moe_ffn_hidden_size
    assert found.total - found.active == card.num_layers * (8 - 2) * expert


def test_tied_embeddings_are_counted_once() -> None:
    card = library.model("llama3.1-8b")
    tied = card.model_copy(update={"tied_embeddings": True})
    assert model_parameters(card).total - model_parameters(tied).total == card.vocab_size * card.hidden_size


def test_deepseek_v3_starts_with_three_dense_layers() -> None:
    """arXiv:2412.19437, 4.2: all but the first three of 61 layers have experts."""
    kinds = layer_kinds(library.model("deepseek-v3"))
    assert kinds == (LayerKind(moe=False, windowed=False),) * 3 + (LayerKind(moe=True, windowed=False),) * 58


def test_llama4_maverick_has_experts_in_every_other_layer() -> None:
    """Hugging Face `llama4` configuration: interleave_moe_layer_step 2, so that layers 1, 3, 5, ... are MoE."""
    assert [kind.moe for kind in layer_kinds(library.model("llama4-maverick"))] == [False, True] * 24
