from __future__ import annotations

import pytest
from pydantic import BaseModel, ValidationError

from agentcompass.errors import AttemptFailure, EnvironmentFailed, PermanentFailure
from agentcompass.models.issue import MESSAGE_LIMIT
from agentcompass.models.result import RunResult
from agentcompass.runtime.calling.interrupts import DeadlineReached
from agentcompass.runtime.execution.failures import (
    DIAGNOSTICS_LIMIT,
    Where,
    failure_of,
    safe_text,
    safe_traceback,
)
from tests.support.stub_acts import ERRORS


def told(error: BaseException, where: Where) -> str:
    found = failure_of(error, where).issue
    return f"{found.severity} {found.phase} {found.code}"


@pytest.mark.parametrize(
    ("where", "raised", "late"),
    [
        ("open", "fatal setup setup_failed", "fatal setup setup_failed"),
        ("prepare", "fatal setup setup_failed", "fatal setup setup_failed"),
        ("run", "error run run_failed", "error run run_timeout"),
        (
            "collect",
            "fatal collect artifact_transfer_failed",
            "fatal collect artifact_transfer_failed",
        ),
        (
            "fresh_environment",
            "error evaluate evaluate_failed",
            "error evaluate evaluation_timeout",
        ),
        ("evaluate", "error evaluate evaluate_failed", "error evaluate evaluation_timeout"),
        ("analyze", "warning evaluate analyzer_failed", "warning evaluate analyzer_failed"),
        ("close", "warning cleanup cleanup_failed", "warning cleanup cleanup_failed"),
    ],
)
def test_an_unclassified_failure_means_what_the_table_says(
    where: Where, raised: str, late: str
) -> None:
    assert told(ValueError("x"), where) == raised
    assert told(DeadlineReached("no end within 1 s"), where) == late


def test_the_environment_under_an_agent_is_fatal_and_its_cause_is_told() -> None:
    error = EnvironmentFailed("exec")
    error.__cause__ = OSError("no daemon")

    assert told(error, "run") == "fatal run environment_failed"
    assert failure_of(error, "run").issue.message == "OSError: no daemon"
    assert told(error, "evaluate") == "error evaluate evaluate_failed"


def test_what_an_agent_had_done_outlives_its_environment() -> None:
    error, done = EnvironmentFailed("exec"), RunResult(task_id="t")
    assert failure_of(error, "run").partial is None

    error.partial = done

    assert failure_of(error, "run").partial is done


def test_a_classified_failure_keeps_its_classification() -> None:
    partial = RunResult(task_id="t")
    error = AttemptFailure("error", "run", "model_timeout", "slow", partial, retry_after_s=7)

    found = failure_of(error, "evaluate")

    assert told(error, "evaluate") == "error run model_timeout"
    assert (found.partial, found.retry_after_s, found.is_permanent) == (partial, 7.0, False)


@pytest.mark.parametrize(
    "error",
    [
        PermanentFailure("fatal", "run", "model_failed", "401"),
        AttemptFailure("fatal", "setup", "secret_missing", "KEY"),
    ],
)
def test_what_no_retry_can_cure_is_permanent(error: AttemptFailure) -> None:
    assert failure_of(error, "run").is_permanent


def test_a_wrong_classification_falls_back_to_the_table() -> None:
    error = AttemptFailure("dreadful", "run", "No Code!", "x")  # type: ignore[arg-type]

    assert told(error, "run") == "error run run_failed"


@pytest.mark.parametrize("name", list(ERRORS))
def test_every_exception_has_a_class_name_and_a_safe_text(name: str) -> None:
    error = ERRORS[name]()

    assert safe_text(error).startswith(type(error).__name__)
    assert type(error).__name__ in safe_traceback(error)


def test_a_group_names_its_members() -> None:
    assert safe_text(ERRORS["group"]()).endswith("[ValueError: one; KeyError: 'two']")


def test_a_validation_error_names_fields_in_one_line() -> None:
    class Model(BaseModel):
        x: int

    with pytest.raises(ValidationError) as caught:
        Model.model_validate({"x": "secret-input"})

    assert safe_text(caught.value).startswith("ValidationError: Model: x: Input should be a valid")
    assert "secret-input" not in safe_text(caught.value)


def test_a_message_is_one_bounded_line_of_valid_text() -> None:
    message = failure_of(ValueError("a\n\udc00" + "x" * 10_000), "run").issue.message

    assert message.startswith("ValueError: a \\udc00x")
    assert len(message) <= MESSAGE_LIMIT
    assert len(message.splitlines()) == 1


def test_a_traceback_is_bounded_and_keeps_its_end() -> None:
    text = safe_traceback(ValueError("x" * DIAGNOSTICS_LIMIT + "the end"))

    assert len(text) < DIAGNOSTICS_LIMIT + 100
    assert text.endswith("the end\n")
