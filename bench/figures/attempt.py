"""What an attempt that does nothing costs, from the request to the report on disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.lab import Lab, Serving, bare_worker, open_lab, worker
from bench.measuring import PYTHON, spent_by
from bench.rows import Row
from bench.scale import Scale

SLOTS = {"prefork": 2, "threads": 64}
WARM_UP = 20
FLOOR = "bare chord"


@dataclass(frozen=True, slots=True)
class Load:
    """What is evaluated."""

    tasks: int
    k: int
    pool: str

    @property
    def attempts(self) -> int:
        return self.tasks * self.k

    def __str__(self) -> str:
        return f"N={self.tasks:,} k={self.k} {self.pool}"


@dataclass(frozen=True, slots=True)
class _Cost:
    """Of one attempt, or of one header of a bare chord."""

    cpu_ms: float
    wall_ms: float


def measure(scale: Scale, folder: Path) -> list[Row]:
    """Return CPU and wall milliseconds per attempt of each load, beside a bare chord of its size."""
    loads = [Load(n, 1, "prefork") for n in scale.attempts]
    loads += [Load(scale.attempts[0], 3, "prefork"), Load(scale.attempts[-1], 1, "threads")]
    return [row for load in loads for row in _rows(load, scale.rounds, folder)]


def _rows(load: Load, rounds: int, folder: Path) -> list[Row]:
    ours: list[_Cost] = []
    bare: list[_Cost] = []
    slots = SLOTS[load.pool]
    # Two brokers, so that each one's time is told from the other's.
    with (
        open_lab(folder / "ours") as lab,
        open_lab(folder / "bare") as floor,
        worker(lab, load.pool, slots) as served,
        bare_worker(floor, load.pool, slots) as idle,
    ):
        _our_cost(Load(WARM_UP, 1, load.pool), lab, served)
        _bare_cost(WARM_UP, floor, idle)
        for _ in range(rounds):
            ours.append(_our_cost(load, lab, served))
            bare.append(_bare_cost(load.attempts, floor, idle))
    at_most = 2.0 if load.pool == "prefork" and load.k == 1 else None
    return [
        Row(
            f"CPU per attempt, {load}",
            "ms",
            [one.cpu_ms for one in ours],
            FLOOR,
            [one.cpu_ms for one in bare],
            at_most,
        ),
        Row(
            f"wall per attempt, {load}",
            "ms",
            [one.wall_ms for one in ours],
            FLOOR,
            [one.wall_ms for one in bare],
        ),
    ]


def _our_cost(load: Load, lab: Lab, served: Serving) -> _Cost:
    before_s = served.cpu_s() + lab.cpu_of_server_s()
    coordinator = lab.run(load.tasks, load.k, "--broker", lab.server.url)
    serving_s = served.cpu_s() + lab.cpu_of_server_s() - before_s
    lab.forget_runs()
    return _cost(coordinator.cpu_s + serving_s, coordinator.wall_s, load.attempts)


def _bare_cost(count: int, lab: Lab, served: Serving) -> _Cost:
    before_s = served.cpu_s() + lab.cpu_of_server_s()
    sender = spent_by([PYTHON, "-m", "bench.bare", "chord", str(count)], env=lab.env)
    serving_s = served.cpu_s() + lab.cpu_of_server_s() - before_s
    return _cost(sender.cpu_s + serving_s, sender.wall_s, count)


def _cost(cpu_s: float, wall_s: float, count: int) -> _Cost:
    return _Cost(1000 * cpu_s / count, 1000 * wall_s / count)
