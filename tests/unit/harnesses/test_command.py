from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from agentcompass.errors import AttemptFailure
from agentcompass.harnesses.command import CommandHarness, CommandParams, prompt_of
from agentcompass.models.base import JsonObject
from agentcompass.models.context import AttemptContext, ModelEndpoint
from agentcompass.models.request import ModelSpec
from agentcompass.models.result import RunResult
from agentcompass.models.secret import SecretValue
from agentcompass.models.task import PreparedTask, TaskInput
from tests.support.process_environment import ProcessEnvironment

PROMPT = "say\n'hi' $HOME é"
TASK = PreparedTask(task_id="task-1", ground_truth="hi", input=TaskInput(prompt=PROMPT))
MODEL = ModelEndpoint(
    spec=ModelSpec(id="m", base_url="http://127.0.0.1:9/v1"),
    api_key=SecretValue("canary-canary", name="KEY"),
)
Context = Callable[..., AttemptContext]


@pytest.fixture
def environment(tmp_path: Path) -> ProcessEnvironment:
    folder = tmp_path / "inside"
    folder.mkdir()
    return ProcessEnvironment(folder)


def run(
    params: CommandParams, environment: ProcessEnvironment, context: AttemptContext
) -> RunResult:
    return CommandHarness(params).run_task(TASK, environment, MODEL, context)


def test_the_prompt_goes_in_on_stdin_and_the_answer_comes_out_on_stdout(
    environment: ProcessEnvironment, a_context: Context
) -> None:
    result = run(CommandParams(command="cat"), environment, a_context())

    assert result.final_answer == PROMPT
    assert result.telemetry["exit_code"] == 0


def test_prompt_and_answer_may_be_files_whose_names_the_command_is_told(
    environment: ProcessEnvironment, a_context: Context
) -> None:
    params = CommandParams(
        command="cp {prompt_file} {answer_file}; echo chatter",
        prompt="file",
        prompt_file="in/the prompt.txt",
        answer="file",
    )

    assert run(params, environment, a_context()).final_answer == PROMPT


def test_a_list_is_run_without_a_shell(environment: ProcessEnvironment, a_context: Context) -> None:
    params = CommandParams(command=["printf", "%s", "$HOME {prompt_file}"])

    assert run(params, environment, a_context()).final_answer == "$HOME prompt.txt"


def test_the_program_knows_its_attempt(environment: ProcessEnvironment, a_context: Context) -> None:
    params = CommandParams(
        command='echo "$AGENTCOMPASS_TASK_ID $AGENTCOMPASS_ATTEMPT $X"', env={"X": "y"}
    )

    assert run(params, environment, a_context(attempt=3)).final_answer == "task-1 3 y"


def test_the_model_is_told_only_if_asked(
    environment: ProcessEnvironment, a_context: Context
) -> None:
    run(CommandParams(command="true"), environment, a_context())
    run(CommandParams(command="true", pass_model=True), environment, a_context())

    silent, told = environment.variables
    assert not [name for name in silent if name.startswith("OPENAI")]
    assert told["OPENAI_API_KEY"] == "canary-canary"
    assert (told["OPENAI_BASE_URL"], told["OPENAI_MODEL"]) == ("http://127.0.0.1:9/v1", "m")


def test_an_exit_code_is_an_error_with_the_end_of_stderr(
    environment: ProcessEnvironment, a_context: Context
) -> None:
    with pytest.raises(AttemptFailure, match="exit code 3: no such luck") as caught:
        run(
            CommandParams(command="echo partly; echo no such luck >&2; exit 3"),
            environment,
            a_context(),
        )

    assert (caught.value.severity, caught.value.code) == ("error", "run_failed")
    assert isinstance(caught.value.partial, RunResult)
    assert caught.value.partial.final_answer == "partly\n"


def test_a_signal_is_named(environment: ProcessEnvironment, a_context: Context) -> None:
    with pytest.raises(AttemptFailure, match="signal 9"):
        run(CommandParams(command=["sh", "-c", "kill -9 $$"]), environment, a_context())


def test_a_program_that_does_not_end_is_a_timeout(
    environment: ProcessEnvironment, a_context: Context
) -> None:
    with pytest.raises(AttemptFailure) as caught:
        run(CommandParams(command=["sleep", "30"], timeout_s=0.2), environment, a_context())

    assert caught.value.code == "run_timeout"


def test_a_missing_answer_file_is_an_error(
    environment: ProcessEnvironment, a_context: Context
) -> None:
    with pytest.raises(AttemptFailure, match=r"left no file answer\.txt"):
        run(CommandParams(command="true", answer="file"), environment, a_context())


def test_an_answer_that_was_cut_is_never_taken_for_the_answer(
    environment: ProcessEnvironment, a_context: Context
) -> None:
    environment.output_limit = 10

    with pytest.raises(AttemptFailure, match="100 bytes, more than"):
        run(CommandParams(command="printf %0100d 0"), environment, a_context())


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", ""])
def test_files_stay_below_the_working_directory(path: str) -> None:
    with pytest.raises(ValidationError, match="working directory"):
        CommandParams(command="true", prompt_file=path)


def test_an_empty_command_is_refused() -> None:
    with pytest.raises(ValidationError):
        CommandParams(command="")


def test_a_conversation_becomes_one_text() -> None:
    messages: tuple[JsonObject, ...] = (
        {"role": "user", "content": [{"type": "text", "text": "a"}]},
        {"role": "user", "content": "b"},
    )
    given = TaskInput(system_prompt="be brief", messages=messages)

    assert prompt_of(TASK.model_copy(update={"input": given})) == "be brief\n\na\n\nb"


@pytest.mark.parametrize("answer", [r"\377", r"\360\237", r"a\357\277\275b", r"\303\251"])
def test_bytes_that_are_no_text_are_not_taken_for_a_cut(
    answer: str, environment: ProcessEnvironment, a_context: Context
) -> None:
    assert run(CommandParams(command=f"printf '{answer}'"), environment, a_context()).final_answer
