"""What an attempt that does nothing costs, from the request to the report on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.lab import Lab, Serving, bare_worker, open_lab, worker
from bench.measuring import PYTHON, spent_by
from bench.rows import Row
from bench.scale import Scale

SLOTS: Final = {"prefork": 2, "threads": 64}
FLOOR: Final = "bare chord"
_WARM_UP: Final = 20
_GROWS_FROM, _GROWS_TO = 1_000, 100_000


@dataclass(frozen=True, slots=True)
class Load:
    """What is evaluated."""

    tasks: int
    k: int = 1
    pool: str = "prefork"

    @property
    def attempts(self) -> int:
        return self.tasks * self.k

    @property
    def at_most(self) -> float | None:
        """The largest good ratio of CPU time; below this size the start of Python counts, too."""
        return 2.0 if self.tasks >= 5_000 else None

    def __str__(self) -> str:
        return f"N={self.tasks:,} k={self.k} {self.pool}"


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one attempt, or of one header of a bare chord; and the memory of the process that sends."""

    cpu_ms: float
    wall_ms: float
    peak_mb: float


@dataclass(frozen=True, slots=True)
class Costs:
    """Of one load, round by round."""

    ours: Sequence[Cost]
    bare: Sequence[Cost]


def measure(scale: Scale, folder: Path) -> list[Row]:
    """Return CPU and wall milliseconds per attempt of each load, beside a bare chord of its size."""
    loads = [Load(n) for n in scale.attempts]
    loads += [Load(scale.attempts[0], k=3), Load(scale.in_threads, pool="threads")]
    found = {load: costs(load, scale.rounds, folder / f"load-{n}") for n, load in enumerate(loads)}
    rows = [row for load, cost in found.items() for row in rows_of(load, cost)]
    return [*rows, *_growth(found)]


def costs(load: Load, rounds: int, folder: Path) -> Costs:
    """Execute a load and its floor in turn."""
    slots = SLOTS[load.pool]
    with (
        # Two brokers, so that each one's time is told from the other's.
        open_lab(folder / "ours") as lab,
        open_lab(folder / "bare") as floor,
        worker(lab, load.pool, slots) as served,
        bare_worker(floor, load.pool, slots) as idle,
    ):
        _our_cost(Load(_WARM_UP), lab, served)
        _bare_cost(_WARM_UP, floor, idle)
        pairs = [
            (_our_cost(load, lab, served), _bare_cost(load.attempts, floor, idle))
            for _ in range(rounds)
        ]
    return Costs([ours for ours, _ in pairs], [bare for _, bare in pairs])


def _our_cost(load: Load, lab: Lab, served: Serving) -> Cost:
    before_s = served.cpu_s() + lab.cpu_of_server_s()
    coordinator = lab.run(load.tasks, load.k, "--broker", lab.server.url)
    serving_s = served.cpu_s() + lab.cpu_of_server_s() - before_s
    cpu_s, count = coordinator.cpu_s + serving_s, load.attempts
    return Cost(1000 * cpu_s / count, 1000 * coordinator.wall_s / count, coordinator.peak_mb)


def _bare_cost(count: int, lab: Lab, served: Serving) -> Cost:
    before_s = served.cpu_s() + lab.cpu_of_server_s()
    sender = spent_by([PYTHON, "-m", "bench.bare", "chord", str(count)], env=lab.env)
    serving_s = served.cpu_s() + lab.cpu_of_server_s() - before_s
    cpu_s = sender.cpu_s + serving_s
    return Cost(1000 * cpu_s / count, 1000 * sender.wall_s / count, sender.peak_mb)


def rows_of(load: Load, found: Costs) -> list[Row]:
    """Return the lines of one load."""
    ours, bare = found.ours, found.bare
    return [
        Row(
            f"CPU per attempt, {load}",
            "ms",
            [one.cpu_ms for one in ours],
            FLOOR,
            [one.cpu_ms for one in bare],
            load.at_most,
        ),
        Row(
            f"wall per attempt, {load}",
            "ms",
            [one.wall_ms for one in ours],
            FLOOR,
            [one.wall_ms for one in bare],
        ),
        Row(
            f"coordinator's peak memory, {load}",
            "MB",
            [one.peak_mb for one in ours],
            FLOOR,
            [one.peak_mb for one in bare],
        ),
    ]


def _growth(found: Mapping[Load, Costs]) -> list[Row]:
    small, large = found.get(Load(_GROWS_FROM)), found.get(Load(_GROWS_TO))
    if small is None or large is None:
        return []
    return [
        Row(
            f"CPU per attempt at N={_GROWS_TO:,}",
            "ms",
            [one.cpu_ms for one in large.ours],
            f"the same at N={_GROWS_FROM:,}",
            [one.cpu_ms for one in small.ours],
            1.2,
        )
    ]
