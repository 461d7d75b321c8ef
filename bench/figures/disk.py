"""What an attempt asks of the disk, counted and timed without queue and workers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.measuring import PYTHON, Spent, spent_by
from bench.rows import Row
from bench.scale import Scale

_ATTEMPTS = 500
_LIMITS: Mapping[str, tuple[tuple[str, ...], float]] = {
    "fsync calls": (("fsync",), 7),
    "renames and links": (("link", "rename", "replace"), 4),
}
_FLOOR = "the same calls, bare"


def measure(scale: Scale, folder: Path) -> list[Row]:
    """Return counts of calls, and CPU and wall time beside the same calls made bare."""
    ours: list[Mapping[str, Any]] = []
    bare: list[Spent] = []
    for number in range(scale.rounds):
        ours.append(_ours(folder / f"ours-{number}"))
        bare.append(_bare(folder / f"bare-{number}"))
    return [
        *(
            Row(f"{what} per attempt, k=1", "", [_calls(one, names) for one in ours], at_most=limit)
            for what, (names, limit) in _LIMITS.items()
        ),
        Row("files per attempt, k=1", "", [one["files"] for one in ours], at_most=4),
        Row(
            "CPU per attempt without queue",
            "ms",
            [1000 * one["cpu_s"] / one["count"] for one in ours],
            _FLOOR,
            [1000 * one.cpu_s / _ATTEMPTS for one in bare],
        ),
        Row(
            "wall per attempt without queue",
            "ms",
            [1000 * one["wall_s"] / one["count"] for one in ours],
            _FLOOR,
            [1000 * one.wall_s / _ATTEMPTS for one in bare],
        ),
    ]


def _ours(folder: Path) -> Mapping[str, Any]:
    printed = spent_by([PYTHON, "-m", "bench.direct", str(folder), str(_ATTEMPTS)]).output
    found: Mapping[str, Any] = json.loads(printed)
    return found


def _bare(folder: Path) -> Spent:
    """Return what the calls cost without the start of Python."""
    command = [PYTHON, "-m", "bench.floors", "files"]
    idle = spent_by([*command, f"{folder}-idle", "0"])
    used = spent_by([*command, str(folder), str(_ATTEMPTS)])
    return Spent(used.wall_s - idle.wall_s, used.cpu_s - idle.cpu_s, used.peak_mb)


def _calls(found: Mapping[str, Any], names: tuple[str, ...]) -> float:
    return float(sum(found["calls"].get(name, 0) for name in names))
