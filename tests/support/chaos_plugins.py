"""Plug-ins for the chaos test: what an attempt does and scores follows from seed, task and number.

However often it is executed, and wherever, the outcome is the same. Whatever is executed is noted
in the ledger, and so is an agent that starts although its attempt has a result already.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from agentcompass.benchmarks.base import Benchmark
from agentcompass.environments.base import EnvironmentHandle
from agentcompass.errors import AttemptFailure
from agentcompass.harnesses.base import Harness
from agentcompass.models.base import Frozen
from agentcompass.models.context import AttemptContext, ModelEndpoint
from agentcompass.models.metric import MetricContract, MetricSpec
from agentcompass.models.result import RunResult
from agentcompass.models.task import ArtifactRequest, PreparedTask, TaskSpec
from agentcompass.store import attempts
from tests.support.tree import paths_in

ARTIFACT = "answer.txt"


class ChaosParams(Frozen):
    """What both plug-ins need."""

    seed: int = 0
    pace: float = 1.0
    """Factor of all durations; the outcomes do not depend on it."""
    ledger: str = ""
    label: str = "chaos"
    """In the command line of whatever an agent leaves running."""


class ChaosBenchmarkParams(ChaosParams):
    """How many tasks there are, besides."""

    tasks: int = 100


@dataclass(frozen=True, slots=True)
class Nature:
    """All that is to be known about one attempt."""

    agent_s: float
    judge_s: float
    conduct: str
    quality: float
    leaves_daemon: bool


def nature(seed: int, task_id: str, attempt: int) -> Nature:
    """Return what this attempt is like; the same in every process."""
    dice = random.Random(f"{seed}/{task_id}/{attempt}")
    spans = ((0.02, 0.3), (0.3, 1.0), (1.5, 3.0))
    return Nature(
        agent_s=dice.uniform(*dice.choices(spans, (55, 35, 10))[0]),
        judge_s=dice.choice((0.0, 0.0, 0.1, 0.4)),
        conduct=dice.choices(("right", "wrong", "error", "judge_error"), (70, 20, 5, 5))[0],
        quality=round(dice.random(), 6),
        leaves_daemon=dice.random() < 0.1,
    )


def note(params: ChaosParams, what: str, **fields: object) -> None:
    """Append one line to the ledger, whole whoever else writes."""
    if not params.ledger:
        return
    line = json.dumps({"what": what, "at": time.time(), "pid": os.getpid(), **fields}) + "\n"
    descriptor = os.open(params.ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


class ChaosBenchmark(Benchmark[ChaosBenchmarkParams]):
    """Every fifth task has an artifact to collect."""

    id: ClassVar[str] = "chaos"
    Params = ChaosBenchmarkParams
    contract = MetricContract(
        metrics=(
            MetricSpec(metric_id="correct", kind="binary_success", primary=True),
            MetricSpec(metric_id="quality", kind="scalar", reducers=("native", "avg")),
        )
    )

    def load_tasks(self) -> Iterable[TaskSpec]:
        for number in range(self.params.tasks):
            task_id = f"task-{number:03d}"
            collected = (ArtifactRequest(path=ARTIFACT, required=True),) if number % 5 == 0 else ()
            yield TaskSpec(
                task_id=task_id,
                category=("north", "east", "south")[number % 3],
                ground_truth=task_id,
                artifacts=collected,
            )

    def evaluate(
        self, prepared: PreparedTask, result: RunResult, environment: EnvironmentHandle | None
    ) -> RunResult:
        attempt = int(str(result.extra["attempt"]))
        note(self.params, "judge", task=prepared.task_id, attempt=attempt)
        own = nature(self.params.seed, prepared.task_id, attempt)
        time.sleep(own.judge_s * self.params.pace)
        if own.conduct == "judge_error":
            raise ValueError("the judge is ill")
        is_right = result.final_answer == prepared.ground_truth
        return result.observed(correct=is_right, quality=own.quality)


class ChaosHarness(Harness[ChaosParams]):
    """Takes its time, writes its artifact, and sometimes leaves a daemon behind."""

    id: ClassVar[str] = "chaos"
    Params = ChaosParams

    def run_task(
        self,
        prepared: PreparedTask,
        environment: EnvironmentHandle,
        model: ModelEndpoint,
        context: AttemptContext,
    ) -> RunResult:
        which = {"task": prepared.task_id, "attempt": context.attempt, "token": context.token}
        over_for_s = self._over_for_s(context)
        note(self.params, "agent", **which, over_for_s=over_for_s, above=_above(os.getpid()))
        own = nature(self.params.seed, prepared.task_id, context.attempt)
        self._act(own, prepared, environment)
        note(self.params, "agent_end", **which)
        if own.conduct == "error":
            raise AttemptFailure("error", "run", "chaos_failed", "as it was fated")
        answer = "wrong" if own.conduct == "wrong" else prepared.ground_truth
        return RunResult(
            task_id=prepared.task_id, final_answer=answer, extra={"attempt": context.attempt}
        )

    def _act(self, own: Nature, prepared: PreparedTask, environment: EnvironmentHandle) -> None:
        if int(prepared.task_id[-3:]) % 5 == 0:
            _insist(environment, f"echo {prepared.task_id} > {ARTIFACT}")
        if own.leaves_daemon:
            _insist(
                environment, f"setsid sh -c ': {self.params.label}; sleep 600; :' >/dev/null 2>&1 &"
            )
        until = time.monotonic() + own.agent_s * self.params.pace
        while time.monotonic() < until:
            time.sleep(0.01)

    def _over_for_s(self, context: AttemptContext) -> float | None:
        """Return for how long the attempt has had a result by now; None if it has none."""
        run_dir = _run_dir(Path(self.params.ledger).parent, context.run_id)
        result = attempts.result_of(run_dir, context.task_id, context.attempt)
        try:
            return time.time() - result.stat().st_mtime if result is not None else None
        except FileNotFoundError:  # its task was filed this very moment
            return 0.0


def _above(pid: int) -> list[int]:
    """Return the processes that this one comes of, the nearest first."""
    found: list[int] = []
    with suppress(OSError):  # one of them has ended this moment
        while pid > 1:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
            found.append(pid)
    return found


def _insist(environment: EnvironmentHandle, command: str) -> None:
    """Run a command until nobody kills it."""
    while environment.exec(command).exit_code != 0:
        pass


@lru_cache(maxsize=4)
def _run_dir(below: Path, run_id: str) -> Path:
    return paths_in(below, f"**/{run_id}/run_info.json")[0].parent
