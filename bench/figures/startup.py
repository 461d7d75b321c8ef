"""How long a person waits for the command line, and a message for its worker."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.lab import bare_worker, open_lab, worker
from bench.measuring import OURS, PYTHON, spent_by
from bench.rows import Row
from bench.scale import Scale

_MORE_ROUNDS = 4
"""Times the usual number: a start takes a few hundredths of a second."""


def measure(scale: Scale, folder: Path) -> list[Row]:
    """Return start-up times; of the workers in wall seconds, because their processes start at once."""
    commands = {"--version": 4.0, "--help": 8.0}
    cpu_ms: dict[str, list[float]] = {name: [] for name in ("", *commands)}
    for _ in range(_MORE_ROUNDS * scale.rounds):
        cpu_ms[""].append(_cpu_ms([PYTHON, "-c", "pass"]))
        for name in commands:
            cpu_ms[name].append(_cpu_ms([*OURS, name]))
    rows = [
        Row(f"CPU of agentcompass {name}", "ms", cpu_ms[name], "python -c pass", cpu_ms[""], limit)
        for name, limit in commands.items()
    ]
    return [*rows, _worker_ready(scale.rounds, folder)]


def _cpu_ms(command: Sequence[str]) -> float:
    return 1000 * spent_by(command).cpu_s


def _worker_ready(rounds: int, folder: Path) -> Row:
    ours, bare = [], []
    with open_lab(folder / "ours") as lab, open_lab(folder / "bare") as floor:
        for _ in range(rounds):
            with worker(lab) as served:
                ours.append(served.ready_s)
            with bare_worker(floor) as served:
                bare.append(served.ready_s)
    return Row("worker ready", "s", ours, "bare Celery worker", bare, 1.5)
