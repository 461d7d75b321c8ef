"""Harness `command`: any program is the agent.

The program runs in the attempt's environment, in its working directory. It gets the prompt on
standard input or in a file, and answers on standard output or in a file. Always set for it are
`AGENTCOMPASS_TASK_ID`, `AGENTCOMPASS_ATTEMPT` and, where they apply, `AGENTCOMPASS_PROMPT_FILE` and
`AGENTCOMPASS_ANSWER_FILE`. With `pass_model` it is also told the model: `OPENAI_BASE_URL`,
`OPENAI_API_KEY` (of the attempt's model, no other secret) and `OPENAI_MODEL`.
"""

from __future__ import annotations

import shlex
import time
from pathlib import PurePosixPath
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field
from typing_extensions import override

from agentcompass.environments.base import Command, EnvironmentHandle, ExecResult
from agentcompass.errors import AttemptFailure
from agentcompass.harnesses.base import Harness
from agentcompass.models.base import Frozen, JsonObject
from agentcompass.models.context import AttemptContext, ModelEndpoint
from agentcompass.models.result import RunResult
from agentcompass.models.task import PreparedTask
from agentcompass.models.trajectory import AssistantContent, Step, StepMetric, Trajectory

_TAIL: Final = 1_000
"""Characters of standard error that an issue shows."""
_WRITE: Final = 'mkdir -p -- "$(dirname -- "$1")" && cat >"$1"'
_MAX_ANSWER_BYTES: Final = 16 * 2**20


def _inside(path: str) -> str:
    pure = PurePosixPath(path)
    if not path or pure.is_absolute() or ".." in pure.parts:
        raise ValueError(f"{path!r} is not a path below the working directory")
    return path


PathInside = Annotated[str, AfterValidator(_inside)]


class CommandParams(Frozen):
    """The program and how it is spoken to."""

    command: Annotated[str | list[str], Field(min_length=1)]
    """A string is run by `sh -c`, a list as it is. `{prompt_file}` and `{answer_file}` in it are
    replaced by the paths, quoted for the shell in a string."""
    prompt: Literal["stdin", "file"] = "stdin"
    prompt_file: PathInside = "prompt.txt"
    answer: Literal["stdout", "file"] = "stdout"
    answer_file: PathInside = "answer.txt"
    timeout_s: float | None = Field(default=None, gt=0)
    """Of the program alone; the attempt's deadline holds in any case."""
    env: dict[str, str] = Field(default_factory=dict)
    """More variables for the program."""
    pass_model: bool = False


