"""Plug-ins that do nothing, so that what is left is our own cost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from datetime import UTC, datetime

from agentcompass.benchmarks.base import Benchmark
from agentcompass.environments.base import EnvironmentHandle
from agentcompass.harnesses.base import Harness
from agentcompass.models.base import Frozen
from agentcompass.models.context import AttemptContext, ModelEndpoint
from agentcompass.models.metric import MetricContract, MetricSpec
from agentcompass.models.result import RunResult
from agentcompass.models.task import PreparedTask, TaskSpec


class NoopParams(Frozen):
    """How many tasks there are."""

    count: int = 200


class NoopBenchmark(Benchmark[NoopParams]):
    """Every answer is correct."""

    id = "noop"
    Params = NoopParams
    contract = MetricContract(
        metrics=(MetricSpec(metric_id="correct", kind="binary_success", primary=True),)
    )

    def load_tasks(self) -> Iterable[TaskSpec]:
        for number in range(self.params.count):
            yield TaskSpec(
                task_id=f"task-{number:06}",
                question="Do nothing, and say so.",
                category=f"category-{number % 10}",
                ground_truth="nothing",
            )

    def evaluate(
        self, prepared: PreparedTask, result: RunResult, environment: EnvironmentHandle | None
    ) -> RunResult:
        return result.observed(correct=result.final_answer == prepared.ground_truth)


class NoopHarness(Harness[NoopParams]):
    """Answers at once."""

    id = "noop"
    Params = NoopParams

    def run_task(
        self,
        prepared: PreparedTask,
        environment: EnvironmentHandle,
        model: ModelEndpoint,
        context: AttemptContext,
    ) -> RunResult:
        return RunResult(task_id=prepared.task_id, final_answer=prepared.ground_truth)


class WaitParams(Frozen):
    """How long an agent waits, and whether it is `async def`."""

    seconds: float = 10.0


class WaitingHarness(Harness[WaitParams]):
    """Waits as an agent does that waits for its model; says how late it was woken."""

    id = "waiting"
    Params = WaitParams

    async def run_task(
        self,
        prepared: PreparedTask,
        environment: EnvironmentHandle,
        model: ModelEndpoint,
        context: AttemptContext,
    ) -> RunResult:
        since_s, began = time.monotonic(), datetime.now(UTC)
        await asyncio.sleep(self.params.seconds)
        late_s = time.monotonic() - since_s - self.params.seconds
        return RunResult(
            task_id=prepared.task_id,
            final_answer="nothing",
            extra={"late_s": late_s, "began_at": began.isoformat()},
        )


class BlockingHarness(WaitingHarness):
    """The same as a `def`, which needs a thread."""

    id = "blocking"

    def run_task(  # type: ignore[override]  # both kinds are allowed
        self,
        prepared: PreparedTask,
        environment: EnvironmentHandle,
        model: ModelEndpoint,
        context: AttemptContext,
    ) -> RunResult:
        since_s = time.monotonic()
        time.sleep(self.params.seconds)
        late_s = time.monotonic() - since_s - self.params.seconds
        return RunResult(task_id=prepared.task_id, final_answer="nothing", extra={"late_s": late_s})
