"""Runs the measuring process and keeps what it says. A crash, a hang or a kill is a failed measurement with its reason."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from projectors.benchmark.devices import NEEDS_TORCH, torch_is_installed
from projectors.benchmark.job import Job, JobStep, Said, heard
from projectors.benchmark.lock import only_one
from projectors.benchmark.plan import REPEATS, WARM_UP, BenchmarkPlan, MeasuringStep, StepKind
from projectors.columns import VOCABULARY_MULTIPLE
from projectors.inputs.benchmark_record import (
    BenchmarkRecord,
    Conditions,
    DeviceKind,
    Failure,
    MeasuredCollective,
    MeasuredOptimizer,
    MeasuredPart,
)
from projectors.inputs.errors import InputError, InputProblem

T = TypeVar("T", bound=BaseModel)

LEAST_PATIENCE = 120.0
"""Seconds that one measurement may stay silent before it counts as hung, at least: a first kernel may be compiled."""

PATIENCE = 30.0
"""Times its expected duration that it may take."""

POLL_SECONDS = 0.1
"""How often a cancel is looked for."""

LOG_LINES = 200


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run is: `done` of `total` expected seconds, what is measured now, what failed, what was printed."""

    what: str
    done: float
    total: float
    failed: str = ""
    log: str = ""


@dataclass(slots=True)
class _Run:
    """A run while it lasts."""

    plan: BenchmarkPlan
    tell: Callable[[Progress], None]
    cancelled: Callable[[], bool]
    least_patience: float
    waiting: list[MeasuringStep]
    done_seconds: float = 0.0
    parts: list[MeasuredPart] = field(default_factory=list)
    optimizer: MeasuredOptimizer | None = None
    collectives: list[MeasuredCollective] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    software: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    conditions: Conditions = field(default_factory=Conditions)
    log: list[str] = field(default_factory=list)

    def progress(self, what: str, *, failed: str = "", log: str = "") -> None:
        self.tell(Progress(what, min(self.done_seconds, self.plan.seconds), self.plan.seconds, failed, log))

    def finish(self, step: MeasuringStep) -> None:
        self.waiting.remove(step)
        self.done_seconds += step.seconds

    def fail(self, step: MeasuringStep, reason: str) -> None:
        self.failures.append(Failure(what=step.what, reason=reason))
        self.finish(step)
        self.progress(step.what, failed=reason)


def run_benchmark(
    plan: BenchmarkPlan,
    *,
    name: str = "",
    tell: Callable[[Progress], None] = lambda _progress: None,
    cancelled: Callable[[], bool] = lambda: False,
    least_patience: float = LEAST_PATIENCE,
) -> BenchmarkRecord:
    """Measure a plan and answer with its record; what failed or was cancelled is marked in it, the rest is kept.

    After a crash the measurements that are left run in a new process. Raises InputError where nothing can be measured: a
    plan with problems, no PyTorch, another run on this machine.
    """
    if plan.problems:
        raise InputError([InputProblem("", problem, "a plan that can be measured here") for problem in plan.problems])
    if not torch_is_installed():
        raise InputError([InputProblem("", "no PyTorch", NEEDS_TORCH)])
    run = _Run(plan, tell, cancelled, least_patience, list(plan.steps))
    with only_one():
        while run.waiting and not cancelled():
            _attempt(run)
    run.failures += [Failure(what=step.what, reason="cancelled") for step in run.waiting]
    return _record(run, name)


def _attempt(run: _Run) -> None:
    """One process (or one for each device), until it has measured what it is for, fails or is canceled."""
    with tempfile.TemporaryDirectory(prefix="primus-studio-benchmark-") as folder:
        path = Path(folder) / "job.json"
        job = _job(run)
        path.write_text(job.model_dump_json(), encoding="utf-8")
        process = subprocess.Popen(
            _command(job.processes, path), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
            errors="replace", start_new_session=True, env=_environment(run.plan),
        )
        try:
            _listen(run, process, _asked(run))
        finally:
            _end(process)


def _listen(run: _Run, process: subprocess.Popen[str], asked: list[MeasuringStep]) -> None:
    """Take in what the process says until it ends."""
    lines: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_read, args=(process, lines), daemon=True).start()
    current = asked[0]
    heard_last = time.monotonic()
    run.progress("starting the measuring process")
    while True:
        if run.cancelled():
            return
        patience = max(run.least_patience, PATIENCE * current.seconds)
        try:
            line = lines.get(timeout=POLL_SECONDS)
        except queue.Empty:
            if time.monotonic() - heard_last > patience:
                run.fail(current, f"no answer for {patience:.0f} s: it hung and was ended")
                return
            continue
        if line is None:
            break
        said = heard(line)
        if said is None:
            run.log = [*run.log, line.rstrip()][-LOG_LINES:]
            run.progress(current.what, log=line.rstrip())
            continue
        heard_last = time.monotonic()
        current = _take(run, said, current)
    status = process.wait()
    if status != 0 and current in run.waiting:
        run.fail(current, _reason(status, run.log))
    elif status == 0 and any(step in run.waiting for step in asked):
        run.fail(next(step for step in asked if step in run.waiting), "the measuring process ended without measuring it")


