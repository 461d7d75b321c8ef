"""Field reports A01 to A26 and U12: their exact numbers, from results on disk to the report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentcompass.metrics.extras import partial_note, uncertainty
from agentcompass.metrics.per_task.rows import task_row
from agentcompass.metrics.per_task.tasks import TaskReducer
from agentcompass.metrics.text.summary import render_terminal
from agentcompass.models.metric import MetricContract, MetricReport, MetricSpec
from agentcompass.models.request import AttemptPlan
from agentcompass.models.result import AttemptOutcome
from agentcompass.runtime.finalize import Finalized, Wanted, finalize
from agentcompass.store import run_info, scan
from agentcompass.store.check import check_run
from agentcompass.store.report import load_report
from tests.builders import an_issue, an_outcome
from tests.support.measured import a_measured_run, both_readings, covers, ended, finalized
from tests.support.metrics import ERROR, FATAL, RIGHT, WRONG
from tests.support.store_runs import decide, execute

SETUP = an_outcome(an_issue("fatal", "setup", "setup_failed", "no image"))


def numbered(*outcomes: AttemptOutcome | None) -> dict[str, tuple[AttemptOutcome | None, ...]]:
    return {f"t{number}": (outcome,) for number, outcome in enumerate(outcomes)}


def lines_about(done: Finalized, run_dir: Path, number: str) -> Iterator[str]:
    """Yield every line with this number, on the terminal and in the file."""
    terminal = render_terminal(done.report, done.context)
    for text in (terminal, (run_dir / "summary.md").read_text(encoding="utf-8")):
        yield from (line for line in text.splitlines() if number in line)


def task_rows(run_dir: Path) -> dict[str, list[str]]:
    """Return task id -> cells of the table of tasks in `summary.md`."""
    text = (run_dir / "summary.md").read_text(encoding="utf-8")
    (table,) = [part for part in text.split("\n## ") if part.startswith("Tasks\n")]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if "| `" in line]
    return {cells[0].strip("`"): cells for cells in rows}


def strict(path: Path) -> object:
    return json.loads(path.read_bytes(), parse_constant=pytest.fail)


class TestDenominators:
    def test_a01_an_error_stays_in_the_denominator_and_beside_the_value(
        self, tmp_path: Path
    ) -> None:
        run_dir = a_measured_run(tmp_path, numbered(*[RIGHT] * 8, WRONG, ERROR))
        done = finalized(run_dir)

        headline = done.report.headline
        assert covers(headline.counts) == (10, 9, 1, 0, 1)
        assert headline.value == pytest.approx(8 / 9)
        assert both_readings(headline) == (0.8, 0.9)
        shown = list(lines_about(done, run_dir, "0.8889"))
        assert len(shown) >= 4
        assert all("9 of 10" in line or {"9", "10"} <= set(line.split()) for line in shown)

    def test_a02_what_the_details_say_is_what_the_metric_says(self, tmp_path: Path) -> None:
        scored_error = an_outcome(an_issue("error"), correct=True)
        done = finalized(a_measured_run(tmp_path, numbered(scored_error, WRONG)))

        assert (done.report.headline.value, done.report.headline.counts.error) == (0.5, 1)
        assert covers(done.report.headline.counts) == (2, 2, 0, 0, 1)

    def test_a03_a_lucky_survivor_is_no_score(self, tmp_path: Path) -> None:
        run_dir = a_measured_run(tmp_path, numbered(RIGHT, *[FATAL] * 19))
        done = finalized(run_dir)

        report = done.report
        assert report.evaluation_failed
        assert [series.value for series in report.series] == [None] * len(report.series)
        assert report.headline.reference_value == 1.0
        assert covers(report.headline.counts) == (20, 1, 0, 19, 19)
        assert done.info.status == "failed"
        said = [line for line in lines_about(done, run_dir, "1.0000") if "native@1):" in line]
        assert len(said) == 2
        assert all("1.0000 (reference, over 1 of 20 tasks)" in line for line in said)
        assert "official, " not in (run_dir / "summary.md").read_text(encoding="utf-8")

    def test_a09_a_failed_environment_is_no_zero(self, tmp_path: Path) -> None:
        outcomes = numbered(*[SETUP] * 34, *[RIGHT] * 4, *[WRONG] * 12)
        run_dir = a_measured_run(tmp_path, outcomes)
        done = finalized(run_dir)

        headline = done.report.headline
        assert (headline.value, headline.reference_value) == (None, 0.25)
        assert covers(headline.counts) == (50, 16, 0, 34, 34)
        assert all("0.7600" in line for line in lines_about(done, run_dir, "0.0800"))
        assert both_readings(headline) == (0.08, 0.76)

    def test_a09_a_grader_that_always_fails_gives_no_mean(self, tmp_path: Path) -> None:
        run_dir = a_measured_run(tmp_path, numbered(*[ERROR] * 5))
        done = finalized(run_dir)

        headline = done.report.headline
        assert (headline.value, headline.reference_value) == (None, None)
        assert covers(headline.counts) == (5, 0, 5, 0, 5)
        assert "evaluator" in (run_dir / "summary.md").read_text(encoding="utf-8")

    def test_a10_every_counter_is_about_the_frozen_list(self, tmp_path: Path) -> None:
        scored_error = an_outcome(an_issue("error"), correct=False)
        outcomes = numbered(RIGHT, RIGHT, WRONG, scored_error, ERROR)
        quality = MetricSpec(metric_id="quality", kind="scalar")
        contract = MetricContract(
            metrics=(MetricSpec(metric_id="correct", kind="binary_success", primary=True), quality)
        )
        report = finalized(a_measured_run(tmp_path, outcomes, metric_contract=contract)).report

        correct, quality_series = report.series
        assert covers(correct.counts) == (5, 4, 1, 0, 2)
        assert covers(quality_series.counts) == (5, 0, 5, 0, 2)
        assert correct.value == 0.5

    def test_a19_an_unreadable_answer_keeps_the_total_and_its_reason(self, tmp_path: Path) -> None:
        unread = an_outcome(an_issue("error", "evaluate", "parse_failed", "no JSON in the answer"))
        run_dir = a_measured_run(tmp_path, numbered(RIGHT, unread, WRONG))
        done = finalized(run_dir)

        assert covers(done.report.headline.counts) == (3, 2, 1, 0, 1)
        assert "parse_failed: no JSON in the answer" in task_rows(run_dir)["t1"][-2].replace(
            "\\", ""
        )


class TestSeveralAttempts:
    def test_a04_fewer_attempts_than_k_are_no_verdict(self, tmp_path: Path) -> None:
        run_dir = a_measured_run(tmp_path, {"t": (WRONG, WRONG, WRONG, None), "u": (WRONG,) * 4})
        decide(run_dir, "cancel", ("t", 4))
        report = finalized(run_dir).report

        series = {each.series_id: each for each in report.series}
        assert covers(series["correct.pass@4"].counts) == (2, 1, 1, 0, 0)
        assert series["correct.pass@4"].value == 0.0
        assert both_readings(series["correct.pass@4"]) == (0.0, 0.5)

    def test_a05_no_series_draws_more_attempts_than_were_planned(self, tmp_path: Path) -> None:
        contract = MetricContract(
            metrics=(
                MetricSpec(
                    metric_id="correct",
                    kind="binary_success",
                    primary=True,
                    reducers=("native", "avg", "pass", "pass@j"),
                ),
            )
        )
        outcomes = numbered(*[RIGHT] * 50, *[WRONG] * 114)

        report = finalized(a_measured_run(tmp_path, outcomes, metric_contract=contract)).report

        assert [series.series_id for series in report.series] == ["correct.native@1"]
        assert round(report.headline.value or 0, 4) == 0.3049

    def test_a05_the_value_of_k_attempts_is_the_mean_over_tasks(self, tmp_path: Path) -> None:
        solved = {"a": 0, "b": 1, "c": 3, "d": 4}
        outcomes = {
            task: tuple(RIGHT if n < count else WRONG for n in range(4))
            for task, count in solved.items()
        }
        series = {
            each.series_id: each.value
            for each in finalized(a_measured_run(tmp_path, outcomes)).report.series
        }

        assert series == {"correct.avg@4": 0.5, "correct.pass@4": 0.75}

    def test_a08_each_reading_of_k_has_its_name_and_its_number(self, tmp_path: Path) -> None:
        reducers = ("avg", "pass", "all", "pass@2", "all@2")
        spec = MetricSpec(
            metric_id="correct", kind="binary_success", primary=True, reducers=reducers
        )
        run_dir = a_measured_run(
            tmp_path,
            {"t": (RIGHT, WRONG, WRONG, WRONG)},
            metric_contract=MetricContract(metrics=(spec,)),
        )
        finalized(run_dir)

        said = {
            (each["reducer"], each["k"]): each["value"]
            for each in json.loads((run_dir / "metrics.json").read_bytes())["series"]
        }
        assert said == {
            ("avg", 4): 0.25,
            ("pass", 4): 1.0,
            ("all", 4): 0.0,
            ("pass", 2): 0.5,
            ("all", 2): 0.0,
        }

    def test_u12_every_attempt_has_a_value_or_none_and_a_place(self, tmp_path: Path) -> None:
        outcomes = {
            "T1": (RIGHT, RIGHT, RIGHT),
            "T2": (RIGHT, WRONG, None),
            "T3": (ERROR, RIGHT, RIGHT),
        }
        run_dir = a_measured_run(tmp_path, outcomes)
        decide(run_dir, "cancel", ("T2", 3))
        done = finalized(run_dir)

        rows = task_rows(run_dir)
        assert {task: cells[2] for task, cells in rows.items()} == {
            "T1": "1, 1, 1",
            "T2": "1, 0, –",
            "T3": "error, 1, 1",
        }
        places = [run_dir / cells[-1].strip("`") for cells in rows.values()]
        assert all((place / "attempt-1" / "result.json").is_file() for place in places)
        assert (done.report.series[0].value, done.report.series[1].value) == (1.0, 1.0)

    def test_u12_the_series_follow_from_the_table(self, tmp_path: Path) -> None:
        outcomes = {"T1": (RIGHT,) * 3, "T2": (RIGHT, WRONG, WRONG), "T3": (ERROR, RIGHT, WRONG)}
        run_dir = a_measured_run(tmp_path, outcomes)
        report, info = finalized(run_dir).report, run_info.load(run_dir)
        assert info.metric_contract is not None
        reducer = TaskReducer(info.metric_contract, AttemptPlan(k=3))

        rows = [task_row(reducer, task) for task in scan.outcomes(run_dir, info)]

        for series in report.series:
            values = [row.values[series.series_id] for row in rows]
            known = [value for value in values if value is not None]
            assert series.value == pytest.approx(sum(known) / len(known))
            assert series.counts.evaluated == len(known)


class TestUndefined:
    def test_a12_one_task_has_no_spread(self, tmp_path: Path) -> None:
        run_dir = a_measured_run(tmp_path, numbered(RIGHT))
        headline = finalized(run_dir).report.headline

        found = uncertainty(headline)
        assert found is not None
        assert (headline.value, found.stderr) == (1.0, None)
        strict(run_dir / "metrics.json")

    def test_a12_without_any_value_there_is_still_a_report(self, tmp_path: Path) -> None:
        run_dir = a_measured_run(tmp_path, numbered(ERROR, an_outcome()))
        headline = finalized(run_dir).report.headline

        found = uncertainty(headline)
        assert found is not None
        assert (headline.value, found.stderr, found.ci95) == (None, None, None)
        strict(run_dir / "metrics.json")


class TestPartial:
    def test_a23_a_cancelled_run_has_a_report_that_says_so(self, tmp_path: Path) -> None:
        run_dir = a_measured_run(tmp_path, numbered(*[RIGHT] * 6, *[None] * 4))
        decide(run_dir, "cancel")

        done = finalized(run_dir)

        assert done.info.status == "cancelled"
        assert covers(done.report.headline.counts) == (10, 6, 4, 0, 0)
        note = partial_note(done.report)
        assert note is not None
        assert (note.status, note.missing) == ("cancelled", 4)
        text = render_terminal(done.report, done.context)
        assert "1.0000 (partial, over 6 of 10 tasks)" in text
        assert "official" not in text

    @pytest.mark.parametrize("decision", ["interrupt", "pause", None])
    def test_a_run_that_is_not_over_can_be_reported_and_is_marked(
        self, tmp_path: Path, decision: str | None
    ) -> None:
        run_dir = a_measured_run(tmp_path, numbered(RIGHT, None))
        if decision is not None:
            decide(run_dir, decision)  # type: ignore[arg-type]

        done = finalize(run_dir, wanted=Wanted(may_be_partial=True))

        assert isinstance(done, Finalized)
        states = {"interrupt": "interrupted", "pause": "paused", None: "running"}
        note = partial_note(done.report)
        assert note is not None
        assert (note.status, note.missing) == (states[decision], 1)
        assert load_report(run_dir) == done.report
        assert check_run(run_dir) == []


def test_a22_the_order_in_which_results_come_changes_no_byte(tmp_path: Path) -> None:
    outcomes = numbered(RIGHT, ERROR, WRONG)
    reports: list[MetricReport] = []
    for name, order in (("one", outcomes), ("other", dict(reversed(outcomes.items())))):
        run_dir = a_measured_run(tmp_path / name, dict.fromkeys(outcomes, (None,)))
        for task_id, attempts in order.items():
            assert attempts[0] is not None
            execute(run_dir, task_id, 1, ended(task_id, 1, attempts[0]))
        reports.append(finalized(run_dir).report)

    assert reports[0] == reports[1]
