"""What a benchmark promises (contracts, §9)."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator
from typing import ClassVar, Generic, TypeVar

from pydantic import BaseModel, JsonValue

from agentcompass.environments.base import EnvironmentHandle
from agentcompass.models.base import NoParams
from agentcompass.models.context import AttemptContext, ModelEndpoint
from agentcompass.models.metric import MetricContract, MetricReport
from agentcompass.models.plan import EvaluationMode
from agentcompass.models.result import AttemptResult, RunResult
from agentcompass.models.task import PreparedTask, TaskInput, TaskSpec

ParamsT = TypeVar("ParamsT", bound=BaseModel)


class Benchmark(Generic[ParamsT]):
    """A set of tasks and a way to score them. Built once per process; keeps no state of a task."""

    id: ClassVar[str]
    Params: ClassVar[type[BaseModel]] = NoParams
    contract: ClassVar[MetricContract]
    aggregation: ClassVar[str] = "micro_weighted"
    category_hierarchy: ClassVar[JsonValue] = None
    evaluation_environment_mode: EvaluationMode = "none"
    """Of the class, or of the object where a parameter decides."""

    def __init__(self, params: ParamsT) -> None:
        self.params = params

    def load_tasks(self) -> Iterable[TaskSpec]:
        """Yield the tasks in a stable order; only the coordinator calls it, once."""
        raise NotImplementedError

    def prepare(
        self, task: TaskSpec, environment: EnvironmentHandle
    ) -> PreparedTask | Awaitable[PreparedTask]:
        """Make a task ready for one attempt; may put files into the environment."""
        prompt = task.question if isinstance(task.question, str) else ""
        return PreparedTask(
            task_id=task.task_id,
            category=task.category,
            ground_truth=task.ground_truth,
            input=TaskInput(prompt=prompt),
            metadata=task.metadata,
        )

    def collect_artifacts(
        self, prepared: PreparedTask, result: RunResult, environment: EnvironmentHandle
    ) -> RunResult | Awaitable[RunResult]:
        """Read what the agent left while its environment still stands."""
        return result

    def evaluate(
        self, prepared: PreparedTask, result: RunResult, environment: EnvironmentHandle | None
    ) -> RunResult | Awaitable[RunResult]:
        """Return the result with its observations (`result.observed(correct=True)`).

        `environment` is None in mode `none`, the agent's in `reuse`, a new one in `fresh`.
        """
        raise NotImplementedError

    def aggregate_metrics(
        self, details: Iterator[AttemptResult], report: MetricReport
    ) -> MetricReport:
        """Replace the cross-task formula; what it returns is validated by all rules.

        `details` are without trajectories and can be read once.
        """
        return report


class HarnessFreeBenchmark(Benchmark[ParamsT]):
    """A benchmark that brings its own agent; a request with a harness is refused."""

    def run_task(
        self,
        prepared: PreparedTask,
        environment: EnvironmentHandle,
        model: ModelEndpoint,
        context: AttemptContext,
    ) -> RunResult | Awaitable[RunResult]:
        """Let the model act and return what it did."""
        raise NotImplementedError
