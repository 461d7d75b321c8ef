"""A new run that takes everything over from a complete one."""

from __future__ import annotations

from pathlib import Path

from bench.lab import open_lab, run_command
from bench.made import make_run
from bench.measuring import PYTHON, Spent, spent_by
from bench.rows import Row
from bench.scale import Scale

_FLOOR = "durable copies"


def measure(scale: Scale, folder: Path) -> list[Row]:
    """Return what reuse costs, beside copying as many small trees durably."""
    ours: list[Spent] = []
    floors: list[Spent] = []
    with open_lab(folder / "lab") as lab:
        source = make_run(lab.results, scale.complete)
        more = ["--reuse-run-id", str(source), "--broker", lab.server.url]
        command = run_command(lab.results, scale.complete, 1, *more)
        for number in range(scale.rounds):
            ours.append(spent_by(command, env=lab.env))
            copy = str(folder / f"copy-{number}")
            floors.append(spent_by([PYTHON, "-m", "bench.floors", "copy", str(source), copy]))
    what = f"reuse of {scale.complete:,} complete tasks"
    return [
        Row(
            f"CPU of {what}",
            "s",
            [one.cpu_s for one in ours],
            _FLOOR,
            [one.cpu_s for one in floors],
            3.0,
        ),
        Row(
            f"wall of {what}",
            "s",
            [one.wall_s for one in ours],
            _FLOOR,
            [one.wall_s for one in floors],
            3.0,
        ),
    ]
