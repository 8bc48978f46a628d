"""How the window looks: colors by role, one table of marks, sizes of type, icons. `apply` dresses the application."""

from __future__ import annotations

from primus_studio.theme.apply import Mode, apply, tokens
from primus_studio.theme.tokens import Scheme, Tokens

__all__ = ["Mode", "Scheme", "Tokens", "apply", "tokens"]
