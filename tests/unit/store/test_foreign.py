"""Runs of other writers give the same shapes as ours, and are never touched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentcompass.errors import FormatUnknown, RecordCorrupt, RunNotFound
from agentcompass.metrics.report import build_report
from agentcompass.models.metric import MetricReport
from agentcompass.store.foreign import (
    ForeignRun,
    MixedLayouts,
    foreign_outcomes,
    foreign_scan,
    is_foreign,
    open_foreign,
)
from tests.support import golden_runs as theirs
from tests.support.store_runs import a_run

FOREIGN_RUNS = os.environ.get("AGENTCOMPASS_FOREIGN_RUNS", "")


def report_of(run: ForeignRun) -> MetricReport:
    return build_report(
        run.contract, run.attempts, foreign_outcomes(run), aggregation=run.aggregation
    )


def attempts_of(run: ForeignRun) -> dict[str, list[str]]:
    """Return each task's attempts as `right`, `wrong`, `failed`, `skipped` or `missing`."""

    def word(outcome: object) -> str:
        if outcome is None:
            return "missing"
        metrics, issues = outcome.metrics, outcome.issues  # type: ignore[attr-defined]
        if outcome.skipped:  # type: ignore[attr-defined]
            return "skipped"
        return "failed" if issues else "right" if metrics.get("correct") else "wrong"

    return {task.task_id: [word(each) for each in task.attempts] for task in foreign_outcomes(run)}


RIGHT = theirs.their_result(correct=True, tokens=10.0)
WRONG = theirs.their_result(correct=False, tokens=20.0)
FAILED = theirs.their_result(status="run_error", issues=[theirs.ISSUE])


class TestStateFolders:
    def test_a_finished_run_reduces_to_its_numbers(self, tmp_path: Path) -> None:
        theirs.their_run_info(tmp_path, "a/1", "b", "c")
        normal, error = tmp_path / "details" / "normal", tmp_path / "details" / "error"
        theirs.their_task(normal, "b", WRONG, category=None)
        theirs.their_task(normal, "a/1", RIGHT)
        theirs.their_task(error, "c", FAILED)
        metrics = ("correct", "binary_success", "headline"), ("tokens", "scalar", "auxiliary")
        theirs.their_metrics(tmp_path, *metrics)

        run = open_foreign(tmp_path)

        assert (run.benchmark_id, run.harness_id, run.model_id) == (
            "toy",
            "toy_harness",
            "org/model",
        )
        assert (run.run_id, run.status, run.schema) == (
            "theirs",
            "completed",
            "agentcompass.run_info.v3",
        )
        assert run.started_at is not None
        assert run.finished_at is not None
        assert [task.task_id for task in run.tasks] == ["a/1", "b", "c"]
        assert attempts_of(run) == {"a/1": ["right"], "b": ["wrong"], "c": ["failed"]}
        report = report_of(run)
        assert report.headline.value == 0.5
        assert report.headline.counts.error == 1
        assert [series.metric_id for series in report.series] == ["correct", "tokens"]

    def test_what_was_planned_and_never_begun_is_in_the_denominator(self, tmp_path: Path) -> None:
        theirs.their_run_info(tmp_path, "a", "b", k=2, status=None)
        running = tmp_path / "details" / "running"
        theirs.their_task(running, "a", RIGHT, None, k=2)
        theirs.their_task(running, "unplanned", None, k=2)

        run = open_foreign(tmp_path)

        assert (run.status, run.finished_at) == ("", None)
        assert attempts_of(run) == {
            "a": ["right", "missing"],
            "b": ["missing", "missing"],
            "unplanned": ["missing", "missing"],
        }
        assert report_of(run).headline.counts.total == 3

    def test_early_stops_of_strategy_pass_are_complete(self, tmp_path: Path) -> None:
        theirs.their_run_info(tmp_path, k=3, strategy="pass")
        normal = tmp_path / "details" / "normal"
        theirs.their_task(normal, "first", RIGHT, k=3)
        theirs.their_task(normal, "second", WRONG, RIGHT, k=3)
        theirs.their_task(normal, "never", WRONG, WRONG, WRONG, k=3)
        theirs.their_task(normal, "stopped", WRONG, k=3)
        gap = theirs.their_task(normal, "gap", None, RIGHT, k=3)
        assert gap.is_dir()

        assert attempts_of(open_foreign(tmp_path)) == {
            "first": ["right", "skipped", "skipped"],
            "second": ["wrong", "right", "skipped"],
            "never": ["wrong", "wrong", "wrong"],
            "stopped": ["wrong", "missing", "missing"],
            "gap": ["missing", "right", "missing"],
        }

    def test_what_was_stopped_is_missing(self, tmp_path: Path) -> None:
        theirs.their_run_info(tmp_path, status="cancelled")
        running = tmp_path / "details" / "running"
        theirs.their_task(running, "a", theirs.their_result(status="cancelled"))
        theirs.their_task(running, "b", theirs.their_result(status="interrupted"))

        assert attempts_of(open_foreign(tmp_path)) == {"a": ["missing"], "b": ["missing"]}

    def test_a_scan_has_the_shape_of_ours(self, tmp_path: Path) -> None:
        theirs.their_run_info(tmp_path, "a", "b", k=2)
        theirs.their_task(tmp_path / "details" / "running", "a", RIGHT, None, k=2)

        found = foreign_scan(open_foreign(tmp_path))

        assert found.published == 1
        assert found.is_published("a", 1)
        assert found.has_checkpoint("a", 2)
        assert found.get("b") is None


