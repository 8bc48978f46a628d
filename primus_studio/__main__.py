"""Start: hands over to the command line. Spawned workers import this file, so it imports nothing heavy."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line with this process's arguments; answers the exit status."""
    from primus_studio.cli import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
