"""Everything real, as a user has it: the command line, a Redis, workers in their own processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.broker import RealBroker
from tests.support.processes import end_tree
from tests.support.tree import paths_in, whole_lines
from tests.support.waiting import wait_until

REPOSITORY = Path(__file__).parents[2]
COMMAND_LINE = "agentcompass.cli.main"

#: Less patience than users have, but a machine that stands still for seconds makes nobody seem dead.
FAST_CLOCKS = {
    "AGENTCOMPASS_LEASE_S": "20",
    "AGENTCOMPASS_VISIBILITY_S": "20",
    "AGENTCOMPASS_TICK_S": "0.2",
    "AGENTCOMPASS_CONTROL_S": "0.5",
    "AGENTCOMPASS_GRACE_S": "3",
    "AGENTCOMPASS_STOP_S": "2",
}
#: For those who wait for the end of the dead, or for what got lost. Whoever is slow on a busy machine may
#: be taken for dead, too: what is counted then must not depend on it.
SOON_MISSED = {"AGENTCOMPASS_LEASE_S": "4", "AGENTCOMPASS_VISIBILITY_S": "4"}

#: Says only that something does not hang: what takes a second may take ten times as long elsewhere.
PATIENCE_S = 240.0


@dataclass(frozen=True, slots=True)
class Said:
    """What one command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def __str__(self) -> str:
        return f"exit code {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class Cluster:
    """One results folder, and whatever a test starts around it; all of it ends with the test."""

    def __init__(self, directory: Path, environment: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.results = directory / "results"
        self.broker = RealBroker(directory / "redis")
        self.environment = {
            **{name: text for name, text in os.environ.items() if "AGENTCOMPASS" not in name},
            "PYTHONPATH": str(REPOSITORY),
            **FAST_CLOCKS,
            **(environment or {}),
        }
        self.processes: list[subprocess.Popen[bytes]] = []
        self.logs: list[Path] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
        for process in self.processes:
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                end_tree(process.pid)
                process.wait()
        self.broker.close()

    def call(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        timeout_s: float = PATIENCE_S,
    ) -> Said:
        """Run one command to its end."""
        done = subprocess.run(
            [sys.executable, "-m", COMMAND_LINE, *arguments],
            env={**self.environment, **(env or {})},
            cwd=cwd or self.directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
        return Said(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        module: str = COMMAND_LINE,
    ) -> subprocess.Popen[bytes]:
        """Start one command and leave it running; its output goes to a file in `logs`."""
        log = self.directory / f"{len(self.logs)}-{arguments[0]}.log"
        self.logs.append(log)
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                env={**self.environment, **(env or {})},
                cwd=cwd or self.directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.processes.append(process)
        return process

    def piped(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start one command whose standard output the test reads as it comes."""
        process = subprocess.Popen(
            [sys.executable, "-m", COMMAND_LINE, *arguments],
            env=self.environment,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.processes.append(process)
        return process

    def worker(
        self,
        pool: str = "prefork",
        *,
        concurrency: int = 2,
        name: str | None = None,
        more: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a worker on the test's broker, in a working directory of its own."""
        name = name or f"{pool}-{len(self.processes)}"
        cwd = self.directory / f"worker-{name}"
        cwd.mkdir()
        return self.start(
            "worker", "--broker", self.broker.url, "--results-dir", str(self.results),
            "--pool", pool, "--concurrency", str(concurrency), "--name", name, *more,
            env=env, cwd=cwd,
        )  # fmt: skip

    def run_dirs(self) -> Iterator[Path]:
        """Every run directory below the results folder."""
        return (info.parent for info in paths_in(self.results, "**/run_info.json"))

    def the_run(self) -> Path:
        (run_dir,) = self.run_dirs()
        return run_dir

    def log_text(self) -> str:
        return "\n".join(log.read_text(errors="replace") for log in self.logs)


def report_of(run_dir: Path) -> Any:
    """Read `metrics.json` as any JSON reader would."""
    return json.loads((run_dir / "metrics.json").read_bytes())


def series_of(run_dir: Path) -> dict[str, Any]:
    return {series["series_id"]: series for series in report_of(run_dir)["series"]}


def ledger(path: Path) -> list[str]:
    """One line per execution of the stub agent (or evaluator)."""
    return whole_lines(path.read_text()) if path.exists() else []


def until(condition: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
    """Wait for a condition of another process; say what did not happen."""
    wait_until(condition, what, timeout_s=timeout_s)
