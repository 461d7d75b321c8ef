"""Measure, print a table, keep it as JSON.

    python -m bench [--full] [--rounds N] [--json FILE] [FIGURE …]

Nothing else should run meanwhile. Exits with 1 if a figure is above its bar.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bench.figures import attempt, complete, disk, dispatch, report, startup, waiting
from bench.rows import Row, table
from bench.scale import FULL, Scale

FIGURES: Final[dict[str, Callable[[Scale, Path], list[Row]]]] = {
    "startup": startup.measure,
    "disk": disk.measure,
    "attempt": attempt.measure,
    "dispatch": dispatch.measure,
    "complete": complete.measure,
    "report": report.measure,
    "waiting": waiting.measure,
}
HOME: Final = Path(".bench")
"""Below the working directory, so that runs lie on a real disk and not in memory."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 1 if a figure is above its bar."""
    given = _parser().parse_args(arguments)
    scale = FULL if given.full else Scale()
    scale = replace(scale, rounds=given.rounds or scale.rounds)
    started = datetime.now(UTC)
    rows: list[Row] = []
    for name in given.figures or FIGURES:
        found = _measured(name, scale)
        print(table(found), flush=True)
        print()
        rows += found
    file = given.json or HOME / f"{started:%Y%m%d_%H%M%S}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(_content(rows, started, scale), indent=1) + "\n", encoding="utf-8")
    print(f"{started:%Y-%m-%d}, {os.cpu_count()} cores, median of {scale.rounds} rounds; {file}")
    return int(any(row.is_good is False for row in rows))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.split("\n")[0])
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=", ".join(FIGURES))
    parser.add_argument("--full", action="store_true", help="all sizes; takes an hour")
    parser.add_argument("--rounds", type=int, help="how often each thing is measured")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures are kept")
    return parser


def _measured(name: str, scale: Scale) -> list[Row]:
    folder = HOME.absolute() / f"{name}-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        return FIGURES[name](scale, folder)
    finally:
        shutil.rmtree(folder)


def _content(rows: Sequence[Row], started: datetime, scale: Scale) -> dict[str, object]:
    return {
        "at": started.isoformat(),
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "rounds": scale.rounds,
        "figures": [row.as_json() for row in rows],
    }


if __name__ == "__main__":
    sys.exit(main())
