"""How fast a large run is handed to the broker, and how much memory that takes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from redis import Redis

from bench.lab import Lab, open_lab, worker
from bench.measuring import PYTHON, Spent, spent_by
from bench.rows import Row
from bench.scale import Scale
from workers.broker.lanes import lanes_of

_FIRST_RESULT_S = 120.0


@dataclass(frozen=True, slots=True)
class _Sent:
    """One large run, all of it waiting."""

    ours: Spent
    half: Spent
    """A run of half the size."""
    bare: Spent
    message_bytes: float
    stored_bytes: float
    """Broker memory per message."""


def measure(scale: Scale, folder: Path) -> list[Row]:
    """Return rates, sizes and memory; and how soon the first attempt starts."""
    sent = [_sent(scale.messages, folder / f"sent-{number}") for number in range(scale.rounds)]
    first = [_first(scale.messages, folder / f"first-{number}") for number in range(scale.rounds)]
    count, half = scale.messages, scale.messages // 2
    growth = [1000 * (one.ours.peak_mb - one.half.peak_mb) / (count - half) for one in sent]
    floor = "bare messages in batches"
    return [
        Row(
            f"CPU of planning and dispatching {count:,} attempts",
            "s",
            [one.ours.cpu_s for one in sent],
            floor,
            [one.bare.cpu_s for one in sent],
            1.5,
        ),
        Row(
            f"wall of planning and dispatching {count:,} attempts",
            "s",
            [one.ours.wall_s for one in sent],
            floor,
            [one.bare.wall_s for one in sent],
        ),
        Row(
            f"coordinator's peak memory at {count:,}",
            "MB",
            [one.ours.peak_mb for one in sent],
            at_most=300.0,
        ),
        Row("growth of that per attempt", "kB", growth, at_most=1.0),
        Row("size of a message", "B", [one.message_bytes for one in sent]),
        Row("broker memory per message", "B", [one.stored_bytes for one in sent]),
        Row(f"first attempt of {count:,} starts after the seal", "s", first, at_most=2.0),
    ]


def _sent(count: int, folder: Path) -> _Sent:
    with open_lab(folder / "ours") as lab, _client(lab) as client:
        before = _used_bytes(client)
        ours = _detached(lab, count)
        lane = max(lanes_of("default"), key=client.llen)
        stored = (_used_bytes(client) - before) / count
        message = client.lindex(lane, 0)
    with open_lab(folder / "half") as lab:
        half = _detached(lab, count // 2)
    with open_lab(folder / "bare") as lab:
        bare = spent_by([PYTHON, "-m", "bench.bare", "send", str(count)], env=lab.env)
    return _Sent(ours, half, bare, len(message or b""), stored)


def _detached(lab: Lab, count: int) -> Spent:
    return lab.run(count, 1, "--detach", "--broker", lab.server.url)


def _first(count: int, folder: Path) -> float:
    with open_lab(folder) as lab, worker(lab):
        _detached(lab, count)
        return _first_start_s(next(lab.results.glob("*/*/run_info.json")).parent)


def _first_start_s(run_dir: Path) -> float:
    """Return how long after the seal the task that was first in line began."""
    sealed = datetime.fromisoformat(_read(run_dir / "run_info.json")["sealed_at"])
    give_up_at = time.monotonic() + _FIRST_RESULT_S
    while time.monotonic() < give_up_at:
        for path in run_dir.glob("details/normal/task-000000--*/attempt-1/result.json"):
            began = datetime.fromisoformat(_read(path)["started_at"])
            return (began - sealed).total_seconds()
        time.sleep(0.1)
    raise RuntimeError("no attempt was executed")


def _read(path: Path) -> Any:
    return json.loads(path.read_bytes())


@contextmanager
def _client(lab: Lab) -> Iterator[Redis]:
    client = Redis.from_url(lab.server.url)
    try:
        yield client
    finally:
        client.close()


def _used_bytes(client: Redis) -> int:
    memory: Any = client.info("memory")
    return int(memory["used_memory"])
