"""Commands that look at runs; nothing is executed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.made import make_run
from bench.measuring import OURS, PYTHON, Spent, spent_by
from bench.rows import Row
from bench.scale import Scale

_BROKEN_OFF = 3
"""Exit code of a run that is not complete."""


def measure(scale: Scale, folder: Path) -> list[Row]:
    """Return what resume and status of a run cost, beside imports and one listing."""
    whole = make_run(folder / "whole", scale.complete)
    half = make_run(folder / "half", scale.complete, done=scale.complete // 2)
    size = f"N={scale.complete:,}"
    rows: list[Row] = []
    for command, run_dir, name, limit in (
        (["resume"], whole, "resume of a complete run", 3.0),
        (["resume", "--dry-run"], half, "resume --dry-run of a half-complete run", None),
        (["status"], whole, "status of a complete run", None),
        (["status"], half, "status of a half-complete run", None),
    ):
        rows.append(_row(f"CPU of {name}, {size}", [*OURS, *command], run_dir, scale.rounds, limit))
    return [*rows, _listing(scale, folder / "many")]


def _listing(scale: Scale, folder: Path) -> Row:
    for number in range(scale.runs):
        make_run(folder, 1, run_id=f"run-{number:05}")
    ours: list[Spent] = []
    floors: list[Spent] = []
    for _ in range(scale.rounds):
        ours.append(spent_by([*OURS, "ls", str(folder)]))
        floors.append(spent_by([PYTHON, "-m", "bench.floors", "infos", str(folder)]))
    return Row(
        f"CPU of ls of {scale.runs:,} runs",
        "s",
        [one.cpu_s for one in ours],
        "imports + reading",
        [one.cpu_s for one in floors],
    )


def _row(
    what: str, command: Sequence[str], run_dir: Path, rounds: int, at_most: float | None
) -> Row:
    ours: list[Spent] = []
    floors: list[Spent] = []
    for _ in range(rounds):
        ours.append(spent_by([*command, str(run_dir)], accepts=(0, _BROKEN_OFF)))
        floors.append(spent_by([PYTHON, "-m", "bench.floors", "scan", str(run_dir)]))
    return Row(
        what,
        "s",
        [one.cpu_s for one in ours],
        "imports + listing",
        [one.cpu_s for one in floors],
        at_most,
    )
