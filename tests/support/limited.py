"""Runs of short questions against a model that keeps count, on real workers with limits."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

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
    """Questions that begin with this are answered only after `let_go`."""
    held_calls: range = range(0)
    """Numbers of calls that are answered only after `let_go`."""
    let_go: threading.Event = field(default_factory=threading.Event)
    arrivals: list[tuple[float, str]] = field(default_factory=list)
    refused_at_s: float | None = None
    _met: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, call: Call) -> Answer:
        with self._lock:
            self.arrivals.append((time.monotonic(), call.prompt))
            number = len(self.arrivals)
            if self.refuse_call < 0:
                return Answer("no", status=400, delay_s=self.delay_s)
            if number == self.refuse_call:
                self.refused_at_s = time.monotonic()
                return rate_limited(self.retry_after)
        if number >= self.together:
            self._met.set()
        self._met.wait(60)
        if number in self.held_calls or (self.held and call.prompt.startswith(self.held)):
            self.let_go.wait(60)
        return Answer(call.prompt.split()[-1], delay_s=self.delay_s)


@contextmanager
def model(script: Counting) -> Iterator[ScriptedServer]:
    with ScriptedServer(script) as server:
        yield server


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


def spans(run_dir: Path) -> list[tuple[float, float]]:
    """Return when each attempt was executed, by the clock of its worker."""
    return [
        (
            datetime.fromisoformat(each["started_at"]).timestamp(),
            datetime.fromisoformat(each["finished_at"]).timestamp(),
        )
        for each in results(run_dir)
    ]


def most_at_once(spans: list[tuple[float, float]]) -> int:
    """Return how many of the spans overlap at most."""
    events = sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans])
    most = now = 0
    for _, step in events:
        now += step
        most = max(most, now)
    return most


def after(moment: Callable[[], bool], act: Callable[[], None]) -> threading.Thread:
    """Act in a thread of its own as soon as something is the case."""

    def wait() -> None:
        while not moment():
            time.sleep(0.02)
        act()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread
