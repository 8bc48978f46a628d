"""What works for the window beside it: the engine, settings, recovery."""

from __future__ import annotations
