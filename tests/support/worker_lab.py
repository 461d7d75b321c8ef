"""Real worker processes on a real broker, with scripted attempts; nothing survives the test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from redis import Redis

from agentcompass.coordinator.ports import PendingAttempt, RunAddress
from agentcompass.store.root import ResultsRoot
from tests.support.broker import RealBroker
from workers.broker.keys import UNACKED_INDEX
from workers.dispatch import RedisQueue
from workers.serving.options import Pool, Role, ServeOptions

ROOT_ID = "ab" * 16
#: What a busy machine may miss is long; a test that waits for the end of it makes it shorter.
QUICK = {
    "AGENTCOMPASS_LEASE_S": "10",
    "AGENTCOMPASS_VISIBILITY_S": "10",
    "AGENTCOMPASS_TICK_S": "0.2",
    "AGENTCOMPASS_CONTROL_S": "0.5",
    "AGENTCOMPASS_GRACE_S": "1",
    "AGENTCOMPASS_STOP_S": "30",
}
HELD = {"until": "may-end"}
"""A step that lasts until `let_go`."""


class WorkerLab:
    """One results folder, one broker, any number of worker processes."""

    def __init__(self, directory: Path, broker: RealBroker) -> None:
        self.directory = directory
        self.broker = broker
        self.queue = RedisQueue(broker.url)
        self.root = ResultsRoot(directory / "results", ROOT_ID)
        self.base = directory / "instances"
        self.logs = directory / "logs"
        self.logs.mkdir()
        self.started: list[subprocess.Popen[bytes]] = []

    def reconnect(self) -> None:
        """Use the broker's present URL."""
        self.queue.close()
        self.queue = RedisQueue(self.broker.url)

    def run(self, count: int, name: str = "run-1", **steps: Any) -> RunAddress:
        """Make a run of `count` attempts; `s3={"do": "kill"}` scripts the one with offset 3."""
        run_dir = self.root.path / name
        (run_dir / "control").mkdir(parents=True)
        (run_dir / "ledger").touch()
        script = {key.removeprefix("s"): step for key, step in steps.items()}
        (run_dir / "script.json").write_text(json.dumps({"count": count, **script}))
        return RunAddress(self.root, name, run_dir, "default", 1, "model")

    def dispatch(self, run: RunAddress, count: int, leg: int = 1) -> None:
        self.queue.dispatch(run, leg, pending(count), count)

    def worker(
        self,
        pool: Pool = "prefork",
        slots: int = 2,
        role: Role = "attempts",
        *,
        results: Path | None = None,
        **clocks: str,
    ) -> subprocess.Popen[bytes]:
        """Start one Celery worker process with scripted attempts."""
        name = f"{role}-{len(self.started)}@lab"
        folder = str(results or self.root.path)
        options = ServeOptions(role, name, folder, str(self.base), ("default",), pool, slots)
        argv = [sys.executable, "-m", "tests.support.stub_worker", options.to_json()]
        return self.start(argv, name, clocks)

    def finalizer(self) -> subprocess.Popen[bytes]:
        return self.worker(role="finalizers")

    def start(
        self, argv: list[str], name: str, clocks: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        env = {**os.environ, **QUICK, **clocks, "AGENTCOMPASS_BROKER_URL": self.broker.url}
        with self.logs.joinpath(name).open("ab") as log:
            process = subprocess.Popen(
                argv, env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        self.started.append(process)
        return process

    def log(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.logs.iterdir()))

    def close(self) -> None:
        self.queue.close()
        for process in self.started:
            process.kill()
            process.wait()


def pending(count: int) -> list[PendingAttempt]:
    return [PendingAttempt(offset, 1, f"task-{offset}") for offset in range(count)]


def ledger(run: RunAddress, word: str = "") -> list[str]:
    text = (run.run_dir / "ledger").read_text()
    whole = text[: text.rfind("\n") + 1]  # what is just appended may be read in part
    return [line for line in whole.splitlines() if line.startswith(word)]


def let_go(run: RunAddress) -> None:
    """Let attempts that are `HELD` end."""
    (run.run_dir / HELD["until"]).touch()


def stay_out(client: Redis, seconds: float) -> None:
    """Wait until all messages that are delivered now have been kept from others for so long."""
    found: Any = client.zrange(UNACKED_INDEX, 0, -1, withscores=True)
    assert found, "nothing is delivered"

    def are_kept() -> bool:
        scores = [(client.zscore(UNACKED_INDEX, tag), first) for tag, first in found]
        return all(float(str(now or 0)) >= first + seconds for now, first in scores)

    until(are_kept)


def until(condition: Callable[[], object], timeout_s: float = 45.0) -> None:
    """Wait for something that happens in another process."""
    give_up_at = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < give_up_at, "it did not happen in time"
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0]
    except OSError:
        return False
    return state != "Z"


def kill_tree(process: subprocess.Popen[bytes]) -> None:
    """Pull the plug of a worker: its children go with it."""
    process.send_signal(signal.SIGKILL)
    process.wait()
