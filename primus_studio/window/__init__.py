"""The main window: docks, menus, messages, dialogs."""

from __future__ import annotations
