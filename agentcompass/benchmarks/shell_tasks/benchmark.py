"""Benchmark `shell_tasks`: the agent writes or repairs small programs, hidden cases judge them.

Ten tasks in POSIX shell and awk, so that they run wherever there is a shell: on the host, in a
sandbox, in the smallest container. The task's files are uploaded into the agent's working directory;
what it leaves is judged by running commands there. The cases never enter the environment: they are
run one by one from outside, and what they must print is compared outside.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final, Literal

from pydantic import Field
from typing_extensions import override

from agentcompass.benchmarks.base import Benchmark
from agentcompass.benchmarks.shell_tasks.exercises import Case, Exercise, exercises
from agentcompass.environments.base import EnvironmentHandle, ExecResult
from agentcompass.errors import AttemptFailure
from agentcompass.models.base import Frozen
from agentcompass.models.metric import MetricContract, MetricDisplay, MetricSpec
from agentcompass.models.result import RunResult
from agentcompass.models.task import (
    ArtifactRequest,
    PreparedTask,
    TaskInput,
    TaskOutput,
    TaskSpec,
)

_PLACE: Final = (
    "The working directory is where your commands start. Scripts must run under any POSIX sh, with the "
    "usual small tools (awk, sed, sort, tr) and without a network."
)
_SHOWN: Final = 300
"""Characters of a case's output in the evidence."""


class ShellTasksParams(Frozen):
    """Where and how long the work is judged."""

    evaluation: Literal["fresh", "reuse"] = "fresh"
    """`fresh`: a new environment with nothing but the agent's answer files; `reuse`: the agent's own."""
    case_timeout_s: float = Field(default=20.0, gt=0)


class _Judging(Frozen):
    """What is frozen with a task, so that workers need no data set."""

    files: dict[str, str]
    answer: tuple[str, ...]
    cases: tuple[Case, ...]


class ShellTasks(Benchmark[ShellTasksParams]):
    """Ten small shell programs to write or repair; hidden cases are really run."""

    id = "shell_tasks"
    Params = ShellTasksParams
    contract = MetricContract(
        metrics=(
            MetricSpec(
                metric_id="correct",
                kind="binary_success",
                primary=True,
                display=MetricDisplay(label="Solved"),
            ),
            MetricSpec(
                metric_id="cases",
                kind="scalar",
                reducers=("native", "avg"),
                bounds=(0.0, 1.0),
                display=MetricDisplay(label="Cases that pass"),
            ),
        )
    )

    def __init__(self, params: ShellTasksParams) -> None:
        super().__init__(params)
        self.evaluation_environment_mode = params.evaluation

    @override
    def load_tasks(self) -> Iterable[TaskSpec]:
        """Yield the ten tasks in the order of their ids."""
        return (_task(exercise) for exercise in exercises())

    @override
    def prepare(self, task: TaskSpec, environment: EnvironmentHandle) -> PreparedTask:
        """Upload the task's files; its cases go along, out of the agent's sight."""
        judging = _Judging.model_validate(task.metadata, strict=False)
        with tempfile.TemporaryDirectory(prefix="shell-tasks-") as folder:
            for name in _written(Path(folder), judging.files):
                environment.upload(Path(folder, name), name)
        return PreparedTask(
            task_id=task.task_id,
            category=task.category,
            ground_truth=task.ground_truth,
            input=TaskInput(prompt=str(task.question)),
            output=TaskOutput(files=judging.answer),
            metadata=task.metadata,
        )

    @override
    def evaluate(
        self, prepared: PreparedTask, result: RunResult, environment: EnvironmentHandle | None
    ) -> RunResult:
        """Run all cases; `correct` if every one passes, `cases` is the share that does."""
        if environment is None:
            raise AttemptFailure(
                "error", "evaluate", "evaluate_failed", "shell_tasks needs an environment"
            )
        judging = _Judging.model_validate(prepared.metadata, strict=False)
        missing = _missing(environment, judging.answer)
        if missing:
            problems = [f"there is no {name}" for name in missing]
            passed = 0
        else:
            found = [self._problem(environment, case) for case in judging.cases]
            problems = [problem for problem in found if problem]
            passed = len(found) - len(problems)
        judged = result.observed(correct=not problems, cases=passed / len(judging.cases))
        return judged.model_copy(update={"extra": {**result.extra, "problems": problems}})

    def _problem(self, environment: EnvironmentHandle, case: Case) -> str:
        ended = environment.exec(case.run, stdin=case.stdin, timeout_s=self.params.case_timeout_s)
        return problem_of(case, ended)


def _task(exercise: Exercise) -> TaskSpec:
    judging = _Judging(files=exercise.files, answer=exercise.answer, cases=exercise.cases)
    return TaskSpec(
        task_id=exercise.id,
        question=f"{exercise.prompt}\n{_PLACE}",
        category=exercise.category,
        ground_truth=dict(exercise.solution),
        metadata=judging.model_dump(mode="json"),
        artifacts=tuple(ArtifactRequest(path=name) for name in exercise.answer),
    )


def _written(folder: Path, files: Mapping[str, str]) -> Sequence[str]:
    """Write files below a folder; return the names of what then lies in it."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return sorted({PurePosixPath(name).parts[0] for name in files})


def _missing(environment: EnvironmentHandle, names: Sequence[str]) -> Sequence[str]:
    return [name for name in names if environment.exec(["test", "-e", name]).exit_code != 0]


def problem_of(case: Case, ended: ExecResult) -> str:
    """Return why a case does not pass, "" if it does; pure."""
    if ended.timed_out:
        return f"{case.run}: it did not end within {ended.duration_s:.0f} s"
    if ended.exit_code != case.exit_code:
        said = " ".join(ended.stderr[-_SHOWN:].split())
        return f"{case.run}: exit code {ended.exit_code}, not {case.exit_code}: {said}"
    if ended.stdout != case.expected:
        return f"{case.run}: it printed {ended.stdout[:_SHOWN]!r}, not {case.expected[:_SHOWN]!r}"
    return ""
