"""The panels of the window, and the table that lists them."""

from __future__ import annotations
