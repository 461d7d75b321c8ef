from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentcompass.benchmarks.shell_tasks.benchmark import ShellTasks, ShellTasksParams, problem_of
from agentcompass.benchmarks.shell_tasks.exercises import Case, Exercise, exercises
from agentcompass.environments.base import EnvironmentPlan, ExecResult
from agentcompass.environments.host_process import HostProcess, HostProcessParams
from agentcompass.models.result import RunResult
from agentcompass.models.task import TaskSpec

EXERCISES = {exercise.id: exercise for exercise in exercises()}
TASKS = {task.task_id: task for task in ShellTasks(ShellTasksParams()).load_tasks()}


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[HostProcess]:
    host = HostProcess(HostProcessParams())
    host.start(EnvironmentPlan(token="t" * 32, work_dir=tmp_path / "place", env={}))
    yield host
    host.close()


def judged(environment: HostProcess, task: TaskSpec, files: dict[str, str]) -> RunResult:
    benchmark = ShellTasks(ShellTasksParams())
    prepared = benchmark.prepare(task, environment)
    for name, text in files.items():
        write = 'mkdir -p "$(dirname "$1")" && cat >"$1"'
        environment.exec(["sh", "-c", write, "sh", name], stdin=text)
    return benchmark.evaluate(prepared, RunResult(task_id=task.task_id), environment)


def test_there_are_ten_tasks_of_two_categories() -> None:
    assert len(TASKS) == 10
    assert {task.category for task in TASKS.values()} == {"write", "repair"}


@pytest.mark.parametrize("task_id", EXERCISES)
def test_a_task_can_be_solved(environment: HostProcess, task_id: str) -> None:
    result = judged(environment, TASKS[task_id], EXERCISES[task_id].solution)

    assert result.extra["problems"] == []
    assert result.metrics == {"correct": True, "cases": 1.0}


@pytest.mark.parametrize("task_id", EXERCISES)
def test_what_the_agent_finds_is_no_solution(environment: HostProcess, task_id: str) -> None:
    assert judged(environment, TASKS[task_id], {}).metrics["correct"] is False


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_what_an_agent_leaves_is_what_the_task_collects(exercise: Exercise) -> None:
    declared = {request.path for request in TASKS[exercise.id].artifacts}

    assert {Path(name).parts[0] for name in exercise.solution} == declared == {*exercise.answer}


def test_an_agent_is_told_neither_the_cases_nor_a_solution(environment: HostProcess) -> None:
    task = TASKS["fix-ini"]

    prepared = ShellTasks(ShellTasksParams()).prepare(task, environment)

    assert environment.exec("ls -A").stdout == "ini.sh\n"
    assert "two words" not in prepared.input.prompt


def test_a_part_of_the_cases_is_a_part_of_the_score(environment: HostProcess) -> None:
    result = judged(environment, TASKS["roman-numerals"], {"roman.sh": "echo MCMXCIV\n"})

    assert result.metrics == {"correct": False, "cases": 0.2}


def test_a_missing_answer_passes_nothing_even_where_a_failure_is_expected(
    environment: HostProcess,
) -> None:
    result = judged(environment, TASKS["csv-total"], {})

    assert result.metrics == {"correct": False, "cases": 0.0}
    assert result.extra["problems"] == ["there is no total.sh"]


@pytest.mark.parametrize("mode", ["fresh", "reuse"])
def test_a_parameter_says_where_the_work_is_judged(mode: str) -> None:
    params = ShellTasksParams.model_validate({"evaluation": mode})

    assert ShellTasks(params).evaluation_environment_mode == mode


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        (ExecResult(0, "a\n", "", 2, 0, 0.1), ""),
        (ExecResult(0, "a", "", 1, 0, 0.1), "it printed 'a', not 'a\\n'"),
        (ExecResult(1, "a\n", "oh\nno", 2, 5, 0.1), "exit code 1, not 0: oh no"),
        (ExecResult(-9, "", "", 0, 0, 20.0, timed_out=True), "it did not end within 20 s"),
    ],
)
def test_a_case_says_why_it_does_not_pass(ended: ExecResult, said: str) -> None:
    problem = problem_of(Case(run="sh x.sh", expected="a\n"), ended)

    assert problem == (f"sh x.sh: {said}" if said else "")
