"""Benchmark records in the user's data folder: kept, listed, found again, and whether one fits a study."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from projectors.inputs.benchmark_record import BenchmarkRecord
from projectors.inputs.errors import InputError, InputProblem
from projectors.inputs.loading import validated
from projectors.inputs.references import is_path
from projectors.inputs.saving import write_atomically
from projectors.inputs.study import Study
from projectors.inputs.words import nearest
from projectors.inputs.yaml_text import parse, read_text
from projectors.restoring.scaling import scale_down

LATEST = "latest"
"""Instead of a record's name: the newest one that fits the study."""

ENDING = ".record.yaml"


@dataclass(frozen=True, slots=True)
class Match:
    """One thing that a record and a study must agree on."""

    what: str
    wanted: str
    found: str

    @property
    def fits(self) -> bool:
        return self.wanted == self.found


def records_folder() -> Path:
    """Folder of the user's records; it need not exist."""
    import platformdirs

    return Path(platformdirs.user_data_dir("primus-studio")) / "records"


def record_text(record: BenchmarkRecord) -> str:
    """A record as YAML, without what was left at its default."""
    return yaml.safe_dump(
        record.model_dump(mode="json", exclude_defaults=True) | {"version": record.version},
        sort_keys=False, width=130, allow_unicode=True, default_flow_style=None,
    )


def keep(record: BenchmarkRecord, path: Path | None = None) -> Path:
    """Write a record: to `path`, or under its name in the user's folder. Raises InputError in words."""
    target = path or records_folder() / (record.name + ENDING)
    if path is None:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            found, allowed = f"no folder for records ({error.strerror})", "a data folder that may be written"
            raise InputError([InputProblem("", found, allowed, str(target.parent))]) from None
    write_atomically(target, record_text(record))
    return target


def load_record(reference: str, study: Study | None = None) -> BenchmarkRecord:
    """The record of a path or a name; `latest` is the newest that fits `study`. Raises InputError."""
    if reference == LATEST:
        return _latest(study)
    path = Path(reference).expanduser() if is_path(reference) else records_folder() / (reference + ENDING)
    if not path.is_file():
        names = [found.name.removesuffix(ENDING) for found in _files()]
        allowed = f"latest, a path, or one of {', '.join(names)}" if names else "latest or a path; no record is kept yet"
        raise InputError([InputProblem("compute.record", f'"{reference}", which no record is named', allowed,
                                       suggestion=nearest(reference, names))])
    return read_record(path)


def read_record(path: Path) -> BenchmarkRecord:
    """The record of a file. Raises InputError: unreadable, of another version, faulty."""
    document = parse(read_text(path), str(path))
    version = document.data.get("version") if isinstance(document.data, dict) else None
    if version != 1:
        mark = document.mark(("version",))
        found = "no version" if version is None else f"version {version}"
        raise InputError([InputProblem(mark.where, found, "version 1: measure again with this program", mark.file, mark.line)])
    return validated(BenchmarkRecord, document)


def kept_records() -> Iterator[tuple[Path, BenchmarkRecord | InputError]]:
    """Every record of the user's folder, newest first; a faulty one with its fault."""
    for path in _files():
        try:
            yield path, read_record(path)
        except InputError as error:
            yield path, error


def matches(record: BenchmarkRecord, study: Study) -> tuple[Match, ...]:
    """What a record must agree with a study in for its timings to be the study's: the shapes of the layers that were
    measured, the precision, the microbatch, and the device."""
    model, recipe, _ = scale_down(study.model, study.recipe, record.device.count)
    wanted = model.model_dump(mode="json", exclude=set(FREE))
    found = record.model.model_dump(mode="json", exclude=set(FREE))
    shapes = [Match(f"model.{key}", _words(wanted[key]), _words(found[key])) for key in wanted if wanted[key] != found[key]]
    settings = [
        Match(f"recipe.{name}", _words(getattr(recipe, name)), _words(getattr(record.recipe, name))) for name in SAME_IN_RECIPE
    ]
    device = Match("hardware", study.cluster.hardware.name, record.device.hardware or record.device.name)
    return (*shapes, *settings, device)


FREE = ("name", "num_layers", "published", "sources", "max_seq_len")
"""Fields of a card that no timing of a single layer depends on."""

SAME_IN_RECIPE = ("tp", "ep", "cp", "mbs", "seq_length", "precision", "cross_entropy_fusion", "optimizer")
"""Fields of the reduced recipe that timings depend on and nothing restores."""


def _latest(study: Study | None) -> BenchmarkRecord:
    misfits = []
    for _, record in kept_records():
        if isinstance(record, InputError):
            continue
        wrong = [match for match in matches(record, study) if not match.fits] if study is not None else []
        if not wrong:
            return record
        misfits.append(f"{record.name} has {wrong[0].what} {wrong[0].found}, not {wrong[0].wanted}")
    found = "latest, and no record fits" if misfits else "latest, and no record is kept yet"
    allowed = "a record of this study's layers and device: run `primus-studio benchmark`"
    raise InputError([InputProblem("compute.record", "; ".join([found, *misfits[:3]]), allowed)])


def _files() -> list[Path]:
    """Record files, newest first."""
    try:
        return sorted(records_folder().glob(f"*{ENDING}"), key=lambda path: path.stat().st_mtime, reverse=True)
    except OSError:
        return []


def _words(value: object) -> str:
    return str(getattr(value, "value", value))
