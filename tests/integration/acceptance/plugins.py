"""Plug-ins as users write them, with what users get wrong; loaded by name and by every worker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Final, cast

from pydantic import JsonValue

from agentcompass.benchmarks.base import Benchmark
from agentcompass.environments.base import EnvironmentHandle
from agentcompass.harnesses.base import Harness
from agentcompass.models.base import Frozen
from agentcompass.models.context import AttemptContext, ModelEndpoint
from agentcompass.models.metric import MetricContract, MetricSpec
from agentcompass.models.result import RunResult
from agentcompass.models.task import (
    ArtifactRequest,
    PreparedTask,
    TaskInput,
    TaskResources,
    TaskSpec,
)
from agentcompass.models.trajectory import AssistantContent, Step, StepMetric, Trajectory
from tests.support.stubs import StubBenchmark, StubParams

CORRECT: Final = MetricContract(
    metrics=(MetricSpec(metric_id="correct", kind="binary_success", primary=True),)
)
NUMBERS: Final = MetricContract(
    metrics=(
        MetricSpec(metric_id="correct", kind="binary_success", primary=True),
        MetricSpec(metric_id="quality", kind="scalar", reducers=("native", "avg")),
    )
)


class IdParams(Frozen):
    """The raw ids that the data set holds."""

    ids: tuple[JsonValue, ...] = ()
    drop_prefix: bool = False
    """What a filter may do: two ids that were different become one."""


class Ids(Benchmark[IdParams]):
    """Yields plain mappings, whatever the ids are."""

    id = "ids"
    Params = IdParams
    contract = CORRECT

    def load_tasks(self) -> Iterable[TaskSpec]:
        for raw in self.params.ids:
            task_id = raw.partition("/")[2] if self._cuts and isinstance(raw, str) else raw
            yield cast("TaskSpec", {"task_id": task_id})

    @property
    def _cuts(self) -> bool:
        return self.params.drop_prefix


class Broken(StubBenchmark):
    """Has data that cannot be loaded."""

    id = "broken"

    def load_tasks(self) -> Iterable[TaskSpec]:
        raise ValueError("line one\nline two\nline three\nline four\nline five\nline six")


class Needy(StubBenchmark):
    """Three of its tasks cannot be prepared, each for a reason of its own."""

    id = "needy"
    contract = StubBenchmark.contract

    def load_tasks(self) -> Iterable[TaskSpec]:
        needs = {"gpu": TaskResources(gpus=1), "image": TaskResources(image="no/such:image")}
        for task in super().load_tasks():
            yield task.model_copy(
                update={"resources": needs.get(task.task_id.split("-")[0], TaskResources())}
            )

    def prepare(self, task: TaskSpec, environment: EnvironmentHandle | None) -> PreparedTask:
        if task.task_id.startswith("unprepared"):
            raise KeyError("the data set lacks a column")
        return PreparedTask(
            task_id=task.task_id,
            category=task.category,
            ground_truth=task.ground_truth,
            input=TaskInput(prompt=str(task.question)),
        )


class Colour(Enum):
    """Enumerations are what they stand for."""

    RED = "red"


def odd_values() -> Mapping[str, object]:
    """Return what people put into results, by the name of the task that does it."""
    import numpy  # comes with the data of HumanEval; only here

    return {
        "float64": numpy.float64(0.5),
        "int64": numpy.int64(2),
        "nan": float("nan"),
        "inf": float("inf"),
        "minus_inf": float("-inf"),
        "decimal": Decimal("0.25"),
        "large": 10**30,
        "datetime": datetime(2026, 1, 2, tzinfo=UTC),
        "path": Path("/a"),
        "set": {1, 2},
        "enum": Colour.RED,
        "bytes": b"\xff",
        "lambda": lambda: None,
        "text": "0.5",
        "bool": numpy.bool_(True),  # noqa: FBT003 - numpy's own
    }


class OddObservations(StubBenchmark):
    """Its evaluator observes whatever the task is named after."""

    id = "odd_observations"
    contract = NUMBERS

    def evaluate(
        self, prepared: PreparedTask, result: RunResult, environment: EnvironmentHandle | None
    ) -> RunResult:
        value = odd_values()[prepared.task_id]
        metrics = {"correct": True, "quality": value}
        if prepared.task_id == "bool":
            metrics = {"correct": value, "quality": 1}
        observed = result.model_copy(update={"metrics": metrics})
        return observed.model_copy(update={"extra": {**result.extra, "verdict": {"raw": [value]}}})


class Escaping(StubBenchmark):
    """Categories and artifact names come from the data set, too."""

    id = "escaping"
    contract = StubBenchmark.contract

    def load_tasks(self) -> Iterable[TaskSpec]:
        for task in super().load_tasks():
            wanted = (task.task_id, f"../../{task.task_id}", "/etc/hostname", "left/a:b*?.txt")
            artifacts = tuple(ArtifactRequest(path=path.replace("\0", "")) for path in wanted)
            yield task.model_copy(update={"category": task.task_id, "artifacts": artifacts})


class OddAgent(Harness[StubParams]):
    """Is right, and reports numbers that JSON does not have wherever one can report numbers."""

    id = "odd_agent"
    Params = StubParams

    def run_task(
        self,
        prepared: PreparedTask,
        environment: EnvironmentHandle,
        model: ModelEndpoint,
        context: AttemptContext,
    ) -> RunResult:
        nan, inf = float("nan"), float("inf")
        odd = {"scalar": nan, "list": [inf, -inf, 1], "dict": {"deep": {"value": -inf}}}
        step = Step(
            step_id=1,
            assistant_content=AssistantContent(content=[nan]),
            observation={"seen": [inf, {"x": -inf}]},
            metric=StepMetric(llm_infer_ms=nan),
        )
        return RunResult(
            task_id=prepared.task_id,
            final_answer=prepared.ground_truth,
            trajectory=Trajectory(steps=(step,)),
            telemetry=odd,
            extra={"attempt": context.attempt, "odd": odd},
        )