class TestContracts:
    def test_truth_values_are_binary_and_numbers_scalar(self, tmp_path: Path) -> None:
        theirs.their_run_info(tmp_path)
        theirs.their_task(tmp_path / "details" / "running", "a", RIGHT)

        metrics = open_foreign(tmp_path).contract.metrics

        assert [(each.metric_id, each.kind, each.primary) for each in metrics] == [
            ("correct", "binary_success", True),
            ("tokens", "scalar", False),
        ]

    def test_a_score_is_primary_where_nothing_is_correct(self, tmp_path: Path) -> None:
        theirs.their_run_info(tmp_path)
        result = theirs.their_result(score=1, other=True)
        theirs.their_task(tmp_path / "details" / "normal", "a", result)

        assert open_foreign(tmp_path).contract.primary.metric_id == "score"

    def test_a_metric_that_is_once_a_number_is_scalar(self, tmp_path: Path) -> None:
        theirs.their_run_info(tmp_path)
        normal = tmp_path / "details" / "normal"
        theirs.their_task(normal, "a", theirs.their_result(correct=True, other=0.5))
        theirs.their_task(normal, "b", theirs.their_result(correct=True, other=True))

        other = open_foreign(tmp_path).contract.get("other")
        assert other is not None
        assert other.kind == "scalar"

    def test_without_any_observation_nobody_was_correct(self, tmp_path: Path) -> None:
        theirs.their_run_info(tmp_path, "a")

        report = report_of(open_foreign(tmp_path))

        assert (report.headline.metric_id, report.headline.value) == ("correct", None)

    @pytest.mark.parametrize(
        "series", [[], ["text"], [{"metric_id": "x y", "kind": "scalar", "role": "headline"}]]
    )
    def test_a_report_that_names_no_metrics_is_refused(
        self, series: list[object], tmp_path: Path
    ) -> None:
        theirs.their_run_info(tmp_path)
        theirs.write(tmp_path / "metrics.json", {"series": series})

        with pytest.raises(RecordCorrupt, match=r"metrics\.json"):
            open_foreign(tmp_path)


class TestOlderLayouts:
    def test_a_flat_run_without_issues_is_read(self, tmp_path: Path) -> None:
        theirs.their_run_info(tmp_path, "ok", "bad", schema="agentcompass.run_info.v2")
        details = tmp_path / "details"
        theirs.their_task(details, "ok", theirs.their_result(issues=None, error="", correct=True))
        failed = theirs.their_result(
            status="run_error", issues=None, error="boom\nmore", correct=True
        )
        theirs.their_task(details, "bad", failed)

        run = open_foreign(tmp_path)

        assert attempts_of(run) == {"ok": ["right"], "bad": ["failed"]}
        assert report_of(run).headline.counts.error == 1
        assert foreign_scan(run).published == 2

    def test_the_oldest_layout_is_read(self, tmp_path: Path) -> None:
        theirs.their_run_info(tmp_path, schema="agentcompass.run_info.v1", k=2)
        theirs.detail_file(tmp_path, "a", "a", {"correct": True}, {"correct": False}, k=2)
        theirs.detail_file(tmp_path, "_error_b", "b", {"error": "boom"}, {"correct": True}, k=2)

        run = open_foreign(tmp_path)

        assert attempts_of(run) == {"a": ["right", "wrong"], "b": ["failed", "right"]}
        assert [task.state for task in run.tasks] == ["error", "normal"]
        assert foreign_scan(run).is_published("b", 1)

    def test_a_normal_record_goes_before_an_error_and_one_with_category_first(
        self, tmp_path: Path
    ) -> None:
        theirs.their_run_info(tmp_path)
        theirs.detail_file(tmp_path, "_error_a", "a", {"error": "boom"}, category="x")
        theirs.detail_file(tmp_path, "a", "a", {"correct": False}, category="x")
        theirs.detail_file(tmp_path, "a_x", "a", {"correct": True}, category="x")

        assert attempts_of(open_foreign(tmp_path)) == {"a": ["right"]}

    @pytest.mark.parametrize(("tried", "strategy"), [(1, "pass"), (2, "avg")])
    def test_a_plan_that_nobody_wrote_down_follows_from_what_was_tried(
        self, tried: int, strategy: str, tmp_path: Path
    ) -> None:
        theirs.write(tmp_path / "run_info.json", {"request": {"benchmark": "toy"}})
        theirs.detail_file(tmp_path, "a", "a", *[{"correct": True}] * tried, k=2)

        run = open_foreign(tmp_path)

        assert (run.attempts.k, run.attempts.strategy) == (2, strategy)
        assert (run.schema, run.benchmark_id, run.harness_id) == ("", "toy", "none")

    def test_only_observations_of_an_attempt_are_taken(self, tmp_path: Path) -> None:
        theirs.their_run_info(tmp_path, k=2)
        odd = {"correct": None, "score": 0.5, "metrics": {"n": 3, "name": "x"}, "status": "ok"}
        theirs.detail_file(tmp_path, "a", "a", odd, k=2)

        (task,) = foreign_outcomes(open_foreign(tmp_path))

        assert task.attempts[0] is not None
        assert task.attempts[0].metrics == {"score": 0.5, "n": 3}
        assert task.attempts[1] is None


