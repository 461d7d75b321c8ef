"""Runs of short questions against a model that keeps count, on real workers with limits."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from agentcompass.store import control
from tests.support.cluster import Cluster
from tests.support.scripted_server import Answer, Call, ScriptedServer, rate_limited
from tests.support.tree import paths_in


@dataclass
class Counting:
    """Answers every question with its last word after a while, and notes when each call came."""

    delay_s: float = 0.2
    refuse_call: int = 0
    """The number of the call that is told to come back later; -1: each one is refused for good."""
    retry_after: str = "2"
    together: int = 1
    """So many calls have to be there before the first one is answered."""
    held: str = ""
    """Questions that begin with this are answered only after `let_go`, and counted meanwhile."""
    held_calls: range = range(0)
    """Numbers of calls that are answered only after `let_go`."""
    let_go: threading.Event = field(default_factory=threading.Event)
    arrivals: list[tuple[float, str]] = field(default_factory=list)
    refused_at_s: float | None = None
    most_held: int = 0
    """How many questions that begin with `held` were there at once at most."""
    _held_now: int = 0
    _met: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, call: Call) -> Answer:
        with self._lock:
            self.arrivals.append((time.monotonic(), call.prompt))
            number = len(self.arrivals)
            if number == self.refuse_call:
                self.refused_at_s = time.monotonic()
                return rate_limited(self.retry_after)
        if number >= self.together:
            self._met.set()
        self._met.wait()
        if number in self.held_calls:
            self.let_go.wait()
        if self.held and call.prompt.startswith(self.held):
            self._hold()
        status = 400 if self.refuse_call < 0 else 200
        return Answer(call.prompt.split()[-1], status=status, delay_s=self.delay_s)

    def _hold(self) -> None:
        with self._lock:
            self._held_now += 1
            self.most_held = max(self.most_held, self._held_now)
        self.let_go.wait()
        time.sleep(self.delay_s)  # here, where it is counted
        with self._lock:
            self._held_now -= 1

    def give_up(self) -> None:
        """Nobody waits any more."""
        self._met.set()
        self.let_go.set()


@contextmanager
def model(script: Counting) -> Iterator[ScriptedServer]:
    try:
        with ScriptedServer(script) as server:
            yield server
    finally:
        script.give_up()


@dataclass
class Questions:
    """A set of questions with their answers, and requests about them."""

    cluster: Cluster
    server: ScriptedServer
    count: int = 40

    def file(self, name: str) -> Path:
        path = self.cluster.directory / f"{name}.jsonl"
        lines = (
            json.dumps({"id": f"{name}-{n}", "prompt": f"{name} {n}", "answer": str(n)})
            for n in range(self.count)
        )
        path.write_text("\n".join(lines))
        return path

    def config(self, name: str, **more: Any) -> str:
        """Write a request file; `more` is laid over it."""
        request: dict[str, Any] = {
            "benchmark": {"id": "jsonl", "params": {"path": str(self.file(name))}},
            "harness": "openai_chat",
            "model": {"id": "m", "base_url": self.server.base_url},
            "output": {"run_id": name},
            "results_dir": str(self.cluster.results),
        }
        path = self.cluster.directory / f"{name}.yaml"
        path.write_text(yaml.safe_dump({**request, **more}))
        return str(path)

    def run_dir(self, name: str) -> Path:
        return next(each for each in self.cluster.run_dirs() if each.name == name)


def results(run_dir: Path) -> list[Mapping[str, Any]]:
    """Every published result of a run."""
    return [json.loads(path.read_bytes()) for path in paths_in(run_dir, "**/result.json")]


def telemetry(run_dir: Path) -> list[Mapping[str, Any]]:
    return [each["meta"]["harness"]["telemetry"] for each in results(run_dir)]


def queues(cluster: Cluster) -> list[int]:
    """Return how many wait for a slot of a model, of each run."""
    names: Any = cluster.broker.client.scan_iter("ac:at:model:*:queue:*")
    return [int(str(cluster.broker.client.zcard(name))) for name in names]


def waiting(cluster: Cluster) -> int:
    return sum(queues(cluster))


def is_paused(cluster: Cluster) -> bool:
    """Return whether somebody has paused a run here."""
    found = [
        control.control_records(path.parent) for path in paths_in(cluster.results, "**/control")
    ]
    return any(record.action == "pause" for records in found for record in records)


def after(moment: Callable[[], bool], act: Callable[[], None]) -> threading.Thread:
    """Act in a thread of its own as soon as something is the case."""

    def wait() -> None:
        while not moment():
            time.sleep(0.05)
        act()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread
