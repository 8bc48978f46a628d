"""One process that works for the window: how it starts, and how it ends at once."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor


def start_pool() -> ProcessPoolExecutor:
    """One spawned process: a forked one would share the window's threads and its connection to the display."""
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


def end_pool(pool: ProcessPoolExecutor | None, *, wait: bool = True) -> None:
    """End the process, busy or not; it holds nothing that needs an orderly end. Without `wait` it is reaped in the background."""
    if pool is None:
        return
    for process in list((pool._processes or {}).values()):  # noqa: SLF001 - no public way to end a busy worker before 3.14
        process.kill()
    pool.shutdown(wait=wait, cancel_futures=True)  # its own thread reaps the dead process; a second waiter would race it
