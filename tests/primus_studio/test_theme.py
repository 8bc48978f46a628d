"""The theme keeps what it promises to every eye: text and marks that show, colors that stay apart, a switch without restart."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import combinations

import pytest
from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QImage, QPainter, QPalette
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from primus_studio.theme import Mode, Scheme, apply, tokens
from primus_studio.theme.contrast import COLOR_BLINDNESS, MARK_CONTRAST, TEXT_CONTRAST, contrast, difference, ink_on
from primus_studio.theme.fonts import Size, sized
from primus_studio.theme.icons import draw_icon, icon, icon_names
from primus_studio.theme.marks import HUES, MEMORY_HUES, PASS_HUES, STEP_HUES, Hue, mark, shade, step_color
from primus_studio.theme.tokens import TOKENS, Tokens, mixed
from projectors.pipeline.timeline import PassKind
from projectors.results import MemoryComponent, StepBreakdown

BOTH = list(TOKENS.values())
GROUNDS = ("window", "panel", "raised", "field", "hover")

LEAST_DIFFERENCE = 10.0
"""CIE76 distance of any two hues; about four times the just noticeable 2.3 (Mahy, Van Eycken, Oosterlinck 1994)."""


@pytest.fixture
def undressed(qapp: QApplication) -> Iterator[QApplication]:
    """The application, dressed light again afterwards."""
    yield qapp
    apply(qapp, Mode.LIGHT)


@pytest.mark.parametrize(
    ("one", "other", "ratio"), [("#000000", "#ffffff", 21.0), ("#777777", "#ffffff", 4.48), ("#0000ff", "#ffffff", 8.59)]
)
def test_contrast_is_that_of_wcag(one: str, other: str, ratio: float) -> None:
    # Ratios as every WCAG checker gives them: black on white is 21 by definition, #777 just fails AA.
    assert contrast(one, other) == pytest.approx(ratio, abs=0.005)
    assert contrast(one, other) == contrast(other, one)


@pytest.mark.parametrize("of", BOTH, ids=lambda of: of.scheme.value)
def test_text_is_readable_on_every_ground(of: Tokens) -> None:
    for role in ("text", "muted"):
        for ground in GROUNDS:
            assert contrast(getattr(of, role), getattr(of, ground)) >= TEXT_CONTRAST, (role, ground)
    for role in ("ok", "warn", "bad", "accent"):
        for ground in ("window", "panel", "raised"):
            assert contrast(getattr(of, role), getattr(of, ground)) >= TEXT_CONTRAST, (role, ground)
    assert contrast(of.on_selection, of.selection) >= TEXT_CONTRAST
    assert contrast(of.on_accent, of.accent) >= TEXT_CONTRAST


@pytest.mark.parametrize("of", BOTH, ids=lambda of: of.scheme.value)
def test_edges_of_controls_and_the_focus_ring_show(of: Tokens) -> None:
    for ground in ("panel", "raised", "field"):
        assert contrast(of.edge, getattr(of, ground)) >= MARK_CONTRAST, ground
        assert contrast(of.accent, getattr(of, ground)) >= MARK_CONTRAST, ground


@pytest.mark.parametrize("scheme", Scheme)
@pytest.mark.parametrize("hue", Hue)
def test_every_hue_shows_on_the_panel_and_carries_readable_ink(scheme: Scheme, hue: Hue) -> None:
    color = mark(hue, scheme)
    assert contrast(color, TOKENS[scheme].panel) >= MARK_CONTRAST
    assert contrast(ink_on(color), color) >= TEXT_CONTRAST


@pytest.mark.parametrize("scheme", Scheme)
@pytest.mark.parametrize("blindness", [None, *COLOR_BLINDNESS])
def test_any_two_hues_stay_apart_for_every_kind_of_color_vision(scheme: Scheme, blindness: str | None) -> None:
    for one, other in combinations(HUES[scheme].values(), 2):
        assert difference(one, other, blindness) >= LEAST_DIFFERENCE, (one, other)


@pytest.mark.parametrize("scheme", Scheme)
@pytest.mark.parametrize("hue", sorted(set(PASS_HUES.values())))
def test_every_chunks_shade_shows_carries_ink_and_differs_from_the_first(scheme: Scheme, hue: Hue) -> None:
    color, chunks = mark(hue, scheme), 4
    shades = [shade(color, chunk, chunks, scheme) for chunk in range(chunks)]
    assert shades[0] == color
    assert len(set(shades)) == chunks
    for one in shades:
        assert contrast(one, TOKENS[scheme].panel) >= MARK_CONTRAST
        assert contrast(ink_on(one), one) >= TEXT_CONTRAST


def test_everything_that_is_drawn_has_a_hue() -> None:
    assert set(MEMORY_HUES) == set(MemoryComponent)
    assert len(set(MEMORY_HUES.values())) == len(MemoryComponent), "two memory components share a hue"
    assert set(PASS_HUES) == set(PassKind)
    step = StepBreakdown(compute=1, recompute=1, bubble=1, optimizer=1, other=1)
    assert {key.split(".")[0] for key, _, _ in step.parts()} == set(STEP_HUES)


def test_axes_of_exposed_communication_share_a_hue_and_differ_in_shade() -> None:
    axes = ("exposed.tp", "exposed.ep", "exposed.dp")
    colors = [step_color(axis, axes, Scheme.DARK) for axis in axes]
    assert colors[0] == mark(Hue.VERMILION, Scheme.DARK)
    assert len(set(colors)) == len(axes)


def test_mixing_goes_from_one_color_to_the_other() -> None:
    assert mixed("#000000", "#ffffff", 0) == "#000000"
    assert mixed("#000000", "#ffffff", 0.5) == "#808080"
    assert mixed("#000000", "#ffffff", 1) == "#ffffff"


def test_dark_and_light_switch_without_restart(undressed: QApplication) -> None:
    for mode in (Mode.DARK, Mode.LIGHT, Mode.DARK):
        of = apply(undressed, mode)
        assert tokens() == of == TOKENS[Scheme(mode.value)]
        assert undressed.palette().color(QPalette.ColorRole.Window) == QColor(of.panel)
        assert of.raised in undressed.styleSheet()


def test_system_mode_takes_the_systems_scheme(undressed: QApplication) -> None:
    apply(undressed, Mode.DARK)
    system = undressed.styleHints()
    apply(undressed, Mode.SYSTEM)
    expected = Scheme.DARK if system.colorScheme() is Qt.ColorScheme.Dark else Scheme.LIGHT
    assert tokens().scheme is expected


def test_an_explicit_mode_ignores_changes_of_the_system(undressed: QApplication) -> None:
    apply(undressed, Mode.DARK)
    undressed.styleHints().colorSchemeChanged.emit(Qt.ColorScheme.Light)
    assert tokens().scheme is Scheme.DARK


def test_figures_of_changing_numbers_have_one_width(qapp: QApplication) -> None:
    font = sized(QFont(), Size.FIGURE, bold=True)
    assert font.featureValue(QFont.Tag("tnum")) == 1
    assert font.pointSizeF() == pytest.approx(QFont().pointSizeF() * Size.FIGURE)


@pytest.mark.parametrize("name", icon_names())
def test_every_icon_draws_in_the_color_asked_for(qapp: QApplication, name: str) -> None:
    drawn = QImage(24, 24, QImage.Format.Format_ARGB32_Premultiplied)
    drawn.fill(Qt.GlobalColor.transparent)
    with QPainter(drawn) as painter:
        draw_icon(painter, name, QRectF(0, 0, 24, 24), "#ff0000")
    inked = [drawn.pixelColor(x, y) for x in range(24) for y in range(24) if drawn.pixelColor(x, y).alpha() > 200]
    assert len(inked) >= 8
    assert all(color.red() > 200 and color.green() < 60 for color in inked)


def test_icons_follow_the_scheme_and_outlive_their_makers(undressed: QApplication) -> None:
    held = icon("memory")
    shown = {}
    for mode in (Mode.DARK, Mode.LIGHT):
        apply(undressed, mode)
        icon.cache_clear()
        gc.collect()
        image = held.pixmap(QSize(24, 24)).toImage()
        shown[mode] = {
            image.pixelColor(x, y).name() for x in range(24) for y in range(24) if image.pixelColor(x, y).alpha() == 255
        }
    assert TOKENS[Scheme.DARK].text in shown[Mode.DARK]
    assert TOKENS[Scheme.LIGHT].text in shown[Mode.LIGHT]


def test_an_unknown_icon_is_named() -> None:
    with pytest.raises(FileNotFoundError, match="no-such-icon"):
        icon("no-such-icon")


def test_widgets_repaint_in_the_new_colors(qtbot: QtBot, undressed: QApplication) -> None:
    from primus_studio.widgets.tiles import Tile, TileView

    view = TileView(Tile("MFU", "42.0%"))
    qtbot.addWidget(view)
    view.resize(160, 80)
    view.show()
    grounds = []
    for mode in (Mode.DARK, Mode.LIGHT):
        of = apply(undressed, mode)
        qtbot.wait(10)
        grounds.append((view.grab().toImage().pixelColor(80, 4).name(), of.raised))
    assert all(seen == meant for seen, meant in grounds), grounds
