"""The command line: what is asked, and in which words and with which exit status it is answered.

argparse rather than typer: `project` has 0.7 s in all, of which typer's import takes 0.1 s; and a first argument that is no
command must be read as a study.

Exit status: 0 answered; 1 the study is illegal or infeasible; 2 bad usage or an unreadable file; 70 a fault of the program.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import NoReturn

from projectors.inputs.errors import InputError

PROGRAM = "primus-studio"
KINDS = ("models", "hardware", "networks", "clusters", "frameworks", "studies")


class Exit(IntEnum):
    """Exit status of every command; FAULT is EX_SOFTWARE, INTERRUPTED the shell's 128 + SIGINT."""

    ANSWERED = 0
    ILLEGAL = 1
    USAGE = 2
    FAULT = 70
    INTERRUPTED = 130


def run(arguments: Sequence[str]) -> int:
    """Answer one command line. Never raises: every failure becomes words on standard error and an exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without µ still gets its answer
    try:
        status = _dispatch(list(arguments))
        sys.stdout.flush()
    except InputError as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)
        return Exit.USAGE
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the interpreter complains when it flushes
        return Exit.ANSWERED
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except SystemExit as stop:  # argparse: help, version, bad usage
        return stop.code if isinstance(stop.code, int) else Exit.USAGE
    except Exception:  # noqa: BLE001 - the last resort: no traceback reaches the user
        return _report_fault()
    return status


def _dispatch(arguments: list[str]) -> int:
    first = arguments[0] if arguments else ""
    parsers = _commands()
    if first in parsers:
        options = parsers[first].parse_args(arguments[1:])
        from primus_studio import commands

        return int(getattr(commands, first)(options))
    parser = _main_parser(parsers)
    options, surplus = parser.parse_known_args(arguments)
    if surplus:
        near = difflib.get_close_matches(first, parsers, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        parser.error(f"found {' '.join(surplus)}, allowed is one study or a command{hint}")
    from primus_studio.app import run_window

    return int(run_window(options.study))


def _main_parser(commands: dict[str, argparse.ArgumentParser]) -> argparse.ArgumentParser:
    listing = "\n".join(f"  {name:<12}{parser.description}" for name, parser in commands.items())
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        usage=f"{PROGRAM} [STUDY]\n       {PROGRAM} COMMAND ...",
        description="Memory and throughput of distributed LLM training, before anyone queues a job.",
        epilog=f"commands:\n{listing}\n\n{PROGRAM} COMMAND --help says more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("study", metavar="STUDY", nargs="?", help="study to open in the window: a file or a shipped name")
    parser.add_argument("--version", action=_Version, nargs=0, help="version of the program")
    return parser


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import PackageNotFoundError, version

        try:
            number = version(PROGRAM)
        except PackageNotFoundError:
            number = "(not installed)"
        print(PROGRAM, number)
        parser.exit()


def _commands() -> dict[str, argparse.ArgumentParser]:
    """Every command's parser."""
    project = _parser("project", "one projection: memory, step time, throughput, pipeline")
    _takes_study(project)
    memory = _parser("memory", "memory alone, per pipeline rank and component")
    _takes_study(memory)
    timeline = _parser("timeline", "the pipeline schedule, event by event")
    _takes_study(timeline)
    timeline.add_argument("--chrome-trace", metavar="FILE", type=Path, help="write the events for Perfetto or chrome://tracing")
    timeline.add_argument("--csv", metavar="FILE", type=Path, help="write the events as comma-separated values, times in seconds")
    benchmark = _parser("benchmark", "layers and collectives measured on this machine, kept as a record")
    _takes_study(benchmark)
    benchmark.add_argument("--device", choices=("cuda", "cpu"), help="kind of device; default cuda where there is one, else cpu")
    benchmark.add_argument("--processes", metavar="N", type=_count, help="devices (cpu: processes) to use; default all (cpu: 1)")
    benchmark.add_argument("--threads", metavar="N", type=_count, help="cpu: threads of each process; default all")
    benchmark.add_argument("--name", metavar="NAME", default="", help="name of the record")
    benchmark.add_argument("--out", metavar="FILE", type=Path, help="file of the record; default: kept under its name")
    benchmark.add_argument("--plan", action="store_true", help="say what would be measured, and measure nothing")
    validate = _parser("validate", "projected against measured runs")
    validate.add_argument("files", metavar="FILE", nargs="*", type=Path, help="measured runs; default: the shipped ones")
    _answers_json(validate)
    show = _parser("show", "what is known: models, hardware, networks, clusters, frameworks, studies")
    show.add_argument("kind", choices=KINDS, metavar="KIND", help=", ".join(KINDS))
    show.add_argument("name", nargs="?", metavar="NAME", help="one of them, in full")
    _answers_json(show)
    screenshot = _parser("screenshot", "the window, drawn without a display")
    _takes_study(screenshot, json=False)
    screenshot.add_argument("out", metavar="OUT.png", type=Path, help="picture to write")
    screenshot.add_argument("--panel", metavar="NAME", help="one panel instead of the whole window")
    screenshot.add_argument("--theme", choices=("light", "dark"), default="light", help="default light")
    screenshot.add_argument("--size", metavar="WxH", type=_size, help="logical pixels, default 1280x800; a panel's own")
    screenshot.add_argument("--scale", metavar="S", type=_scale, default=1.0, help="pixels per logical pixel, default 1")
    every = (project, memory, timeline, benchmark, validate, show, screenshot)
    return {parser.prog.removeprefix(f"{PROGRAM} "): parser for parser in every}


