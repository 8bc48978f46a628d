"""What each command does, once its arguments are read. Imports are local: each command loads only what it answers with."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from primus_studio.cli import Exit

if TYPE_CHECKING:
    from projectors.inputs.study import Study
    from projectors.results import Projection


def project(options: Namespace) -> Exit:
    """One projection."""
    from projectors import reports

    study, projection = _projected(options)
    _answer(options, lambda: reports.projection_json(projection), lambda: reports.projection_text(study, projection))
    return _verdict(projection)


def memory(options: Namespace) -> Exit:
    """Memory alone."""
    from projectors import reports

    study, projection = _projected(options)

    def text() -> str:
        parts = [reports.heading_text(study, projection), reports.verdict_text(projection)]
        return "\n\n".join(parts + ([reports.memory_text(projection.memory)] if projection.memory else []))

    _answer(options, lambda: reports.memory_json(projection), text)
    return _verdict(projection)


def timeline(options: Namespace) -> Exit:
    """The pipeline schedule, and files of its events."""
    from projectors import reports

    study, projection = _projected(options)
    if projection.timeline and (options.chrome_trace or options.csv):
        from projectors.inputs.saving import write_atomically
        from projectors.pipeline import chrome_trace, events_csv

        if options.chrome_trace:
            kept = [rank.chunk_bytes for rank in projection.memory.ranks] if projection.memory else []
            names = {"model": study.model.name, "cluster": study.cluster.name}
            trace = chrome_trace(projection.timeline, kept, projection.pass_parts, **names)
            write_atomically(options.chrome_trace, json.dumps(trace))
        if options.csv:
            write_atomically(options.csv, events_csv(projection.timeline))

    def text() -> str:
        body = reports.timeline_text(projection) if projection.timeline else reports.verdict_text(projection)
        return f"{reports.heading_text(study, projection)}\n\n{body}"

    _answer(options, lambda: reports.timeline_json(projection), text)
    return _verdict(projection)


def benchmark(options: Namespace) -> Exit:
    """Layers and collectives measured here."""
    from projectors.benchmark import reports
    from projectors.benchmark.devices import choose_devices
    from projectors.benchmark.plan import plan_benchmark
    from projectors.benchmark.runner import run_benchmark
    from projectors.inputs.benchmark_record import DeviceKind
    from projectors.restoring.records import keep

    study = _study(options)
    kind = DeviceKind(options.device) if options.device else None
    plan = plan_benchmark(study, choose_devices(kind, options.processes, options.threads))
    if options.plan or plan.problems:
        _answer(options, lambda: reports.plan_json(plan), lambda: reports.plan_text(plan))
        return Exit.ILLEGAL if plan.problems else Exit.ANSWERED
    print(reports.plan_text(plan), file=sys.stderr)
    record = run_benchmark(plan, name=options.name, tell=lambda progress: print(reports.progress_text(progress), file=sys.stderr))
    path = keep(record, options.out)
    _answer(options, lambda: record.model_dump(mode="json"), lambda: reports.record_text(record, study))
    print(f"kept as {path}", file=sys.stderr)
    return Exit.ANSWERED if record.complete else Exit.ILLEGAL


def validate(options: Namespace) -> Exit:
    """Projected against measured."""
    from projectors import validation

    found = validation.validate(validation.load_cases(options.files))
    _answer(options, lambda: validation.validation_json(found), lambda: validation.validation_text(found))
    return Exit.ANSWERED


def show(options: Namespace) -> Exit:
    """Listings and single profiles."""
    from projectors import listing
    from projectors.inputs.library import Kind

    kind = Kind(options.kind)
    if options.name is None:
        _answer(options, lambda: listing.names_json(kind), lambda: listing.names_text(kind))
    else:
        _answer(options, lambda: listing.profile_json(kind, options.name), lambda: listing.profile_text(kind, options.name))
    return Exit.ANSWERED


def screenshot(options: Namespace) -> Exit:
    """The window as a picture."""
    study = _study(options)
    try:
        from primus_studio import app
    except ModuleNotFoundError as missing:
        if not (missing.name or "").startswith(("PySide6", "pyqtgraph", "shiboken6")):
            raise
        print(f"the window needs {missing.name}, which the extra gui brings: pip install 'primus-studio[gui]'", file=sys.stderr)
        return Exit.USAGE
    app.screenshot(study, options.out, options.panel, options.theme, options.size, options.scale)
    return Exit.ANSWERED


def _study(options: Namespace) -> Study:
    from projectors.inputs.changing import apply_overrides
    from projectors.inputs.loading import load_study

    study = load_study(options.study)
    return apply_overrides(study, options.overrides) if options.overrides else study


def _projected(options: Namespace) -> tuple[Study, Projection]:
    from projectors.projection import project_study

    study = _study(options)
    return study, project_study(study)


def _answer(options: Namespace, data: Callable[[], Any], text: Callable[[], str]) -> None:
    print(json.dumps(data(), indent=2, ensure_ascii=False, allow_nan=False) if options.json else text())


def _verdict(projection: Projection) -> Exit:
    """Say why a recipe cannot be used, and how the command ends."""
    from projectors import reports

    found = reports.reasons(projection)
    for reason in found:
        print(reason, file=sys.stderr)
    return Exit.ILLEGAL if found else Exit.ANSWERED
