"""The timeline moves and answers as trace viewers do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QColor, QWheelEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from primus_studio.theme import tokens
from primus_studio.theme.marks import PASS_HUES, idle_color, mark
from primus_studio.widgets.timeline_panel_view import TimelinePanelView
from primus_studio.widgets.timeline_view import TimelineView
from primus_studio.widgets.timeline_window import whole
from primus_studio.widgets.timeline_words import timeline_header, timeline_table
from projectors.pipeline.timeline import PassKind, Timeline


@pytest.fixture
def view(qtbot: QtBot, hand_made: Timeline) -> TimelineView:
    one = TimelineView()
    qtbot.addWidget(one)
    one.resize(1000, 200)
    one.show_timeline(hand_made)
    one.show()
    one.setFocus()
    qtbot.waitUntil(one.hasFocus)
    return one


def middle(view: TimelineView, event: int) -> QPoint:
    assert view._lanes is not None
    return view._layout.event_rect(view._lanes, event).center().toPoint()


def test_passes_are_painted_where_and_in_the_colors_they_have(view: TimelineView, hand_made: Timeline) -> None:
    shown = view.viewport().grab().toImage()
    scheme = tokens().scheme
    for event in range(len(hand_made.start)):
        place = middle(view, event) + QPoint(12, 0)  # beside the number
        meant = mark(PASS_HUES[PassKind(int(hand_made.kind[event]))], scheme)
        assert shown.pixelColor(place).name() == meant
    idle = QPoint(round(view._layout.x(3.0)), middle(view, 0).y())
    assert shown.pixelColor(idle).name() == idle_color(scheme)


def test_a_crowded_lane_has_on_the_whole_the_color_of_its_passes_and_idle_time(qtbot: QtBot, timeline: Timeline) -> None:
    times = 40  # one step after the other until a pixel covers several passes
    order = np.lexsort(
        (
            np.tile(timeline.start, times) + np.repeat(np.arange(times), len(timeline.start)) * timeline.makespan,
            np.tile(timeline.rank, times),
        )
    )

    def repeated(values: np.ndarray, shift: float) -> np.ndarray:
        return (np.tile(values, times) + np.repeat(np.arange(times) * shift, len(values)))[order].astype(values.dtype)

    many = replace(
        timeline,
        rank=repeated(timeline.rank, 0),
        chunk=repeated(timeline.chunk, 0),
        microbatch=repeated(timeline.microbatch, 0),
        kind=repeated(timeline.kind, 0),
        start=repeated(timeline.start, timeline.makespan),
        end=repeated(timeline.end, timeline.makespan),
    )
    one = TimelineView()
    qtbot.addWidget(one)
    one.resize(500, 200)
    one.show_timeline(many)
    one.show()
    area = one._layout.area
    shown = one.viewport().grab().toImage()
    left, right = round(one._layout.x(0)), round(one._layout.x(many.makespan))
    seen = [shown.pixelColor(x, round(area.tops[0] + area.height / 2)).red() for x in range(left, right)]
    scheme = tokens().scheme
    of_rank = many.rank == 0
    seconds = (many.end - many.start)[of_rank]
    reds = [QColor(mark(PASS_HUES[PassKind(int(kind))], scheme)).red() for kind in many.kind[of_rank]]
    busy = sum(red * time for red, time in zip(reds, seconds, strict=True))
    meant = (busy + (many.makespan - seconds.sum()) * QColor(idle_color(scheme)).red()) / many.makespan
    assert sum(seen) / len(seen) == pytest.approx(meant, abs=1.5)


def test_a_click_follows_one_microbatch_and_escape_ends_it(qtbot: QtBot, view: TimelineView) -> None:
    with qtbot.waitSignal(view.selected) as caught:
        qtbot.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=middle(view, 6))
    assert caught.args == [1]
    assert view.microbatch == 1
    qtbot.keyClick(view, Qt.Key.Key_Escape)
    assert view.microbatch is None


def test_following_leaves_its_passes_bright_and_dims_the_others(qtbot: QtBot, view: TimelineView) -> None:
    before = view.viewport().grab().toImage()
    view.select(1)
    after = view.viewport().grab().toImage()
    beside = QPoint(12, 0)
    assert after.pixelColor(middle(view, 1) + beside) == before.pixelColor(middle(view, 1) + beside)
    assert after.pixelColor(middle(view, 0) + beside) != before.pixelColor(middle(view, 0) + beside)


def test_perfettos_keys_zoom_pan_and_fit(qtbot: QtBot, view: TimelineView, hand_made: Timeline) -> None:
    start = view.in_view
    assert start == whole(hand_made.makespan)
    qtbot.keyClick(view, Qt.Key.Key_W)
    assert view.in_view.span < start.span
    nearer = view.in_view
    qtbot.keyClick(view, Qt.Key.Key_D)
    assert view.in_view.begin > nearer.begin
    assert view.in_view.span == pytest.approx(nearer.span)
    qtbot.keyClick(view, Qt.Key.Key_A)
    assert view.in_view.begin == pytest.approx(nearer.begin)
    qtbot.keyClick(view, Qt.Key.Key_S)
    qtbot.keyClick(view, Qt.Key.Key_S)
    assert view.in_view.span == pytest.approx(start.span)
    qtbot.keyClick(view, Qt.Key.Key_W)
    qtbot.keyClick(view, Qt.Key.Key_F)
    assert view.in_view == start


def test_alt_left_and_right_walk_the_views_history(qtbot: QtBot, view: TimelineView) -> None:
    qtbot.keyClick(view, Qt.Key.Key_W)
    near = view.in_view
    qtbot.keyClick(view, Qt.Key.Key_F)
    far = view.in_view
    qtbot.keyClick(view, Qt.Key.Key_Left, Qt.KeyboardModifier.AltModifier)
    assert view.in_view == near
    qtbot.keyClick(view, Qt.Key.Key_Right, Qt.KeyboardModifier.AltModifier)
    assert view.in_view == far


def test_the_wheel_zooms_at_the_cursor(view: TimelineView) -> None:
    place = QPointF(700, 60)
    under = view._layout.seconds(place.x())
    wheel = QWheelEvent(
        place, view.viewport().mapToGlobal(place), QPoint(), QPoint(0, 240), Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.ControlModifier, Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip
    before = view.in_view.span
    QApplication.sendEvent(view.viewport(), wheel)
    assert view.in_view.span == pytest.approx(before / 1.25**2)
    assert view._layout.seconds(place.x()) == pytest.approx(under)


def test_dragging_pans_and_selects_nothing(qtbot: QtBot, view: TimelineView) -> None:
    view.zoom(4, 4.5)
    begin = view.in_view.begin
    port = view.viewport()
    start = middle(view, 2)
    qtbot.mousePress(port, Qt.MouseButton.LeftButton, pos=start)
    for moved in (10, 60, 100):
        qtbot.mouseMove(port, start + QPoint(moved, 0))
    qtbot.mouseRelease(port, Qt.MouseButton.LeftButton, pos=start + QPoint(100, 0))
    expected = begin - 100 / view._layout.track.width() * view.in_view.span
    assert view.in_view.begin == pytest.approx(expected)
    assert view.microbatch is None


def test_a_double_click_shows_the_whole_step(qtbot: QtBot, view: TimelineView, hand_made: Timeline) -> None:
    view.zoom(8, 4.5)
    qtbot.mouseDClick(view.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(300, 60))
    assert view.in_view == whole(hand_made.makespan)


def test_the_card_says_what_runs_and_when(qtbot: QtBot, view: TimelineView) -> None:
    view._hover(QPointF(middle(view, 3)))
    card = view._card.card
    assert card is not None
    assert card.title == "Backward 1"
    assert ("Pipeline rank", "0") in card.rows
    assert ("Begins at", "7.0000 s") in card.rows
    assert ("Takes", "2 s") in card.rows
    view._hover(QPointF(view._layout.x(3.0), middle(view, 0).y()))
    idle = view._card.card
    assert idle is not None
    assert idle.title == "Idle"
    assert ("Takes", "2 s") in idle.rows


def test_the_keyboard_walks_a_lane_and_a_microbatchs_flow(qtbot: QtBot, view: TimelineView, hand_made: Timeline) -> None:
    def at() -> tuple[int, int, int]:
        assert view._event is not None
        return int(hand_made.rank[view._event]), int(hand_made.microbatch[view._event]), int(hand_made.kind[view._event])

    qtbot.keyClick(view, Qt.Key.Key_Period)
    assert at() == (0, 0, 0)
    qtbot.keyClick(view, Qt.Key.Key_Period)
    assert at() == (0, 1, 0)
    qtbot.keyClick(view, Qt.Key.Key_BracketRight)
    assert at() == (1, 1, 0)
    qtbot.keyClick(view, Qt.Key.Key_BracketLeft)
    qtbot.keyClick(view, Qt.Key.Key_Comma)
    assert at() == (0, 0, 0)
    qtbot.keyClick(view, Qt.Key.Key_Return)
    assert view.microbatch == 0
    view.frame_selection()
    assert view.in_view.begin <= 0
    assert 6 <= view.in_view.end < 7


def test_the_scroll_bar_moves_the_view(view: TimelineView) -> None:
    view.zoom(4, 4.5)
    bar = view.horizontalScrollBar()
    bar.setValue(bar.maximum())
    assert view.in_view.end == pytest.approx(whole(9).end, rel=1e-4)


def test_a_new_projection_keeps_the_part_of_the_step_in_view(view: TimelineView, hand_made: Timeline) -> None:
    view.zoom(3, 4.5)
    share = view.in_view.begin / 9
    view.show_timeline(replace(hand_made, start=hand_made.start * 2, end=hand_made.end * 2))
    assert view.in_view.begin / 18 == pytest.approx(share)


def test_the_table_in_words_and_the_header(qtbot: QtBot, hand_made: Timeline) -> None:
    panel = TimelinePanelView()
    qtbot.addWidget(panel)
    panel.show_timeline(hand_made)
    assert panel.header.text() == timeline_header(hand_made) == "1f1b · 2 ranks · 2 microbatches · makespan 9 s · bubble 33.3%"
    assert panel.view._lanes is not None
    assert panel.view.accessibleDescription() == timeline_table(panel.view._lanes)
    assert "Rank 1: bubble 33.3%." in panel.view.accessibleDescription()
    names = [button.accessibleName() for button in panel.legend.buttons()]
    assert names == ["Forward", "Backward", "Idle"]
