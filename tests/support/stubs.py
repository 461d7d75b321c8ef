"""Plug-ins that do what a script says, and write down that they did it.

Usable as `tests.support.stubs:StubBenchmark` and by path. A script maps `"<task>:<attempt>"`,
`"<task>"` or `"*"` (the most exact wins) to what is done; `"a|b"` does `a` at the first execution
of that attempt and `b` at all later ones, told by the ledger.

| agent | |
|---|---|
| `ok`, `wrong`, `answer:TEXT`, `nonce` | answers; `ok` is the ground truth |
| `error`, `error:CODE`, `fatal`, `fatal:CODE`, `permanent`, `partial` | a classified failure |
| `warning` | a good answer and a warning |
| `raise`, `lock`, `init`, `str`, `group`, `exit`, `interrupt`, `memory`, `cancelled` | exceptions |
| `none`, `other_task`, `status`, `empty` | returns something odd |
| `hang`, `stubborn`, `sleep:S`, `c_sleep:S` | takes long; `stubborn` swallows every exception |
| `until:PATH` | takes until there is such a file |
| `die`, `kill`, `segfault` | ends its process |
| `run:COMMAND` | runs it in the environment, answers its stdout |
| `stray:PATH` | (async) leaves a task in the loop that writes there |
| `surrogate`, `nan`, `odd`, `lambda`, `deep`, `huge` | values that are hard to write |
| `secret`, `says_secret`, `logs_secret` | the model's key in an exception, answer, log |

| evaluator | |
|---|---|
| `grade` | compares the answer with the ground truth |
| `score:X`, `bad_observation`, `no_observation` | observations |
| `error`, `fatal`, `none`, the exceptions and the ends above | as above |
| `run:COMMAND` | correct if it ends with 0 in the environment |
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from agentcompass.analyzers.base import Analyzer
from agentcompass.benchmarks.base import Benchmark, HarnessFreeBenchmark
from agentcompass.environments.base import (
    Command,
    Environment,
    EnvironmentHandle,
    EnvironmentPlan,
    ExecResult,
)
from agentcompass.harnesses.base import Harness
from agentcompass.models.base import Frozen, JsonObject
from agentcompass.models.context import AttemptContext, ModelEndpoint
from agentcompass.models.metric import MetricContract, MetricReport, MetricSpec
from agentcompass.models.result import AttemptResult, RunResult
from agentcompass.models.task import PreparedTask, TaskSpec
from tests.support.stub_acts import ACTS, FOREVER_S, JUDGES, answer, right
from tests.support.tree import whole_lines


class StubParams(Frozen):
    """The script and where to write down what was done."""

    ledger: str = ""
    """A file outside of the run directory; "" writes nothing."""
    script: dict[str, str] = Field(default_factory=dict)


class StubBenchmarkParams(StubParams):
    """Which tasks there are, besides."""

    tasks: tuple[str, ...] = ("t0", "t1")


def note(params: StubParams, who: str, task_id: str, attempt: int) -> int:
    """Append a line to the ledger; return how many there were of this kind before."""
    if not params.ledger:
        return 0
    path = Path(params.ledger)
    before = executions(path, who, task_id, attempt)
    line = json.dumps({"who": who, "task": task_id, "attempt": attempt, "pid": os.getpid()})
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")
    return before


def executions(
    ledger: Path, who: str, task_id: str | None = None, attempt: int | None = None
) -> int:
    """Return the lines of one kind in a ledger; None stands for all."""
    if not ledger.exists():
        return 0
    lines = [json.loads(line) for line in whole_lines(ledger.read_text(encoding="utf-8"))]
    return sum(
        line["who"] == who
        and task_id in {None, line["task"]}
        and attempt in {None, line["attempt"]}
        for line in lines
    )


def behaviour(params: StubParams, who: str, task_id: str, attempt: int, default: str) -> str:
    """Note the execution and return what is to be done at it."""
    before = note(params, who, task_id, attempt)
    keys = (f"{task_id}:{attempt}", task_id, "*")
    script = next((params.script[key] for key in keys if key in params.script), default)
    steps = script.split("|")
    return steps[min(before, len(steps) - 1)]


class StubBenchmark(Benchmark[StubBenchmarkParams]):
    """Asks for the ground truth; its evaluator follows a script."""

    id: ClassVar[str] = "stub"
    Params = StubBenchmarkParams
    contract = MetricContract(
        metrics=(
            MetricSpec(metric_id="correct", kind="binary_success", primary=True),
            MetricSpec(metric_id="quality", kind="scalar", reducers=("native", "avg")),
        )
    )

    def load_tasks(self) -> Iterable[TaskSpec]:
        for task_id in self.params.tasks:
            yield TaskSpec(task_id=task_id, question=f"say {task_id}", ground_truth=task_id)

    def evaluate(
        self, prepared: PreparedTask, result: RunResult, environment: EnvironmentHandle | None
    ) -> RunResult:
        attempt = int(str(result.extra.get("attempt", 0)))
        does = behaviour(self.params, "evaluator", prepared.task_id, attempt, "grade")
        name, _, argument = does.partition(":")
        return JUDGES[name](argument, prepared, result, environment)


class FreshStubBenchmark(StubBenchmark):
    """Evaluates in a new environment."""

    evaluation_environment_mode = "fresh"


class ReuseStubBenchmark(StubBenchmark):
    """Evaluates in the agent's environment."""

    evaluation_environment_mode = "reuse"


