"""What a summary says beside the numbers: bounded, and in the order of the run."""

from __future__ import annotations

from collections.abc import Sequence

from agentcompass.metrics.highlights import MAX_EXTREMES, Execution, Highlights, HighlightsTally
from agentcompass.metrics.per_task.rows import MAX_SHOWN, task_line, task_row
from agentcompass.metrics.per_task.tasks import TaskReducer
from agentcompass.metrics.usage import Spend, Total
from agentcompass.models.request import AttemptPlan
from tests.builders import a_contract, a_task_with_outcomes, an_issue, an_outcome
from tests.support.metrics import ERROR, FATAL, RIGHT, WRONG, Attempts


def seen(
    *tasks: Attempts,
    limit: int = 200,
    strategy: str = "avg",
    executions: Sequence[Sequence[Execution]] = (),
) -> Highlights:
    """Return what is gathered of tasks t0, t1, … with these attempts."""
    reducer = TaskReducer(a_contract(), AttemptPlan(k=len(tasks[0]), strategy=strategy))
    tally = HighlightsTally(reducer, limit=limit)
    for number, attempts in enumerate(tasks):
        task = a_task_with_outcomes(*attempts, task_id=f"t{number}")
        counted = reducer.counted(task)
        did = executions[number] if executions else ()
        tally.see(task, (counted, reducer.reduce(counted)), did, f"details/normal/t{number}--x")
    return tally.highlights()


def words_of(*attempts: object, strategy: str = "avg") -> tuple[str, ...]:
    reducer = TaskReducer(a_contract(), AttemptPlan(k=len(attempts), strategy=strategy))
    task = a_task_with_outcomes(*attempts)  # type: ignore[arg-type]
    return task_line(task_row(reducer, task)).attempts


class TestLists:
    def test_tasks_without_a_value_are_listed_in_order_and_the_rest_is_counted(self) -> None:
        found = seen((RIGHT,), (ERROR,), (None,), (FATAL,), (WRONG,), limit=2)

        assert [line.task_id for line in found.unscored] == ["t1", "t2"]
        assert found.unscored_omitted == 1
        assert found.unscored[0].reason.startswith("attempt 1: error evaluate evaluate_failed")

    def test_the_first_tasks_are_kept_whatever_became_of_them(self) -> None:
        found = seen((RIGHT,), (ERROR,), (RIGHT,), limit=2)

        assert [(line.state, line.value) for line in found.tasks] == [
            ("evaluated", 1.0),
            ("unavailable", None),
        ]
        assert found.tasks[0].directory == "details/normal/t0--x"

    def test_tasks_whose_attempts_do_not_agree_are_listed(self) -> None:
        found = seen((RIGHT, RIGHT), (RIGHT, WRONG), (WRONG, None), (None, None), (ERROR, ERROR))

        assert [line.task_id for line in found.mixed] == ["t1", "t2"]
        assert found.mixed_omitted == 0

    def test_an_early_success_is_no_disagreement(self) -> None:
        found = seen((RIGHT, None), (WRONG, RIGHT), strategy="pass")

        assert [line.task_id for line in found.mixed] == ["t1"]


class TestLines:
    def test_what_is_missing_is_no_zero(self) -> None:
        with_error = an_outcome(an_issue("error"), correct=False)

        assert words_of(RIGHT, WRONG, None, ERROR, an_outcome(), with_error) == (
            *("1", "0", "–", "error", "none", "0!"),
        )

    def test_what_came_after_the_first_success_does_not_count(self) -> None:
        assert words_of(WRONG, RIGHT, WRONG, strategy="pass") == ("0", "1", "·")

    def test_very_many_attempts_are_cut(self) -> None:
        words = words_of(*[RIGHT] * (MAX_SHOWN + 1))

        assert len(words) == MAX_SHOWN + 1
        assert words[-2:] == ("1", "…")


class TestSpending:
    def test_the_slowest_and_the_most_expensive_come_first_and_are_few(self) -> None:
        did = [
            [Execution(spend=Spend(cost_usd=number / 10), duration_s=float(100 - number))]
            for number in range(10)
        ]

        found = seen(*[(RIGHT,)] * 10, executions=did)

        assert len(found.slowest) == len(found.most_expensive) == MAX_EXTREMES
        assert [each.amount for each in found.slowest[:2]] == [100.0, 99.0]
        assert [each.task_id for each in found.most_expensive[:2]] == ["t9", "t8"]

    def test_of_equal_ones_those_that_came_first_stay(self) -> None:
        found = seen(*[(RIGHT,)] * 9, executions=[[Execution(duration_s=1.0)]] * 9)

        assert [each.task_id for each in found.slowest] == ["t0", "t1", "t2", "t3", "t4"]

    def test_what_is_not_known_stands_out_nowhere_and_is_in_no_sum(self) -> None:
        found = seen((RIGHT,), executions=[[Execution(spend=Spend())]])

        assert (found.slowest, found.most_expensive) == ((), ())
        assert found.usage is not None
        assert found.usage.incurred.cost_usd == Total(value=None, known=0, of=1)