class CommandHarness(Harness[CommandParams]):
    """Any program as the agent: prompt on stdin or in a file, answer from stdout or a file."""

    id = "command"
    Params = CommandParams

    @override
    def run_task(
        self,
        prepared: PreparedTask,
        environment: EnvironmentHandle,
        model: ModelEndpoint,
        context: AttemptContext,
    ) -> RunResult:
        """Run the program to its end; an exit code other than 0 is ERROR run `run_failed`."""
        prompt = prompt_of(prepared)
        if self.params.prompt == "file":
            self._leave_prompt(prompt, environment)
        context.progress("running the command")
        ended = environment.exec(
            self._command(),
            env=self._variables(model, context),
            timeout_s=self._time_left_s(context),
            stdin=prompt if self.params.prompt == "stdin" else "",
        )
        self._refuse_failure(prepared, prompt, ended)
        answer = self._answer(prepared, prompt, ended, environment, context)
        return _result(prepared, prompt, answer, ended)

    def _command(self) -> Command:
        places = {
            "{prompt_file}": self.params.prompt_file,
            "{answer_file}": self.params.answer_file,
        }
        if isinstance(self.params.command, str):
            return _filled(self.params.command, {k: shlex.quote(v) for k, v in places.items()})
        return [_filled(word, places) for word in self.params.command]

    def _variables(self, model: ModelEndpoint, context: AttemptContext) -> dict[str, str]:
        variables = {
            "AGENTCOMPASS_TASK_ID": context.task_id,
            "AGENTCOMPASS_ATTEMPT": str(context.attempt),
        }
        if self.params.prompt == "file":
            variables["AGENTCOMPASS_PROMPT_FILE"] = self.params.prompt_file
        if self.params.answer == "file":
            variables["AGENTCOMPASS_ANSWER_FILE"] = self.params.answer_file
        if self.params.pass_model:
            variables["OPENAI_MODEL"] = model.spec.id
            if model.spec.base_url:
                variables["OPENAI_BASE_URL"] = model.spec.base_url
            if model.api_key is not None:
                variables["OPENAI_API_KEY"] = model.api_key.reveal()
        return variables | self.params.env

    def _time_left_s(self, context: AttemptContext) -> float:
        left_s = max(0.1, context.deadline_monotonic_s - time.monotonic())
        return min(left_s, self.params.timeout_s or left_s)

    def _leave_prompt(self, prompt: str, environment: EnvironmentHandle) -> None:
        ended = environment.exec(["sh", "-c", _WRITE, "sh", self.params.prompt_file], stdin=prompt)
        if ended.exit_code != 0:
            reason = " ".join(ended.stderr[-_TAIL:].split())
            raise AttemptFailure(
                "fatal", "setup", "setup_failed", f"the prompt file cannot be written: {reason}"
            )

    def _refuse_failure(self, prepared: PreparedTask, prompt: str, ended: ExecResult) -> None:
        if not ended.timed_out and ended.exit_code == 0:
            return
        tail = " ".join(ended.stderr[-_TAIL:].split())
        partial = _result(prepared, prompt, ended.stdout or None, ended)
        if ended.timed_out:
            message = f"the command did not end within {ended.duration_s:.1f} s: {tail}"
            raise AttemptFailure("error", "run", "run_timeout", message, partial)
        message = f"the command {_end_of(ended.exit_code)}: {tail or 'it said nothing on stderr'}"
        raise AttemptFailure("error", "run", "run_failed", message, partial)

    def _answer(
        self,
        prepared: PreparedTask,
        prompt: str,
        ended: ExecResult,
        environment: EnvironmentHandle,
        context: AttemptContext,
    ) -> str:
        if self.params.answer == "file":
            return self._answer_from_file(prepared, prompt, ended, environment, context)
        if not _is_whole(ended.stdout, ended.stdout_bytes):
            message = (
                f"the answer on stdout has {ended.stdout_bytes} bytes, more than the environment "
                "keeps: let the program write it to a file (harness.answer=file)"
            )
            partial = _result(prepared, prompt, None, ended)
            raise AttemptFailure("error", "run", "run_failed", message, partial)
        return ended.stdout.removesuffix("\n").removesuffix("\r")

    def _answer_from_file(
        self,
        prepared: PreparedTask,
        prompt: str,
        ended: ExecResult,
        environment: EnvironmentHandle,
        context: AttemptContext,
    ) -> str:
        copy = context.work_dir / f"answer-{context.token[:16]}"
        name = self.params.answer_file
        problem = ""
        if environment.exec(["test", "-f", name]).exit_code != 0:
            problem = f"the command ended well but left no file {name}"
        else:
            environment.download(name, copy)
            if copy.stat().st_size > _MAX_ANSWER_BYTES:
                problem = f"the answer in {name} has more than {_MAX_ANSWER_BYTES} bytes"
        if problem:
            partial = _result(prepared, prompt, None, ended)
            raise AttemptFailure("error", "run", "run_failed", problem, partial)
        text = copy.read_bytes().decode("utf-8", "replace")
        copy.unlink()
        return text.removesuffix("\n").removesuffix("\r")


def prompt_of(prepared: PreparedTask) -> str:
    """Return all that the task says, as one text: system prompt first, then the conversation."""
    given = prepared.input
    said = [_said(message) for message in given.messages] if given.messages else [given.prompt]
    return "\n\n".join(text for text in [given.system_prompt or "", *said] if text)


def _said(message: JsonObject) -> str:
    content = message.get("content")
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def _filled(text: str, places: dict[str, str]) -> str:
    for name, path in places.items():
        text = text.replace(name, path)
    return text


def _is_whole(text: str, size_bytes: int) -> bool:
    """Return False if a text of this size was cut, even if a marker now stands in the gap.

    Each U+FFFD stands for one to three bytes that could not be decoded.
    """
    replaced = text.count("\ufffd")
    sure_bytes = len(text.encode("utf-8", "surrogatepass")) - 3 * replaced
    return sure_bytes + replaced <= size_bytes <= sure_bytes + 3 * replaced


def _end_of(exit_code: int) -> str:
    if exit_code < 0:
        return f"was ended by signal {-exit_code}"
    return f"ended with exit code {exit_code}"


def _result(
    prepared: PreparedTask, prompt: str, answer: str | None, ended: ExecResult
) -> RunResult:
    step = Step(
        step_id=1,
        user_content=prompt,
        assistant_content=AssistantContent(content=answer or ""),
        metric=StepMetric(env_action_ms=ended.duration_s * 1_000),
    )
    return RunResult(
        task_id=prepared.task_id,
        final_answer=answer,
        ground_truth=prepared.ground_truth,
        trajectory=Trajectory(steps=(step,)),
        telemetry={
            "exit_code": ended.exit_code,
            "duration_s": round(ended.duration_s, 3),
            "stdout_bytes": ended.stdout_bytes,
            "stderr_bytes": ended.stderr_bytes,
        },
    )