def _parser(name: str, says: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(prog=f"{PROGRAM} {name}", description=says, allow_abbrev=False)


def _takes_study(parser: argparse.ArgumentParser, *, json: bool = True) -> None:
    parser.add_argument("study", metavar="STUDY", help="a study file, or the name of a shipped study")
    says = "change one value, such as recipe.tp=4; repeatable"
    parser.add_argument("--set", metavar="KEY=VALUE", dest="overrides", action="append", default=[], help=says)
    if json:
        _answers_json(parser)


def _answers_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="answer as JSON: bytes, seconds, plain counts")


MOST_PIXELS = 16_384
"""Longest side of a picture in logical pixels: what a raster of the graphics stack takes."""

MOST_SCALE = 8.0

MOST_PROCESSES = 1024


def _count(text: str) -> int:
    if not (text.isdecimal() and 0 < int(text) <= MOST_PROCESSES):
        raise argparse.ArgumentTypeError(f"found {text!r}, allowed is a whole number from 1 to {MOST_PROCESSES:,}")
    return int(text)


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.partition("x")
    if not (width.isdecimal() and height.isdecimal() and 0 < int(width) <= MOST_PIXELS and 0 < int(height) <= MOST_PIXELS):
        raise argparse.ArgumentTypeError(f"found {text!r}, allowed is WIDTHxHEIGHT such as 1280x800, at most {MOST_PIXELS} each")
    return int(width), int(height)


def _scale(text: str) -> float:
    try:
        scale = float(text)
    except ValueError:
        scale = 0.0
    if not 0 < scale <= MOST_SCALE:
        raise argparse.ArgumentTypeError(f"found {text!r}, allowed is a number above 0 and at most {MOST_SCALE:g}")
    return scale


def _report_fault() -> int:
    """Keep the traceback in a file and say where."""
    import traceback
    from datetime import UTC, datetime

    import platformdirs

    now = datetime.now(UTC)
    try:
        path = Path(platformdirs.user_log_dir(PROGRAM)) / f"fault-{now:%Y%m%d-%H%M%S-%f}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{now.isoformat()}\n{' '.join(sys.argv)}\n{traceback.format_exc()}", encoding="utf-8")
        place = f"the details are in {path}"
    except OSError as error:
        place = f"and its details could not be written ({error.strerror})"
    print(f"{PROGRAM}: a fault of the program, please report it: {sys.exception()!r}; {place}", file=sys.stderr)
    return Exit.FAULT
