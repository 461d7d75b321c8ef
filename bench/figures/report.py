"""A report of many small results, and of a few large ones."""

from __future__ import annotations

from pathlib import Path

from bench.made import make_run, result_bytes
from bench.measuring import OURS, PYTHON, Spent, spent_by
from bench.rows import Row
from bench.scale import Scale

LARGE_BYTES = 5_000_000
AT_MOST_MB = 300.0


def measure(scale: Scale, folder: Path) -> list[Row]:
    """Return time and peak memory of `agentcompass report`."""
    small = make_run(folder / "small", scale.small_results, is_final=False)
    large = make_run(
        folder / "large", scale.large_results, trajectory_bytes=LARGE_BYTES, is_final=False
    )
    return [
        *_rows(
            small, f"{scale.small_results:,}", "parse", "reading and parsing", 4.0, scale.rounds
        ),
        *_rows(large, f"{scale.large_results:,}", "read", "reading all bytes", 1.0, scale.rounds),
    ]


def _rows(
    run_dir: Path, count: str, floor: str, about: str, at_most: float, rounds: int
) -> list[Row]:
    what = f"report of {count} results of {result_bytes(run_dir) / 1000:,.0f} kB"
    ours: list[Spent] = []
    floors: list[Spent] = []
    for _ in range(rounds):
        ours.append(spent_by([*OURS, "report", str(run_dir)]))
        floors.append(spent_by([PYTHON, "-m", "bench.floors", floor, str(run_dir)]))
    return [
        Row(
            f"CPU of {what}",
            "s",
            [one.cpu_s for one in ours],
            about,
            [one.cpu_s for one in floors],
            at_most,
        ),
        Row(
            f"wall of {what}",
            "s",
            [one.wall_s for one in ours],
            about,
            [one.wall_s for one in floors],
        ),
        Row(f"peak memory of {what}", "MB", [one.peak_mb for one in ours], at_most=AT_MOST_MB),
    ]
