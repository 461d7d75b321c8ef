"""One Redis and its workers for many small runs, each with a script and a ledger of its own."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from agentcompass.models.result import AttemptResult
from agentcompass.store import attempts, sealed, tasks
from agentcompass.store.check import check_run
from agentcompass.store.root import find_root
from tests.support.cluster import SOON_MISSED, Cluster, Said, report_of, until
from tests.support.processes import command_lines
from tests.support.stubs import executions
from tests.support.tree import paths_in, published_in
from workers.broker.keys import RunKeys
from workers.broker.lanes import lanes_of
from workers.serving.options import ServeOptions
from workers.urls import BROKER_URL_VARIABLE

STUBS: Final = "tests.support.stubs"
HARNESS: Final = "tests.support.chaos_agents:HostileHarness"
POOLS: Final = ("prefork", "threads")


@dataclass(frozen=True, slots=True)
class Run:
    """One run in a house."""

    house: House
    name: str

    @property
    def ledger(self) -> Path:
        return self.house.cluster.directory / f"{self.name}.ledger"

    @property
    def dir(self) -> Path:
        return paths_in(self.house.cluster.results, f"*/{self.name}")[0]

    @property
    def status(self) -> str:
        return sealed.load(self.dir).status

    @property
    def is_over(self) -> bool:
        return self.status in {"completed", "failed"}

    @property
    def keys(self) -> RunKeys:
        root = find_root(self.house.cluster.results)
        assert root is not None
        return RunKeys(root.digest, self.dir.relative_to(root.path).as_posix())

    @property
    def offsets(self) -> dict[str, int]:
        return {entry.task_id: entry.offset for entry in tasks.entries(self.dir)}

    def executed(self, task_id: str | None = None, attempt: int | None = None) -> int:
        return executions(self.ledger, "agent", task_id, attempt)

    def judged(self, task_id: str | None = None) -> int:
        return executions(self.ledger, "evaluator", task_id)

    def pids(self, task_id: str) -> list[int]:
        """Where a task was executed, in order."""
        text = self.ledger.read_text()
        whole = text[: text.rfind("\n") + 1]  # what is just appended may be read in part
        lines = [json.loads(line) for line in whole.splitlines()]
        return [line["pid"] for line in lines if (line["who"], line["task"]) == ("agent", task_id)]

    def results(self) -> int:
        return published_in(self.dir)

    def result(self, task_id: str, attempt: int = 1) -> AttemptResult:
        path = attempts.result_of(self.dir, task_id, attempt)
        assert path is not None, f"{task_id} attempt {attempt} has no result"
        return attempts.load_result(path)

    def codes(self, task_id: str, attempt: int = 1) -> list[str]:
        """Each issue as `severity phase code`."""
        issues = self.result(task_id, attempt).issues
        return [f"{each.severity} {each.phase} {each.code}" for each in issues]

    def report(self) -> Any:
        return report_of(self.dir)

    def counts(self) -> dict[str, int]:
        return {**self.report()["series"][0]["counts"]}

    def check(self) -> list[object]:
        return [*check_run(self.dir, deep=True)]

    def wait(self, timeout_s: float = 60) -> None:
        until(lambda: self.is_over, f"{self.name} is over", timeout_s)


class House:
    """A cluster with a lane per pool: `default` is served by prefork, `threads` by threads."""

    def __init__(self, directory: Path, clocks: Mapping[str, str] | None = None) -> None:
        self.cluster = Cluster(directory, {**SOON_MISSED, **(clocks or {})})
        self._numbers = itertools.count(1)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(self.cluster)
        self.cluster.broker.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    @property
    def broker(self) -> tuple[str, str]:
        return "--broker", self.cluster.broker.url

    def worker(
        self,
        pool: str = "prefork",
        slots: int = 2,
        *,
        machine: str = "",
        results: Path | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a worker on its pool's lane; without a name on a machine of its own."""
        name = f"{pool}-{next(self._numbers)}"
        place = self.cluster.directory / (machine or name)
        place.mkdir(exist_ok=True)
        return self.cluster.start(
            "worker", *self.broker, "--results-dir", str(results or self.cluster.results),
            "--pool", pool,
            "--concurrency", str(slots), "--name", name, "--queue", lane_of(pool),
            "--work-dir", str(place / "work"), cwd=place,
        )  # fmt: skip

    def attempts_only(self, slots: int = 2) -> subprocess.Popen[bytes]:
        """Start the half of a worker that executes; what is to be finalized waits."""
        name = f"half-{next(self._numbers)}"
        options = ServeOptions(
            "attempts", name, str(self.cluster.results), str(self.cluster.directory / name),
            concurrency=slots,
        )  # fmt: skip
        with self.cluster.directory.joinpath(f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "workers.attempt_worker", options.to_json()],
                env={**self.cluster.environment, BROKER_URL_VARIABLE: self.cluster.broker.url},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        self.cluster.processes.append(process)
        self.cluster.logs.append(self.cluster.directory / f"{name}.log")
        return process

    def awaits(self, *workers: subprocess.Popen[bytes]) -> None:
        """Wait until workers are ready."""
        logs = dict(zip(self.cluster.processes, self.cluster.logs, strict=True))
        for worker in workers:
            until(lambda w=worker: logs[w].read_text().count(": ready") >= 2, "a ready worker")  # type: ignore[misc]

    def log_of(self, process: subprocess.Popen[bytes]) -> str:
        logs = dict(zip(self.cluster.processes, self.cluster.logs, strict=True))
        return logs[process].read_text(errors="replace")

    def run(self, tasks: int | Sequence[str], *more: str, **options: Any) -> tuple[Run, Said]:
        """Do a run to its end, attended."""
        run, flags = self.flags(tasks, *more, **options)
        return run, self.cluster.call("run", *flags)

    def detached(self, tasks: int | Sequence[str], *more: str, **options: Any) -> Run:
        """Dispatch a run that nobody attends."""
        run, flags = self.flags(tasks, *more, "--detach", **options)
        said = self.cluster.call("run", *flags)
        assert said.code == 0, said
        return run

    def attended(
        self, tasks: int | Sequence[str], *more: str, **options: Any
    ) -> tuple[Run, subprocess.Popen[bytes]]:
        """Start a run and leave its coordinator running."""
        run, flags = self.flags(tasks, *more, **options)
        process = self.cluster.start("run", *flags)
        infos = f"*/{run.name}/run_info.json"
        until(lambda: bool(paths_in(self.cluster.results, infos)), "a run")
        until(lambda: sealed.load(run.dir).sealed_at is not None, "a sealed run")
        return run, process

    def flags(
        self,
        tasks: int | Sequence[str],
        *more: str,
        script: Mapping[str, str] | None = None,
        judge: Mapping[str, str] | None = None,
        pool: str = "prefork",
        benchmark: str = f"{STUBS}:StubBenchmark",
        environment: str = "host_process",
    ) -> tuple[Run, list[str]]:
        run = Run(self, f"run-{next(self._numbers)}")
        ids = [f"t{number}" for number in range(tasks)] if isinstance(tasks, int) else [*tasks]
        params = {
            "benchmark.tasks": ids,
            "benchmark.script": judge or {},
            "benchmark.ledger": str(run.ledger),
            "harness.script": script or {},
            "harness.ledger": str(run.ledger),
        }
        return run, [
            *("--benchmark", benchmark, "--harness", HARNESS, "--environment", environment),
            *("--model", "m", "--run-id", run.name, "--queue", lane_of(pool)),
            *("--results-dir", str(self.cluster.results), *self.broker),
            *(word for name, value in params.items() for word in ("--param", f"{name}={json.dumps(value)}")),
            *more,
        ]  # fmt: skip

    def resume(self, run: Run, *more: str) -> Said:
        return self.cluster.call("resume", str(run.dir), *self.broker, *more)

    def waiting(self, pool: str = "prefork") -> list[tuple[str, bytes]]:
        """Return (lane, message) of all that waits."""
        client: Any = self.cluster.broker.client
        names = lanes_of(lane_of(pool))
        return [(name, message) for name in names for message in client.lrange(name, 0, -1)]

    def restart_redis(self, away_s: float, *, with_its_data: bool = True) -> None:
        broker = self.cluster.broker
        time.sleep(1.2)  # appendfsync everysec: what is younger may be gone
        broker.kill()
        if not with_its_data:
            for path in paths_in(broker.directory, "**/*.aof"):
                path.unlink()
            for path in paths_in(broker.directory, "**/*.manifest"):
                path.unlink()
        time.sleep(away_s)
        broker.start()


def sleeping(seconds: str) -> int:
    """Count the `sleep` commands of that duration, without whoever only names or starts them."""
    return sum(words == ["sleep", seconds] for words in command_lines().values())


def lane_of(pool: str) -> str:
    return "default" if pool == "prefork" else "threads"
