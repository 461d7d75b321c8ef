"""What a figure is measured with: a folder, a private broker, workers of ours or bare ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.bare import READY
from bench.measuring import OURS, PYTHON, Spent, cpu_of_tree, spent_by
from workers.serving.server import PrivateServer, find_server

READY_S: Final = 60.0
PASSWORD: Final = "bench"


@dataclass(frozen=True, slots=True)
class Lab:
    """A private broker and a results folder.

    Runs stay until all figures are measured: some file systems make files the more slowly, the
    more were removed a moment ago.
    """

    folder: Path
    server: PrivateServer

    @property
    def results(self) -> Path:
        """Where runs are made."""
        return self.folder / "results"

    @property
    def env(self) -> dict[str, str]:
        """Names the broker."""
        return {"AGENTCOMPASS_BROKER_URL": self.server.url}

    def cpu_of_server_s(self) -> float:
        """Return what the broker has used so far."""
        return cpu_of_tree(self.server.process.pid) if self.server.process else 0.0

    def run(self, count: int, k: int = 1, *more: str, harness: str = "NoopHarness") -> Spent:
        """Evaluate `count` tasks; needs workers unless it is detached."""
        return spent_by(run_command(self.results, count, k, *more, harness=harness), env=self.env)


def run_command(
    results: Path, count: int, k: int = 1, *more: str, harness: str = "NoopHarness"
) -> list[str]:
    """Return the command that evaluates `count` tasks that do nothing."""
    given = {
        "--benchmark": "bench.plugins:NoopBenchmark",
        "--harness": f"bench.plugins:{harness}",
        "--model": "noop",
        "--param": f"benchmark.count={count}",
        "--results-dir": str(results),
        "-k": str(k),
    }
    return [*OURS, "run", *(word for pair in given.items() for word in pair), "--json", *more]


@contextmanager
def open_lab(folder: Path) -> Iterator[Lab]:
    """Start a broker whose files are below `folder`, which must not exist; end it at the end."""
    folder.mkdir(parents=True)
    server = PrivateServer(find_server(), folder, PASSWORD)
    if not server.start():
        raise RuntimeError("the private broker does not start")
    try:
        yield Lab(folder, server)
    finally:
        server.stop()


@dataclass(slots=True)
class Serving:
    """A worker with all its processes."""

    process: subprocess.Popen[bytes]
    ready_s: float
    """From its start until it took messages."""

    def cpu_s(self) -> float:
        """Return what all its processes have used so far."""
        return cpu_of_tree(self.process.pid)


@contextmanager
def worker(lab: Lab, pool: str = "prefork", slots: int = 2) -> Iterator[Serving]:
    """Run one of our workers."""
    options = ["--results-dir", str(lab.results), "--pool", pool, "--concurrency", str(slots)]
    command = [*OURS, "worker", *options, "--work-dir", str(lab.folder / "work")]
    with _serving(lab, command, "ready for attempts of") as served:
        yield served


@contextmanager
def bare_worker(lab: Lab, pool: str = "prefork", slots: int = 2) -> Iterator[Serving]:
    """Run a bare Celery worker with the same settings."""
    with _serving(lab, [PYTHON, "-m", "bench.bare", "worker", pool, str(slots)], READY) as served:
        yield served


@contextmanager
def _serving(lab: Lab, command: Sequence[str], sign: str) -> Iterator[Serving]:
    start = time.perf_counter()
    log = lab.folder / "worker.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env={**os.environ, **lab.env}, stdout=output, stderr=output
        )
    try:
        _await(log, sign, process)
        yield Serving(process, time.perf_counter() - start)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.returncode not in {0, -signal.SIGTERM}:
            sys.stderr.write(log.read_text())


def _await(log: Path, sign: str, process: subprocess.Popen[bytes]) -> None:
    give_up_at = time.monotonic() + READY_S
    while sign not in log.read_text():
        if process.poll() is not None or time.monotonic() > give_up_at:
            raise RuntimeError(f"the worker does not start: {log.read_text()}")
        time.sleep(0.01)
