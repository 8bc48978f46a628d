"""How far one key, one notch of the wheel and one drag move the timeline."""

from __future__ import annotations

KEY_ZOOM, KEY_PAN = 1.5, 0.15
"""One press of a key: times nearer, share of the view."""

WHEEL_ZOOM = 1.25
"""One notch of the wheel: times nearer."""

WHEEL_NOTCH = 120
"""Qt's units of one notch."""

DRAG_FROM = 4
"""Pixels that a press moves before it is a drag."""

SCROLL_STEPS = 1_000_000
"""Resolution of the horizontal scroll bar over the whole step."""
