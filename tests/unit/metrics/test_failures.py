"""Why attempts failed, by cause."""

from __future__ import annotations

import pytest

from agentcompass.metrics.failures import (
    MAX_CAUSES,
    Culprit,
    FailureCause,
    culprit_of,
    failure_table,
)
from agentcompass.models.issue import Phase
from agentcompass.models.result import AttemptOutcome
from tests.builders import an_issue, an_outcome
from tests.support.metrics import ERROR, FATAL, RIGHT, WRONG, report_of


def causes_of(
    *tasks: AttemptOutcome | tuple[AttemptOutcome | None, ...] | None,
) -> list[FailureCause]:
    table = failure_table(report_of(*tasks))
    return list(table.causes) if table is not None else []


def test_a_run_without_failures_has_no_table() -> None:
    assert "failures" not in report_of(RIGHT, WRONG).extra
    assert causes_of(RIGHT, WRONG) == []


def test_a_cause_is_counted_in_attempts_and_in_tasks() -> None:
    found = causes_of((ERROR, ERROR), (ERROR, RIGHT), (RIGHT, FATAL))

    assert [(c.code, c.attempts, c.tasks, c.examples) for c in found] == [
        ("evaluate_failed", 3, 2, ("t0", "t1")),
        ("setup_failed", 1, 1, ("t2",)),
    ]


def test_a_missing_attempt_is_a_cause_without_a_culprit() -> None:
    (cause,) = causes_of(RIGHT, None)

    assert (cause.code, cause.phase, cause.severity, cause.culprit) == (
        "attempt_missing",
        None,
        None,
        None,
    )


def test_a_silent_evaluator_is_a_cause() -> None:
    (cause,) = causes_of(RIGHT, an_outcome())

    assert (cause.code, cause.culprit) == ("observation_missing", "evaluator")


def test_a_skipped_attempt_is_no_failure() -> None:
    assert causes_of((RIGHT, an_outcome(skipped=True))) == []


def test_a_warning_is_no_failure() -> None:
    assert causes_of(an_outcome(an_issue("warning"), correct=True)) == []


def test_the_same_issue_twice_in_an_attempt_counts_once_with_its_worst_severity() -> None:
    twice = an_outcome(an_issue("error"), an_issue("fatal"), an_issue("error"))

    (cause,) = causes_of(twice)

    assert (cause.attempts, cause.severity) == (1, "fatal")


def test_examples_are_few_and_alphabetical() -> None:
    (cause,) = causes_of(*[ERROR] * 12)

    assert cause.examples == ("t0", "t1", "t10")
    assert cause.tasks == 12


def test_invented_codes_do_not_fill_the_report() -> None:
    tasks = [an_outcome(an_issue(code=f"code_{n}")) for n in range(MAX_CAUSES + 5)]

    table = failure_table(report_of(*tasks))

    assert table is not None
    assert (len(table.causes), table.omitted) == (MAX_CAUSES, 5)


@pytest.mark.parametrize(
    ("phase", "code", "culprit"),
    [
        ("run", "environment_failed", "environment"),
        ("run", "model_failed", "model endpoint"),
        ("run", "model_empty_output", "agent"),
        ("run", "run_timeout", "agent"),
        ("run", "run_failed", "harness"),
        ("run", "worker_lost", "environment"),
        ("evaluate", "evaluate_failed", "evaluator"),
        ("setup", "own_code", "environment"),
        ("collect", "own_code", "environment"),
        ("cleanup", "own_code", "environment"),
        (None, "attempt_missing", None),
    ],
)
def test_whose_failure_it_is(phase: Phase | None, code: str, culprit: Culprit | None) -> None:
    assert culprit_of(phase, code) == culprit
