"""The memory bar draws every byte where it belongs, says in words what it draws, and obeys pointer and keyboard alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton
from pytestqt.qtbot import QtBot

from primus_studio.theme.contrast import contrast
from primus_studio.widgets.memory_bar import MemoryBars
from primus_studio.widgets.memory_view import MemoryView
from primus_studio.widgets.memory_words import Fit, headline, memory_table, segment_card, segments, verdict
from projectors.results import MemoryBreakdown, MemoryComponent
from projectors.text import bytes_text

Stretched = Callable[[int, float], MemoryBreakdown]


@pytest.fixture
def bars(qtbot: QtBot, memory: MemoryBreakdown) -> MemoryBars:
    view = MemoryBars()
    qtbot.addWidget(view)
    view.resize(800, 200)
    view.show_memory(memory)
    view.show()
    view.setFocus()
    qtbot.waitUntil(view.hasFocus)
    return view


def test_segments_stack_to_the_ranks_total_without_gaps(memory: MemoryBreakdown) -> None:
    for rank in memory.ranks:
        stack = segments(rank)
        assert stack[0].start == 0
        assert all(below.end == above.start for below, above in pairwise(stack))
        assert stack[-1].end == rank.total
        assert all(part.nbytes == rank.nbytes[part.component] > 0 for part in stack)


def test_headroom_is_up_to_the_safety_margin(memory: MemoryBreakdown) -> None:
    roomy = replace(memory, capacity_bytes=2 * memory.peak_bytes)
    found = verdict(roomy)
    assert found.fit is Fit.FITS
    assert found.words == f"headroom {bytes_text(roomy.budget_bytes - roomy.peak_bytes)}"


def test_a_recipe_inside_the_margin_is_told_from_one_over_the_capacity(memory: MemoryBreakdown) -> None:
    assert verdict(replace(memory, capacity_bytes=memory.peak_bytes)).fit is Fit.MARGIN
    over = replace(memory, capacity_bytes=memory.peak_bytes - 2**30)
    assert verdict(over).fit is Fit.OVER
    assert verdict(over).words == "over by 1.0 GiB"
    assert headline(over) == f"{bytes_text(over.peak_bytes)} of {bytes_text(over.capacity_bytes)} per GPU"


def test_the_card_shows_the_engines_formula_and_the_in_flight_count(memory: MemoryBreakdown) -> None:
    part = next(part for part in segments(memory.ranks[0]) if part.component is MemoryComponent.ACTIVATIONS)
    card = segment_card(memory, part, "#000000")
    assert card.note == memory.ranks[0].formulas[MemoryComponent.ACTIVATIONS] != ""
    assert any(label == "In-flight microbatches" and float(value) == memory.ranks[0].in_flight for label, value in card.rows)


def test_the_description_lists_every_rank_and_component(bars: MemoryBars, memory: MemoryBreakdown) -> None:
    words = bars.accessibleDescription()
    assert words == memory_table(memory)
    for rank in memory.ranks:
        assert f"Rank {rank.rank}: {bytes_text(rank.total)}" in words
        for part in segments(rank):
            assert f"{part.component.label} {bytes_text(part.nbytes)}" in words


def test_the_pointer_finds_the_segment_that_is_drawn_there(bars: MemoryBars, memory: MemoryBreakdown) -> None:
    for stack in map(segments, memory.ranks):
        for part in stack:
            area = bars.layout_now().segment(part)
            if area.width() >= 2:
                assert bars.segment_at(area.center().toPoint()) == part


def test_bars_are_as_long_as_their_bytes(bars: MemoryBars, memory: MemoryBreakdown) -> None:
    scale = bars.layout_now().length / bars.layout_now().limit
    for part in segments(memory.ranks[0]):
        assert bars.layout_now().segment(part).width() == pytest.approx(max(1.0, part.nbytes * scale))


def test_arrow_keys_walk_segments_and_ranks_and_show_the_same_card(
    qtbot: QtBot, bars: MemoryBars, memory: MemoryBreakdown
) -> None:
    stack = segments(memory.ranks[memory.peak_rank])
    assert bars.focused_segment() == stack[0], "focus begins at the peak rank"
    qtbot.keyClick(bars, Qt.Key.Key_Right)
    assert bars.focused_segment() == stack[1]
    assert bars._card.card is not None
    assert bars._card.card.title == stack[1].component.label
    qtbot.keyClick(bars, Qt.Key.Key_Down)
    focused = bars.focused_segment()
    assert focused is not None
    assert (focused.rank, focused.component) == (memory.peak_rank + 1, stack[1].component)
    qtbot.keyClick(bars, Qt.Key.Key_Escape)
    assert not bars._card.isVisible()
    for _ in range(20):
        qtbot.keyClick(bars, Qt.Key.Key_Left)
        qtbot.keyClick(bars, Qt.Key.Key_Up)
    first = bars.focused_segment()
    assert first is not None
    assert (first.rank, first.component) == (0, stack[0].component), "the ends hold"


def test_many_ranks_scroll_and_the_keyboard_brings_them_into_view(qtbot: QtBot, bars: MemoryBars, stretched: Stretched) -> None:
    bars.show_memory(stretched(64, 1.2))
    assert bars.verticalScrollBar().maximum() > 0
    for _ in range(10):
        qtbot.keyClick(bars, Qt.Key.Key_PageDown)
    focused = bars.focused_segment()
    assert focused is not None
    assert focused.rank == 63
    assert bars.layout_now().row(63).bottom() <= bars.viewport().height()


def test_the_peak_rank_is_in_view_from_the_start(qtbot: QtBot, memory: MemoryBreakdown) -> None:
    ranks = tuple(replace(memory.ranks[1], rank=rank) for rank in range(63))
    last = replace(memory.ranks[memory.peak_rank], rank=63)
    view = MemoryBars()
    qtbot.addWidget(view)
    view.resize(500, 200)
    view.show_memory(replace(memory, ranks=(*ranks, last)))
    assert view.layout_now().row(63).bottom() <= view.viewport().height()


def test_the_part_over_the_capacity_is_marked(qtbot: QtBot, bars: MemoryBars, stretched: Stretched) -> None:
    over = stretched(1, 0.8)
    bars.show_memory(over)
    shown = bars.viewport().grab().toImage()
    row = bars.layout_now().row(0)
    last = segments(over.ranks[0])[-1]
    edge = bars.layout_now().segment(last)
    border = shown.pixelColor(round(edge.right()), round(row.center().y()))
    from primus_studio.theme import tokens

    assert contrast(border.name(), tokens().panel) > 2, "the outline in the color of trouble closes the part over the line"


def test_a_legend_entry_brings_out_its_component(qtbot: QtBot, memory: MemoryBreakdown) -> None:
    view = MemoryView()
    qtbot.addWidget(view)
    view.resize(900, 260)
    view.show_memory(memory)
    view.show()
    entry = view.legend.buttons()[1]
    brightness = {}
    part = segments(memory.ranks[0])[2]
    for pressed in (False, True):
        if pressed:
            qtbot.mouseClick(entry, Qt.MouseButton.LeftButton)
        area = view.bars.layout_now().segment(part)
        brightness[pressed] = (
            view.bars.viewport().grab().toImage().pixelColor(int(area.right()) - 4, int(area.center().y()) + 6).name()
        )
    assert brightness[False] != brightness[True], "others fade"
    qtbot.mouseClick(entry, Qt.MouseButton.LeftButton)
    assert not entry.isChecked()


def test_one_legend_entry_at_a_time_and_each_named(qtbot: QtBot, memory: MemoryBreakdown) -> None:
    view = MemoryView()
    qtbot.addWidget(view)
    view.show_memory(memory)
    chosen: list[object] = []
    view.legend.brought_out.connect(chosen.append)
    one, other = view.legend.buttons()[:2]
    one.click()
    other.click()
    assert (one.isChecked(), other.isChecked()) == (False, True)
    assert chosen == [MemoryComponent.PARAMETERS, MemoryComponent.GRADIENTS]
    peak = memory.ranks[memory.peak_rank]
    for button, part in zip(view.legend.buttons(), segments(peak), strict=True):
        assert part.component.label in button.accessibleName()
        assert bytes_text(part.nbytes) in button.accessibleName()
        assert "%" in button.accessibleName()


def test_the_choice_in_the_legend_survives_the_next_projection(qtbot: QtBot, memory: MemoryBreakdown) -> None:
    view = MemoryView()
    qtbot.addWidget(view)
    view.show_memory(memory)
    view.legend.buttons()[3].click()
    view.show_memory(replace(memory, margin=0.1))
    checked: list[QAbstractButton] = [button for button in view.legend.buttons() if button.isChecked()]
    assert [button.accessibleName().split()[0] for button in checked] == ["Activations"]
