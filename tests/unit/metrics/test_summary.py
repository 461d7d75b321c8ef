"""`summary.md` and the terminal: the same numbers, each beside its counts."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from agentcompass.metrics.builder import series_like, with_series
from agentcompass.metrics.extras import PartialNote
from agentcompass.metrics.highlights import Extreme, Highlights
from agentcompass.metrics.per_task.rows import TaskLine
from agentcompass.metrics.report import build_report
from agentcompass.metrics.text.summary import SummaryContext, render_summary, render_terminal
from agentcompass.metrics.usage import Spend, UsageTally
from agentcompass.models.metric import MetricReport
from agentcompass.models.request import AttemptPlan
from agentcompass.models.result import TaskOutcomes
from tests.builders import a_contract, an_issue, an_outcome
from tests.support.metrics import ERROR, FATAL, RIGHT, WRONG, report_of, rich_report, tasks_of

CONTEXT = SummaryContext(run_id="run-1", benchmark="humaneval", model="m/1", status="completed")
Render = Callable[[MetricReport, SummaryContext], str]
both = pytest.mark.parametrize("render", [render_summary, render_terminal])


def lines_with(text: str, word: str) -> list[str]:
    return [line for line in text.splitlines() if word in line]


def flat(text: str) -> str:
    """Return the text without its line breaks."""
    return " ".join(text.split())


@both
class TestBoth:
    def test_coverage_comes_before_the_value(self, render: Render) -> None:
        text = render(report_of(*[RIGHT] * 8, WRONG, ERROR), CONTEXT)

        assert text.index("9 of 10 tasks evaluated") < text.index("0.8889")
        assert "1 unavailable, 0 invalidated; 1 with an error" in text
        assert "0.8889 (official, over 9 of 10 tasks)" in text

    def test_both_readings_of_missing_tasks_are_told(self, render: Render) -> None:
        text = render(report_of(*[RIGHT] * 13, *[ERROR] * 7), CONTEXT)

        assert "0.6500 to 1.0000 over all 20 tasks" in text

    def test_a_lucky_survivor_is_called_a_reference(self, render: Render) -> None:
        text = render(report_of(*[FATAL] * 19, RIGHT), CONTEXT)

        assert "No official value:" in text
        assert "1.0000 (reference, over 1 of 20 tasks)" in text
        assert "(official" not in text

    def test_a_partial_value_is_called_partial(self, render: Render) -> None:
        report = build_report(
            a_contract(),
            AttemptPlan(),
            tasks_of([(RIGHT,)] * 6 + [(None,)] * 4),
            partial=PartialNote(status="cancelled", missing=4),
        )

        text = render(report, CONTEXT)

        assert "the run is cancelled, 4 attempts without a result; no value here is final" in text
        assert "1.0000 (partial, over 6 of 10 tasks)" in text

    def test_nothing_is_a_dash_and_never_zero(self, render: Render) -> None:
        text = render(report_of(ERROR, ERROR), CONTEXT)

        assert "– (no value, over 0 of 2 tasks)" in text
        assert "0.0000 (" not in text

    def test_every_task_without_a_value_has_a_row_with_its_reason(self, render: Render) -> None:
        unscored = TaskLine(task_id="t9", state="unavailable", reason="attempt 1 has no result")

        text = render(report_of(RIGHT, None), with_(unscored=(unscored,), unscored_omitted=3))

        (row,) = lines_with(text, "t9")
        assert "attempt 1 has no result" in row
        assert "And 3 more tasks, see agentcompass export." in text

    def test_failures_are_shown_by_cause(self, render: Render) -> None:
        text = render(report_of(RIGHT, *[ERROR] * 5, None), CONTEXT)

        assert "t1, t2, t3, …" in lines_with(text, "evaluate_failed")[0]
        assert "attempt_missing" in text

    def test_an_unknown_cost_is_a_dash(self, render: Render) -> None:
        tally = UsageTally()
        tally.add(Spend(input_tokens=1200), [Spend(input_tokens=300)], is_reused=False)
        tally.add(Spend(), [], is_reused=False)

        text = render(report_of(RIGHT, RIGHT), with_(usage=tally.totals()))

        (row,) = lines_with(text, "incurred by this run")
        assert "1,500 (of 2 of 3)" in row
        assert row.rstrip(" |").endswith("–")

    def test_what_stands_out_is_listed(self, render: Render) -> None:
        slow = Extreme(task_id="t-slow", attempt=2, amount=3723.25)

        text = render(report_of(RIGHT), with_("reused 3 attempts", slowest=(slow,)))

        assert "3,723.2" in lines_with(text, "t-slow")[0]
        assert "reused 3 attempts" in text

    def test_categories_and_tree_are_shown_with_what_they_cover(self, render: Render) -> None:
        report, _ = rich_report("category_hierarchy")

        text = render(report, CONTEXT)

        assert re.search(r"b`? .*0\.\d{4} \(\d+ of 15\)", text)
        assert "· · a" in text
        assert "no value" in lines_with(text, "· · nobody")[0]

    def test_a_run_without_categories_has_no_table_of_them(self, render: Render) -> None:
        tasks = tasks_of([(RIGHT,)], category="__uncategorized__")

        text = render(build_report(a_contract(), AttemptPlan(), tasks), CONTEXT)

        assert "Categories" not in text

    def test_very_many_categories_are_cut(self, render: Render) -> None:
        tasks = [
            TaskOutcomes(task_id=f"t{n}", category=f"c{n:03}", attempts=(RIGHT,))
            for n in range(105)
        ]

        text = render(build_report(a_contract(), AttemptPlan(), tasks), CONTEXT)

        assert "c099" in text
        assert "c100" not in text
        assert "And 5 more categories, see metrics.json." in flat(text)

    def test_an_own_formula_is_named(self, render: Render) -> None:
        report = report_of(RIGHT, WRONG)

        text = render(with_series(report, series_like(report, "share")), CONTEXT)

        assert lines_with(text, "share (sum@1)")[0].rstrip(" |").endswith("custom")
        assert "– (no value" not in text

    def test_an_appended_series_has_no_categories(self, render: Render) -> None:
        report = report_of(RIGHT, WRONG)

        text = render(with_series(report, series_like(report, "share")), CONTEXT)

        category = next(line for line in text.splitlines() if re.match(r"\W+c\W", line))
        assert category.rstrip(" |").endswith("–")

    def test_a_run_that_is_barely_known_has_a_summary(self, render: Render) -> None:
        text = render(report_of(RIGHT), SummaryContext(run_id="r"))

        assert "Evaluation: run r" in text
        assert "Model:" not in text

    def test_an_empty_run_has_a_summary(self, render: Render) -> None:
        text = render(build_report(a_contract(), AttemptPlan(), []), CONTEXT)

        assert "0 of 0 tasks evaluated" in text


def with_(*notes: str, **fields: object) -> SummaryContext:
    highlights = Highlights().model_copy(update=fields)
    return CONTEXT.model_copy(update={"notes": notes, "highlights": highlights})


class TestTasks:
    """Lists of tasks: all of them if they are few, else those that somebody has to look at."""

    LINES = (
        TaskLine(
            task_id="t0", state="evaluated", value=1.0, attempts=("1", "1"), directory="details/a"
        ),
        TaskLine(
            task_id="t1",
            state="unavailable",
            reason="attempt 2 has no result",
            attempts=("0", "–"),
            directory="details/b",
        ),
    )

    def report(self) -> MetricReport:
        return report_of((RIGHT, RIGHT), (WRONG, None))

    def test_the_file_has_a_row_for_each_with_its_attempts_and_where_they_are(self) -> None:
        text = render_summary(self.report(), with_(tasks=self.LINES, mixed=self.LINES[1:]))

        assert "| `t0` | evaluated | 1, 1 | 1.0000 |  | `details/a` |" in text
        assert "| `t1` | unavailable | 0, – | – | attempt 2 has no result | `details/b` |" in text
        assert "## Tasks\n" in text
        assert "Tasks whose attempts differ" not in text

    def test_the_terminal_has_those_without_a_value_and_those_that_do_not_agree(self) -> None:
        highlights = {"tasks": self.LINES, "unscored": self.LINES[1:], "mixed": self.LINES[1:]}

        text = render_terminal(self.report(), with_(**highlights, mixed_omitted=7))

        assert "t0" not in text.split("Tasks without a value")[1]
        assert "Tasks whose attempts differ" in text
        assert "And 7 more tasks, see agentcompass export." in flat(text)
        assert "details/b" not in text

    def test_more_tasks_than_were_kept_are_not_all_of_them(self) -> None:
        text = render_summary(self.report(), with_(tasks=self.LINES[:1]))

        assert "## Tasks" not in text

    def test_the_categories_of_a_partial_report_are_called_partial(self) -> None:
        tasks = [TaskOutcomes(task_id="t", category=name, attempts=(RIGHT,)) for name in "ab"]
        note = PartialNote(status="running", missing=3)

        text = render_summary(
            build_report(a_contract(), AttemptPlan(), tasks, partial=note), CONTEXT
        )

        assert "Partial values with the tasks that they cover" in text


class TestSurfaces:
    def test_file_and_terminal_show_the_same_numbers(self) -> None:
        report, _ = rich_report("category_mean", k=1)

        file, terminal = render_summary(report, CONTEXT), render_terminal(report, CONTEXT)

        assert re.findall(r"\d+\.\d{4}", file) == re.findall(r"\d+\.\d{4}", terminal)

    def test_the_terminal_shows_fewer_series_of_a_category_and_says_so(self) -> None:
        report, _ = rich_report()

        assert "more series, see metrics.json" in flat(render_terminal(report, CONTEXT))
        assert "correct (all@2)" not in render_terminal(report, CONTEXT)

    def test_the_terminal_lists_fewer_tasks_and_says_so(self) -> None:
        unscored = tuple(
            TaskLine(task_id=f"t{n}", state="unavailable", reason="r") for n in range(25)
        )

        text = render_terminal(report_of(RIGHT), with_(unscored=unscored))

        assert "And 5 more tasks" in text

    def test_markdown_cannot_be_injected_by_a_task_or_a_reason(self) -> None:
        evil = TaskLine(
            task_id="a|b`c\x1b[31m", state="unavailable", reason="<b> ![x](http://x) | *y* `z`"
        )

        (row,) = lines_with(render_summary(report_of(RIGHT), with_(unscored=(evil,))), "a\\|b")

        assert row.startswith("| `a\\|b'c\N{REPLACEMENT CHARACTER}[31m` |")
        assert row.endswith("| &lt;b> !\\[x\\](http://x) \\| \\*y\\* \\`z\\` |")

    def test_no_control_character_reaches_the_terminal(self) -> None:
        evil = TaskLine(task_id="a\x1b]0;t\x07\u202e", state="unavailable", reason="\r\x1b[2J")

        text = render_terminal(report_of(RIGHT), with_("\x1b[2J", unscored=(evil,)))

        assert all(char.isprintable() or char == "\n" for char in text)

    def test_columns_stay_aligned_under_wide_characters(self) -> None:
        tasks = [
            TaskOutcomes(task_id=name, category=name, attempts=(RIGHT,))
            for name in ("数学", "e\u0301")
        ]

        text = render_terminal(build_report(a_contract(), AttemptPlan(), tasks), CONTEXT)

        wide, narrow = lines_with(text, "数学")[0], lines_with(text, "e\u0301")[0]
        assert len(wide) + 2 == len(narrow) - 1

    def test_a_long_reason_is_cut_on_the_terminal_only(self) -> None:
        long = TaskLine(task_id="t", state="unavailable", reason="x" * 300)

        assert "x" * 300 in render_summary(report_of(RIGHT), with_(unscored=(long,)))
        assert "x" * 119 + "…" in render_terminal(report_of(RIGHT), with_(unscored=(long,)))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.5, "0.5000"),
        (-0.0, "0.0000"),
        (123456.0, "123456.0000"),
        (2.5e9, "2.5e+09"),
        (1e-5, "1e-05"),
    ],
)
def test_a_scalar_is_readable_at_any_size(value: float, shown: str) -> None:
    report = report_of(an_outcome(score=value), contract=a_contract("scalar"))

    assert f"Score (native@1):** {shown} (official" in render_summary(report, CONTEXT)


def test_declared_unit_and_digits_are_used() -> None:
    contract = a_contract("scalar")
    spec = contract.metrics[0]
    display = spec.display.model_copy(update={"unit": "points", "precision": 1})
    contract = contract.model_copy(
        update={"metrics": (spec.model_copy(update={"display": display}),)}
    )

    text = render_summary(report_of(an_outcome(score=7.25), contract=contract), CONTEXT)

    assert "7.2 points (official" in text


def test_a_reason_made_of_an_issue_is_readable() -> None:
    text = render_summary(report_of(an_outcome(an_issue(code="run_timeout"))), CONTEXT)

    assert "`run_timeout` | run | error | agent | 1 | 1 |" in text
