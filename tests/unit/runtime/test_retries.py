from __future__ import annotations

import random

import pytest

from agentcompass.models.issue import Phase, Severity
from agentcompass.models.plan import EvaluationMode, RetryPolicy
from agentcompass.runtime.execution.failures import Failure
from agentcompass.runtime.execution.retries import LONGEST_WISH_S, Retry, decide_retry, wished_s
from tests.builders import an_issue

POLICY = RetryPolicy(max_retries=2, patterns=("model_timeout", "slow down"))


def a_failure(
    severity: Severity = "fatal",
    phase: Phase = "run",
    code: str = "x",
    message: str = "m",
    *,
    permanent: bool = False,
    wish_s: float | None = None,
) -> Failure:
    found = an_issue(severity, phase, code, message)
    return Failure(found, is_permanent=permanent, retry_after_s=wish_s)


@pytest.mark.parametrize(
    ("failures", "is_retried"),
    [
        ([], False),
        ([a_failure("fatal")], True),
        ([a_failure("fatal", permanent=True)], False),
        ([a_failure("fatal"), a_failure("fatal", permanent=True)], False),
        ([a_failure("error")], False),
        ([a_failure("error", code="model_timeout")], True),
        ([a_failure("error", message="please slow down")], True),
        ([a_failure("warning", code="model_timeout")], False),
    ],
)
def test_a_try_is_repeated_if_its_failures_allow_it(
    failures: list[Failure], *, is_retried: bool
) -> None:
    assert (decide_retry(failures, POLICY, 0, "none") is not None) == is_retried


def test_the_budget_is_never_exceeded() -> None:
    decided = [decide_retry([a_failure()], POLICY, used, "none") for used in range(4)]

    assert [each is not None for each in decided] == [True, True, False, False]


@pytest.mark.parametrize(
    ("phases", "mode", "only_evaluation"),
    [
        (["evaluate"], "none", True),
        (["evaluate"], "fresh", True),
        (["evaluate"], "reuse", False),
        (["run"], "none", False),
        (["run", "evaluate"], "none", False),
    ],
)
def test_only_an_evaluation_that_stands_alone_is_repeated_alone(
    phases: list[Phase], mode: EvaluationMode, *, only_evaluation: bool
) -> None:
    decided = decide_retry([a_failure(phase=phase) for phase in phases], POLICY, 0, mode)

    assert decided is not None
    assert decided.only_evaluation == only_evaluation


def test_an_error_that_no_pattern_names_does_not_make_the_agent_run_again() -> None:
    failures = [a_failure("error", "run"), a_failure("fatal", "evaluate")]

    assert decide_retry(failures, POLICY, 0, "none") == Retry(5.0, only_evaluation=True)


def test_the_delay_doubles_up_to_a_minute() -> None:
    policy = RetryPolicy(max_retries=10)
    decided = [decide_retry([a_failure()], policy, used, "none") for used in range(6)]

    assert [each and each.after_s for each in decided] == [5, 10, 20, 40, 60, 60]


def test_the_wait_is_in_the_upper_half_of_the_delay_and_honours_the_server() -> None:
    retry, rng = Retry(10.0, only_evaluation=False), random.Random(1)
    waits = [retry.delay_s(rng, None) for _ in range(200)]

    assert 5 <= min(waits) < 6
    assert 9 < max(waits) <= 10
    assert retry.delay_s(rng, 33.0) == 33.0
    assert retry.delay_s(rng, 1e9) == LONGEST_WISH_S


def test_the_longest_wish_counts() -> None:
    failures = [a_failure(wish_s=3), a_failure(), a_failure(wish_s=8)]

    assert wished_s(failures) == 8


def test_a_wrong_pattern_matches_nothing() -> None:
    policy = RetryPolicy(max_retries=1, patterns=("(",))

    assert decide_retry([a_failure("error", message="(")], policy, 0, "none") is None
