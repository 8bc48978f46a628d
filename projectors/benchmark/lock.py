"""One benchmark at a time on a machine: two would time each other."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from projectors.inputs.errors import InputError, InputProblem


@contextmanager
def only_one() -> Iterator[None]:
    """Hold the lock of this machine and user. Raises InputError where another run holds it; a crashed run holds nothing."""
    path = Path(tempfile.gettempdir()) / f"primus-studio-benchmark-{os.getuid()}.lock"
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            found = f"another benchmark on this machine (process {file.read().strip() or 'unknown'})"
            raise InputError([InputProblem("", found, "one at a time")]) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