def _take(run: _Run, said: Said, current: MeasuringStep) -> MeasuringStep:
    """Note one message; the step that is measured from here on."""
    step = next((step for step in run.waiting if step.what == said.what), current)
    match said.event:
        case "started":
            run.software, run.settings = dict(said.data["software"]), dict(said.data["settings"])
        case "measuring":
            run.progress(step.what)
        case "failed":
            run.fail(step, said.reason)
        case "conditions":
            run.conditions = _read_as(Conditions, said.data)
        case "measured":
            _note(run, step, said)
            run.finish(step)
            run.progress(step.what)
    return step


def _note(run: _Run, step: MeasuringStep, said: Said) -> None:
    match step.kind:
        case StepKind.PART:
            run.parts.append(_read_as(MeasuredPart, said.data))
        case StepKind.OPTIMIZER:
            run.optimizer = _read_as(MeasuredOptimizer, said.data)
        case StepKind.COLLECTIVE:
            run.collectives.append(_read_as(MeasuredCollective, said.data))


def _read_as(model: type[T], data: dict[str, Any]) -> T:
    return model.model_validate_json(json.dumps(data))


def _asked(run: _Run) -> list[MeasuringStep]:
    """What the next process measures: all that is left of the reduced run, or all collectives, which use every device."""
    collective = run.waiting[0].kind is StepKind.COLLECTIVE
    return [step for step in run.waiting if (step.kind is StepKind.COLLECTIVE) == collective]


def _job(run: _Run) -> Job:
    device, asked = run.plan.devices[0], _asked(run)
    everyone = asked[0].kind is StepKind.COLLECTIVE
    return Job(
        device=device.kind, threads=_threads(run.plan), model=run.plan.model, recipe=run.plan.recipe,
        processes=len(run.plan.devices) if everyone else run.plan.used, vocabulary_multiple=VOCABULARY_MULTIPLE,
        warm_up=WARM_UP, repeats=REPEATS[device.kind], steps=tuple(JobStep(kind=step.kind, what=step.what) for step in asked),
    )


def _threads(plan: BenchmarkPlan) -> int | None:
    device = plan.devices[0]
    return device.threads if device.kind is DeviceKind.CPU else None


def _command(count: int, job: Path) -> list[str]:
    if count == 1:
        return [sys.executable, "-m", "projectors.benchmark.worker", str(job)]
    processes = ["--standalone", "--nproc-per-node", str(count)]
    return [sys.executable, "-m", "torch.distributed.run", *processes, "-m", "projectors.benchmark.worker", str(job)]


def _environment(plan: BenchmarkPlan) -> dict[str, str]:
    """The parent's, with the engine on the path and as many threads as the plan says."""
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    threads = _threads(plan)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **({"OMP_NUM_THREADS": str(threads)} if threads else {})}


def _read(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put(None)


def _end(process: subprocess.Popen[str]) -> None:
    """End the process and all that it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _reason(status: int, log: list[str]) -> str:
    """Why the process ended, in words."""
    if status < 0:
        name = signal.Signals(-status).name
        hint = ", as the system does when memory runs out" if -status == signal.SIGKILL else ""
        return f"the measuring process was ended by {name}{hint}"
    said = next((line for line in reversed(log) if line.strip() and not line.startswith(" ")), "")
    return f"the measuring process ended with status {status}" + (f": {said[:300]}" if said else "")


def _record(run: _Run, name: str) -> BenchmarkRecord:
    plan, now = run.plan, datetime.now(UTC)
    device = plan.devices[0]
    base = f"{plan.model.name}-{device.hardware or device.kind.value}-{now:%Y%m%d-%H%M%S}"
    return BenchmarkRecord(
        name=name or "".join(letter if letter.isalnum() or letter in "._+-" else "-" for letter in base),
        created=now.isoformat(timespec="seconds"),
        complete=not run.failures,
        device=device.model_copy(update={"count": plan.used}),
        software=run.software,
        settings={**run.settings, "warm_up": str(WARM_UP), "repeats": str(REPEATS[device.kind])},
        model=plan.model,
        recipe=plan.recipe,
        parts=tuple(run.parts),
        optimizer=run.optimizer,
        collectives=tuple(run.collectives),
        conditions=run.conditions,
        failures=tuple(run.failures),
    )
