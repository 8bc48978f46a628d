"""Actions are data: unique, titled, reachable by menu and palette, each with something that runs it."""

from __future__ import annotations

from collections import Counter

import pytest
from PySide6.QtGui import QKeySequence

from primus_studio.actions.palette import match_score
from primus_studio.actions.table import ACTIONS, Action
from primus_studio.panels.table import PANELS
from primus_studio.theme.icons import icon_names


def test_ids_and_shortcuts_are_unique() -> None:
    assert not [name for name, number in Counter(row.id for row in ACTIONS).items() if number > 1]
    keys = [row.shortcut for row in ACTIONS if row.shortcut] + [panel.shortcut for panel in PANELS]
    assert not [name for name, number in Counter(keys).items() if number > 1]


@pytest.mark.parametrize("row", ACTIONS, ids=lambda row: row.id)
def test_every_action_has_a_title_help_and_a_real_shortcut_and_icon(row: Action) -> None:
    assert row.title
    assert row.says
    assert not row.shortcut or not QKeySequence(row.shortcut).isEmpty()
    assert not row.icon or row.icon in icon_names()


def test_the_palette_finds_by_letters_in_order_and_prefers_starts_of_words() -> None:
    assert match_score("sa", "Save as") is not None
    assert match_score("xz", "Save as") is None
    close, far = match_score("cp", "Command palette"), match_score("cp", "Copy result as text")
    assert close is not None
    assert far is not None
    assert close < far