class WrongStubBenchmark(StubBenchmark):
    """Breaks its promises before the agent starts; `script` `{"prepare": …}` says how."""

    def prepare(self, task: TaskSpec, environment: EnvironmentHandle) -> PreparedTask:
        prepared = super().prepare(task, environment)
        does = self.params.script.get("prepare", "raise")
        if does == "other_task":
            return prepared.model_copy(update={"task_id": "another"})  # type: ignore[union-attr]
        if does == "none":
            return None  # type: ignore[return-value]  # that is the fault
        raise ValueError("no such data")


class OwnFormula(StubBenchmark):
    """Replaces the headline by the share of answers that are longer than one character."""

    def aggregate_metrics(
        self, details: Iterator[AttemptResult], report: MetricReport
    ) -> MetricReport:
        found = [len(str(each.final_answer)) > 1 for each in details]
        if self.params.script.get("formula") == "wrong":
            return report.model_copy(update={"k": report.k + 1})
        first = report.series[0].model_copy(update={"value": sum(found) / len(found)})
        return report.model_copy(update={"series": (first, *report.series[1:])})


class HarnessFreeStub(HarnessFreeBenchmark[StubBenchmarkParams]):
    """Brings its own agent, which is right."""

    id: ClassVar[str] = "stub_free"
    Params = StubBenchmarkParams
    contract = StubBenchmark.contract
    load_tasks = StubBenchmark.load_tasks
    evaluate = StubBenchmark.evaluate

    def run_task(
        self,
        prepared: PreparedTask,
        environment: EnvironmentHandle,
        model: ModelEndpoint,
        context: AttemptContext,
    ) -> RunResult:
        note(self.params, "agent", prepared.task_id, context.attempt)
        return right(prepared, context)


class StubHarness(Harness[StubParams]):
    """An agent that follows a script."""

    id: ClassVar[str] = "stub"
    Params = StubParams

    def run_task(
        self,
        prepared: PreparedTask,
        environment: EnvironmentHandle,
        model: ModelEndpoint,
        context: AttemptContext,
    ) -> RunResult:
        does = behaviour(self.params, "agent", prepared.task_id, context.attempt, "ok")
        name, _, argument = does.partition(":")
        return ACTS[name](argument, prepared, context, environment, model)


class AsyncStubHarness(Harness[StubParams]):
    """The same as a coroutine; `hang` awaits, `run` awaits the environment."""

    id: ClassVar[str] = "async_stub"
    Params = StubParams

    async def run_task(
        self,
        prepared: PreparedTask,
        environment: EnvironmentHandle,
        model: ModelEndpoint,
        context: AttemptContext,
    ) -> RunResult:
        does = behaviour(self.params, "agent", prepared.task_id, context.attempt, "ok")
        name, _, argument = does.partition(":")
        if name == "hang":
            await asyncio.sleep(FOREVER_S)
        if name == "run":
            ended = await environment.exec(argument)  # type: ignore[misc]  # see EnvironmentHandle
            return answer(prepared, context, ended.stdout)
        if name == "stray":
            asyncio.get_running_loop().create_task(_writes_on(Path(argument)))
            return right(prepared, context)
        await asyncio.sleep(0)
        return ACTS[name](argument, prepared, context, environment, model)


async def _writes_on(path: Path) -> None:
    while True:
        path.write_text(str(time.monotonic()), encoding="utf-8")
        await asyncio.sleep(0.01)


class StubEnvironment(Environment[StubParams]):
    """Starts nothing; `script` may let `start`, `exec` or `close` fail."""

    id: ClassVar[str] = "stub"
    Params = StubParams

    @property
    def work_dir(self) -> str:
        return "/stub"

    def start(self, plan: EnvironmentPlan) -> None:
        own = f"start {plan.labels.get('task', '')}"  # of one task only
        self._do(own if own in self.params.script else "start")

    def exec(
        self,
        command: Command,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        stdin: str | None = None,
    ) -> ExecResult:
        self._do("exec")
        return ExecResult(0, str(command), "", 0, 0, 0.0)

    def upload(self, source: Path, target: str) -> None:
        self._do("upload")

    def download(self, source: str, target: Path) -> None:
        self._do("download")
        target.write_text(f"content of {source}", encoding="utf-8")

    def quiesce(self) -> None:
        self._do("quiesce")

    def close(self) -> None:
        self._do("close")

    def _do(self, what: str) -> None:
        note(self.params, f"environment {what}", "", 0)
        does = self.params.script.get(what, "ok")
        if does in ENVIRONMENT_ERRORS:
            raise ENVIRONMENT_ERRORS[does]
        if does == "hang":
            time.sleep(FOREVER_S)


ENVIRONMENT_ERRORS = {
    "raise": RuntimeError("the environment broke"),
    "missing": FileNotFoundError("no such file"),
    "unreadable": PermissionError(13, "permission denied"),
}


class StubAnalyzer(Analyzer[StubParams]):
    """Counts characters; `script` lets it fail at every attempt (`*`) or in its summary."""

    id: ClassVar[str] = "stub"
    Params = StubParams

    def analyze(self, attempt: AttemptResult) -> JsonObject:
        if self.params.script.get("*") == "raise":
            raise ValueError("analyzer broke")
        return {"characters": len(str(attempt.final_answer))}

    async def summarize(self, results: Iterable[JsonObject]) -> JsonObject:
        if self.params.script.get("summary") == "raise":
            raise ValueError("the summary broke")
        return {"characters": [each["characters"] for each in results], "mean": float("nan")}
