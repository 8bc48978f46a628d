"""The open study: an immutable value, changed by undo commands only."""

from __future__ import annotations
