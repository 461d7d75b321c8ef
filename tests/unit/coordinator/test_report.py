"""`report` over runs of ours and of other writers."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agentcompass.coordinator.control import cancel, refs_of
from agentcompass.coordinator.report import complete, read, report
from agentcompass.coordinator.status import status
from agentcompass.errors import RunIncomplete, RunNotSealed, UsageError
from agentcompass.models.request import ComponentSpec
from agentcompass.store import attempts, sealed
from agentcompass.store.report import Override
from tests.builders import T0, a_result, an_issue
from tests.support.golden_runs import ISSUE, their_result, their_run_info, their_task
from tests.support.store_runs import a_reserved_run, execute
from tests.unit.coordinator.conftest import RunMaker


class TestOurs:
    def test_a_complete_run_is_finalized(self, make_run: RunMaker) -> None:
        run_dir = make_run("a").address.run_dir
        execute(run_dir, "a")

        got = report(run_dir)

        assert (got.state, got.exit_code, got.is_over) == ("completed", 0, True)
        assert sealed.load(run_dir).status == "completed"

    @pytest.mark.parametrize("severity", ["error", "fatal"])
    def test_errors_and_withheld_values_show_in_the_exit_code(
        self, make_run: RunMaker, severity: str
    ) -> None:
        run_dir = make_run("a").address.run_dir
        issue = an_issue(severity)  # type: ignore[arg-type]
        execute(run_dir, "a", 1, a_result("a", issues=[issue], metrics={}))

        assert report(run_dir).exit_code == 1

    def test_a_task_without_a_value_is_a_line_with_its_reason(self, make_run: RunMaker) -> None:
        run_dir = make_run("a", "b").address.run_dir
        execute(run_dir, "a")
        cancel(run_dir, attempts=refs_of(run_dir, "b", 1), reason="", by="me", at=T0)

        got = report(run_dir)

        assert got.exit_code == 1
        assert "attempt 1 has no result" in got.text

    def test_reading_writes_no_report(self, make_run: RunMaker) -> None:
        run_dir = make_run("a").address.run_dir

        assert read(run_dir).exit_code == 3
        assert not (run_dir / "metrics.json").exists()

    def test_reading_a_finished_run_shows_what_was_written_and_opens_no_result(
        self, make_run: RunMaker
    ) -> None:
        run_dir = make_run("a", "b").address.run_dir
        execute(run_dir, "a")
        issue = an_issue("error", "evaluate", "evaluate_failed")
        execute(run_dir, "b", 1, a_result("b", issues=[issue], metrics={}))
        done = report(run_dir)
        for task_id in "ab":
            path = attempts.result_of(run_dir, task_id, 1)
            assert path is not None
            path.write_text("not read")

        assert read(run_dir).text == done.text
        assert "evaluate_failed" in done.text

    def test_a_report_of_which_the_summary_is_lost_is_shown_all_the_same(
        self, make_run: RunMaker
    ) -> None:
        run_dir = make_run("a").address.run_dir
        execute(run_dir, "a")
        done = report(run_dir, override=Override("category_mean"))
        (run_dir / ".summary.json").unlink()

        assert read(run_dir).report == done.report
        assert read(run_dir).text == done.text

    def test_an_incomplete_run_cannot_be_completed(self, make_run: RunMaker) -> None:
        run_dir = make_run("a", "b").address.run_dir
        execute(run_dir, "a")

        with pytest.raises(RunIncomplete, match="1 of 2 attempts"):
            complete(run_dir)

    def test_before_the_seal_there_is_nothing_to_report(self, tmp_path: Path) -> None:
        with pytest.raises(RunNotSealed):
            report(a_reserved_run(tmp_path))

    def test_the_result_of_a_task_that_was_moved_meanwhile_is_found(
        self, make_run: RunMaker
    ) -> None:
        run_dir = make_run("a").address.run_dir
        execute(run_dir, "a")
        report(run_dir)
        found = attempts.find_task(run_dir, "a")

        assert found is not None
        assert read(run_dir).report.headline.value == 1.0


class TestOtherWriters:
    @pytest.fixture
    def theirs(self, tmp_path: Path) -> Path:
        run_dir = tmp_path / "theirs"
        their_run_info(run_dir, "a", "b", "c")
        their_task(run_dir / "details" / "normal", "a", their_result(correct=True))
        their_task(
            run_dir / "details" / "error", "b", their_result(status="run_error", issues=[ISSUE])
        )
        return run_dir

    def test_their_report_covers_what_they_planned_and_left(self, theirs: Path) -> None:
        got = report(theirs)

        counts = got.report.headline.counts
        assert (counts.total, counts.evaluated, counts.error) == (3, 1, 1)
        assert (got.is_over, got.exit_code) == (False, 3)
        assert "no frozen task list" in got.text

    def test_analyzers_look_at_their_attempts_and_nothing_is_written(self, theirs: Path) -> None:
        before = sorted(theirs.rglob("*"))

        got = report(theirs, analyzers=[ComponentSpec(id="tokens")])

        assert got.analysis is not None
        tokens = got.analysis.analyzers["tokens"]
        assert (tokens.attempts, got.analysis.missing) == (2, 1)
        assert "tokens" in got.text
        assert sorted(theirs.rglob("*")) == before

    def test_their_report_can_be_by_another_formula_and_is_written_nowhere(
        self, theirs: Path
    ) -> None:
        got = report(theirs, override=Override("category_mean"))

        assert got.report.aggregation == "category_mean"
        assert not (theirs / "metrics.json").exists()

    def test_a_tree_that_they_do_not_hold_has_to_be_given(self, theirs: Path) -> None:
        metrics = {"metric_id": "correct", "kind": "binary_success", "role": "headline"}
        content = {"aggregation": "category_hierarchy", "series": [metrics]}
        (theirs / "metrics.json").write_text(json.dumps(content))
        tree = {"type": "unweighted", "children": ["x", "__uncategorized__"]}

        with pytest.raises(UsageError, match="no category hierarchy of its own"):
            report(theirs)
        got = report(theirs, override=Override("category_hierarchy", tree))  # type: ignore[arg-type]

        assert got.report.headline.value == 1.0
        assert set(got.report.headline.hierarchy) == {
            *("overall", "overall/x", "overall/__uncategorized__"),
        }

    def test_their_status_is_read_and_nothing_of_theirs_is_touched(self, theirs: Path) -> None:
        before = {path: path.read_bytes() for path in theirs.rglob("*") if path.is_file()}

        got = status(theirs, datetime.now(UTC))
        report(theirs)

        assert (got.state, got.done, got.total, got.failed_tasks) == ("completed", 2, 3, 1)
        assert before == {path: path.read_bytes() for path in theirs.rglob("*") if path.is_file()}
