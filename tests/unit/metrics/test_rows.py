"""One task as a row."""

from __future__ import annotations

import pytest

from agentcompass.metrics.per_task.reducers import Reducer
from agentcompass.metrics.per_task.rows import TaskRow, task_row
from agentcompass.metrics.per_task.tasks import TaskReducer
from agentcompass.models.metric import MetricSpec
from agentcompass.models.request import AttemptPlan
from agentcompass.models.result import AttemptOutcome
from tests.builders import a_contract, a_task_with_outcomes, an_issue, an_outcome
from tests.support.metrics import ERROR, FATAL, RIGHT, WRONG, report_of


def row_of(*attempts: AttemptOutcome | None, strategy: str = "avg") -> TaskRow:
    reducer = TaskReducer(a_contract(), AttemptPlan(k=len(attempts), strategy=strategy))
    return task_row(reducer, a_task_with_outcomes(*attempts))


def test_missing_is_not_zero_in_the_table_of_attempts() -> None:
    rows = [row_of(RIGHT, RIGHT, RIGHT), row_of(RIGHT, WRONG, None), row_of(ERROR, RIGHT, RIGHT)]

    assert [[(a.state, a.value) for a in row.attempts] for row in rows[1:]] == [
        [("observed", 1.0), ("observed", 0.0), ("missing", None)],
        [("no_observation", None), ("observed", 1.0), ("observed", 1.0)],
    ]
    assert [row.attempts[0].has_error for row in rows] == [False, False, True]


def test_the_series_of_a_report_follow_from_its_rows() -> None:
    tasks = [(RIGHT, RIGHT, RIGHT), (RIGHT, WRONG, None), (ERROR, RIGHT, RIGHT)]

    rows = [row_of(*attempts) for attempts in tasks]

    for series in report_of(*tasks).series:
        values = [row.values[series.series_id] for row in rows]
        valued = [value for value in values if value is not None]
        assert series.value == sum(valued) / len(valued)


def test_attempts_after_the_first_success_of_pass_do_not_count() -> None:
    row = row_of(WRONG, RIGHT, FATAL, strategy="pass")

    assert [a.state for a in row.attempts] == ["observed", "observed", "not_counted"]
    assert (row.state, row.has_error, row.reason) == ("evaluated", False, "")


@pytest.mark.parametrize(
    ("attempts", "state", "reason"),
    [
        ((RIGHT, FATAL), "invalidated", "attempt 2: fatal setup setup_failed: it broke"),
        ((RIGHT, None), "unavailable", "attempt 2 has no result"),
        ((None, None, None), "unavailable", "attempt 1 has no result (and 2 more attempts)"),
        (
            (ERROR, None),
            "unavailable",
            "attempt 1: error evaluate evaluate_failed: it broke (and 1 more attempt)",
        ),
        ((an_outcome(),), "unavailable", "attempt 1 has no observation 'correct'"),
        ((RIGHT, an_outcome(skipped=True)), "unavailable", "attempt 2 was skipped"),
        ((an_outcome(an_issue(message="")),), "unavailable", "attempt 1: error run run_failed"),
    ],
)
def test_a_task_without_a_value_says_why(
    attempts: tuple[AttemptOutcome | None, ...], state: str, reason: str
) -> None:
    row = row_of(*attempts)

    assert (row.state, row.reason) == (state, reason)


def test_a_long_message_is_cut_and_put_on_one_line() -> None:
    row = row_of(an_outcome(an_issue(message="a\nb " + "x" * 500)))

    assert row.reason.startswith("attempt 1: error run run_failed: a b xxx")
    assert row.reason.endswith("…")
    assert len(row.reason) < 250


def test_a_reducer_without_a_value_is_named_as_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    reducer = TaskReducer(a_contract(), AttemptPlan())
    silent = Reducer("silent", lambda k: (1,), lambda observations, draw: None)
    monkeypatch.setattr(
        reducer, "series", tuple(type(plan)(plan.spec, silent, plan.k) for plan in reducer.series)
    )

    assert task_row(reducer, a_task_with_outcomes(RIGHT)).reason == "its reducer gives no value"


def test_a_row_holds_the_values_of_every_series() -> None:
    cost = MetricSpec(metric_id="cost", kind="scalar")
    reducer = TaskReducer(a_contract("binary_success", cost), AttemptPlan())

    row = task_row(reducer, a_task_with_outcomes(an_outcome(correct=False, cost=0.25)))

    assert row.values == {"correct.native@1": 0.0, "cost.native@1": 0.25}
