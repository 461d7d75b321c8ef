"""Plug-ins that stop for ever in one phase of an attempt, the first time; then they pass.

There is one task per phase, and it goes by the phase's name. What came by is noted in a ledger, which
the variable `PHASES_LEDGER` names; where it is set, our own way to the disk is one of the phases.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar, Final

from agentcompass.analyzers.base import Analyzer
from agentcompass.benchmarks.base import Benchmark
from agentcompass.environments.base import EnvironmentHandle, EnvironmentPlan
from agentcompass.environments.bubblewrap import Bubblewrap
from agentcompass.environments.docker.environment import Docker
from agentcompass.environments.host_process import HostProcess
from agentcompass.harnesses.base import Harness
from agentcompass.models.base import JsonObject, NoParams
from agentcompass.models.context import AttemptContext, ModelEndpoint
from agentcompass.models.metric import MetricContract, MetricSpec
from agentcompass.models.result import AttemptResult, RunResult
from agentcompass.models.task import ArtifactRequest, PreparedTask, TaskSpec
from agentcompass.store import attempts
from agentcompass.store.attempts import AttemptView

LEDGER: Final = "PHASES_LEDGER"
NAP: Final = "PHASES_NAP"
"""Seconds for which the agent's own process sleeps; its command line is known by them."""
PHASES: Final = (
    *("setup", "prepare", "run", "collect", "snapshot", "after_snapshot"),
    *("evaluate", "analyze", "publish", "after_publish"),
)
FOREVER_S: Final = 3_600.0


def passes(ledger: Path) -> Counter[tuple[str, str]]:
    """Return how often each (phase, task) came by."""
    if not ledger.exists():
        return Counter()
    lines = ledger.read_text(encoding="utf-8").splitlines()
    return Counter((phase, task) for phase, task in (line.split() for line in lines))


def passing(phase: str, task_id: str) -> None:
    """Note that a task has come to a phase, and stay there the first time if it is its own."""
    ledger = Path(os.environ[LEDGER])
    with ledger.open("a", encoding="utf-8") as file:
        file.write(f"{phase} {task_id}\n")
    if phase == task_id and passes(ledger)[phase, task_id] == 1:
        time.sleep(FOREVER_S)


class PhasesBenchmark(Benchmark[NoParams]):
    """One task per phase; what the agent left is judged in a fresh environment."""

    id: ClassVar[str] = "phases"
    contract = MetricContract(
        metrics=(MetricSpec(metric_id="correct", kind="binary_success", primary=True),)
    )
    evaluation_environment_mode = "fresh"

    def load_tasks(self) -> Iterable[TaskSpec]:
        for phase in PHASES:
            yield TaskSpec(task_id=phase, artifacts=(ArtifactRequest(path="out", required=True),))

    def prepare(self, task: TaskSpec, environment: EnvironmentHandle) -> PreparedTask:
        passing("prepare", task.task_id)
        return super().prepare(task, environment)  # type: ignore[return-value]  # it is `def`

    def collect_artifacts(
        self, prepared: PreparedTask, result: RunResult, environment: EnvironmentHandle
    ) -> RunResult:
        passing("collect", prepared.task_id)
        return result

    def evaluate(
        self, prepared: PreparedTask, result: RunResult, environment: EnvironmentHandle | None
    ) -> RunResult:
        passing("evaluate", prepared.task_id)
        assert environment is not None
        return result.observed(correct=environment.exec("cat out/answer").stdout == "42\n")


class PhasesHarness(Harness[NoParams]):
    """Leaves an answer and a process of its own."""

    id: ClassVar[str] = "phases"

    def run_task(
        self,
        prepared: PreparedTask,
        environment: EnvironmentHandle,
        model: ModelEndpoint,
        context: AttemptContext,
    ) -> RunResult:
        nap = os.environ[NAP]
        environment.exec(f"mkdir out; echo 42 > out/answer; setsid sleep {nap} > /dev/null 2>&1 &")
        passing("run", prepared.task_id)
        return RunResult(task_id=prepared.task_id, final_answer="42")


class PhasesAnalyzer(Analyzer[NoParams]):
    """Has nothing to say."""

    id: ClassVar[str] = "phases"

    def analyze(self, attempt: AttemptResult) -> JsonObject:
        passing("analyze", attempt.task_id)
        return {}


def _set_up(plan: EnvironmentPlan) -> None:
    if ".environment-" in plan.work_dir.name:  # the agent's, not the judge's
        passing("setup", plan.labels["task"])


class SlowHostProcess(HostProcess):
    """Comes up as it does, and may stop then."""

    def start(self, plan: EnvironmentPlan) -> None:
        super().start(plan)
        _set_up(plan)


class SlowBubblewrap(Bubblewrap):
    """The same."""

    def start(self, plan: EnvironmentPlan) -> None:
        super().start(plan)
        _set_up(plan)


class SlowDocker(Docker):
    """The same."""

    def start(self, plan: EnvironmentPlan) -> None:
        super().start(plan)
        _set_up(plan)


def _stopping(function: Callable[..., Any], phase: str) -> Callable[..., Any]:
    def stopped(*arguments: Any, **named: Any) -> Any:
        task_id = next(each.task_id for each in arguments if isinstance(each, AttemptView))
        passing(phase, task_id)
        found = function(*arguments, **named)
        passing(f"after_{phase}", task_id)
        return found

    return stopped


if LEDGER in os.environ:  # in a worker of the test: between the agent and the disk
    attempts.write_snapshot = _stopping(attempts.write_snapshot, "snapshot")
    attempts.publish = _stopping(attempts.publish, "publish")
