"""Measure, print a table, keep it as JSON.

    python -m bench [--full] [--rounds N] [--json FILE] [FIGURE …]

Nothing else should run meanwhile. Exits with 1 if a figure is above its bar.
"""

from __future__ import annotations

import argparse
import compileall
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

from bench.figures import attempt, complete, disk, dispatch, report, reuse, startup, waiting
from bench.rows import Row, table
from bench.scale import FULL, Scale

FIGURES: Final[dict[str, Callable[[Scale, Path], list[Row]]]] = {
    "attempt": attempt.measure,
    "startup": startup.measure,
    "disk": disk.measure,
    "dispatch": dispatch.measure,
    "complete": complete.measure,
    "reuse": reuse.measure,
    "report": report.measure,
    "waiting": waiting.measure,
}
"""The one that makes the most files first: to have removed many slows some file systems down."""
COMPILED: Final = ("agentcompass", "workers", "bench")
HOME: Final = Path(".bench")
"""Below the working directory, so that runs lie on a real disk and not in memory."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 1 if a figure is above its bar."""
    given = _parser().parse_args(arguments)
    scale = FULL if given.full else Scale()
    scale = replace(scale, rounds=given.rounds or scale.rounds)
    _use_bytecode()
    started, load = datetime.now(UTC), os.getloadavg()[0]
    folder = HOME.absolute() / f"{started:%Y%m%d_%H%M%S}"
    rows: list[Row] = []
    try:
        for name in given.figures or FIGURES:
            found = FIGURES[name](scale, _made(folder / name))
            print(f"{table(found)}\n", flush=True)
            rows += found
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    file = given.json or HOME / f"{started:%Y%m%d_%H%M%S}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        json.dumps(_content(rows, started, scale, load), indent=1) + "\n", encoding="utf-8"
    )
    busy = f", load {load:.1f} at the start" if load > 1 else ""
    print(
        f"{started:%Y-%m-%d}, {os.cpu_count()} cores{busy}, median of {scale.rounds} rounds; {file}"
    )
    return int(any(row.is_good is False for row in rows))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.split("\n")[0])
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=", ".join(FIGURES))
    parser.add_argument("--full", action="store_true", help="all sizes; takes an hour")
    parser.add_argument("--rounds", type=int, help="how often each thing is measured")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures are kept")
    return parser


def _made(folder: Path) -> Path:
    """Make the folder of a figure; it is removed only when all figures are measured."""
    folder.mkdir(parents=True)
    return folder


def _use_bytecode() -> None:
    """Let every start find our modules compiled, as those of an installed package are."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for package in COMPILED:
        compileall.compile_dir(package, quiet=1)


def _content(
    rows: Sequence[Row], started: datetime, scale: Scale, load: float
) -> dict[str, object]:
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "load": load}
    return {
        "at": started.isoformat(),
        "machine": machine,
        "rounds": scale.rounds,
        "figures": [row.as_json() for row in rows],
    }


if __name__ == "__main__":
    sys.exit(main())