class TestRefusals:
    def test_ours_are_not_foreign(self, tmp_path: Path) -> None:
        assert not is_foreign(a_run(tmp_path))
        theirs.their_run_info(tmp_path)
        assert is_foreign(tmp_path)

    def test_where_there_is_no_run_there_is_none(self, tmp_path: Path) -> None:
        with pytest.raises(RunNotFound):
            open_foreign(tmp_path)

    def test_a_newer_format_is_refused_by_name(self, tmp_path: Path) -> None:
        theirs.their_run_info(tmp_path, schema="agentcompass.run_info.v4")

        with pytest.raises(FormatUnknown, match=r"run_info\.v4"):
            open_foreign(tmp_path)

    def test_every_malformed_task_is_listed(self, tmp_path: Path) -> None:
        theirs.their_run_info(tmp_path)
        normal = tmp_path / "details" / "normal"
        (theirs.their_task(normal, "a", RIGHT) / "task.json").write_text("{")
        (theirs.their_task(normal, "b", RIGHT) / "task.json").unlink()
        theirs.write(theirs.their_task(normal, "c", RIGHT) / "task.json", {"task_id": 1})

        with pytest.raises(RecordCorrupt) as caught:
            open_foreign(tmp_path)
        assert len(caught.value.problems) == 3

    def test_a_directory_that_mixes_layouts_is_refused_with_the_reason(
        self, tmp_path: Path
    ) -> None:
        theirs.their_run_info(tmp_path)
        theirs.their_task(tmp_path / "details" / "normal", "a", RIGHT)
        theirs.detail_file(tmp_path, "d", "d", {"correct": True})

        with pytest.raises(MixedLayouts, match="state folders and one file per task"):
            open_foreign(tmp_path)

    def test_a_torn_result_is_named(self, tmp_path: Path) -> None:
        theirs.their_run_info(tmp_path)
        theirs.their_metrics(tmp_path, ("correct", "binary_success", "headline"))
        task = theirs.their_task(tmp_path / "details" / "normal", "a", RIGHT)
        (task / "attempt-1" / "result.json").write_text('{"status": "comp')

        run = open_foreign(tmp_path)
        with pytest.raises(RecordCorrupt, match="attempt-1"):
            list(foreign_outcomes(run))

    def test_a_torn_result_stops_a_scan_too(self, tmp_path: Path) -> None:
        theirs.their_run_info(tmp_path, "a")
        task = theirs.their_task(tmp_path / "details" / "normal", "a", RIGHT)
        (task / "attempt-1" / "result.json").write_text("{")

        run = open_foreign(tmp_path)
        with pytest.raises(RecordCorrupt, match="attempt-1"):
            foreign_scan(run)

    def test_a_record_that_names_no_task_is_named(self, tmp_path: Path) -> None:
        theirs.their_run_info(tmp_path, schema=None)
        theirs.detail_file(tmp_path, "a", None, {"correct": True})

        with pytest.raises(RecordCorrupt, match="needs task_id and attempts"):
            open_foreign(tmp_path)

    def test_a_plan_that_is_none_is_named(self, tmp_path: Path) -> None:
        theirs.their_run_info(tmp_path, k=0)

        with pytest.raises(RecordCorrupt, match=r"execution\.attempts: k"):
            open_foreign(tmp_path)


@pytest.mark.skipif(not FOREIGN_RUNS, reason="AGENTCOMPASS_FOREIGN_RUNS names no directory")
def test_real_runs_of_other_writers_reduce_to_what_they_say() -> None:
    for path in sorted(Path(FOREIGN_RUNS).rglob("run_info.json")):
        before = {each: each.stat().st_mtime_ns for each in path.parent.rglob("*")}
        run = open_foreign(path.parent)
        report = report_of(run)
        metrics = path.parent / "metrics.json"
        if metrics.exists():
            said = MetricReport.model_validate_json(metrics.read_bytes())
            assert [
                (each.series_id, each.value, each.reference_value, each.counts)
                for each in said.series
            ] == [
                (each.series_id, each.value, each.reference_value, each.counts)
                for each in report.series
            ]
        assert before == {each: each.stat().st_mtime_ns for each in path.parent.rglob("*")}
