from __future__ import annotations

import fcntl
from datetime import timedelta
from pathlib import Path

import pytest

from agentcompass.coordinator.control import cancel, pause
from agentcompass.coordinator.planning.start import EMBEDDED
from agentcompass.coordinator.resuming.resume import Resumable, Wish, examine, go_on
from agentcompass.coordinator.status import Status, status
from agentcompass.errors import RecordCorrupt, RunNotFound
from agentcompass.store import attempts, control
from agentcompass.store.overview import overview
from tests.builders import T0, a_result, an_issue
from tests.support import golden_runs as theirs
from tests.support.store_runs import a_reserved_run, execute, reduce, write_report
from tests.unit.coordinator.conftest import RunMaker
from tests.unit.coordinator.test_resume import no_plan

LATER = T0 + timedelta(seconds=100)


def of(run_dir: Path) -> Status:
    return status(run_dir, LATER, sleep=lambda _seconds: None)


class TestOurs:
    def test_a_half_done_run_shows_a_provisional_value_with_what_it_covers(
        self, make_run: RunMaker
    ) -> None:
        run_dir = make_run("a", "b", "c", "d").address.run_dir
        execute(run_dir, "a")
        execute(run_dir, "b", 1, a_result("b", issues=[an_issue()], metrics={}))

        got = of(run_dir)

        assert (got.state, got.done, got.total, got.failed_tasks) == ("running", 2, 4, 1)
        assert got.report is not None
        assert (got.report.headline.value, got.report.headline.counts.evaluated) == (1.0, 1)
        assert got.report.extra["partial"] == {"status": "running", "missing": 2}

    def test_it_agrees_with_a_recomputation_at_that_instant(self, make_run: RunMaker) -> None:
        run_dir = make_run("a", "b", k=2).address.run_dir
        for attempt in (1, 2):
            execute(run_dir, "a", attempt)

        got = of(run_dir).report

        assert got is not None
        assert got.series == reduce(run_dir).series

    def test_the_end_is_estimated_from_the_present_leg(self, make_run: RunMaker) -> None:
        run_dir = make_run("a", "b", "c", "d").address.run_dir
        execute(run_dir, "a")
        assert of(run_dir).eta_s == 300

        ready = examine(run_dir, Wish(), plan=_no_plan, now=lambda: T0)  # type: ignore[arg-type]
        go_on(ready, reason="", by="me", at=T0 + timedelta(seconds=60))
        assert of(run_dir).eta_s is None
        execute(run_dir, "b", 1, a_result("b", leg=2))
        assert of(run_dir).eta_s == 80

    def test_a_finished_run_is_not_provisional(self, make_run: RunMaker) -> None:
        run_dir = make_run("a").address.run_dir
        execute(run_dir, "a")
        write_report(run_dir)

        got = of(run_dir)

        assert (got.state, got.is_over, got.eta_s) == ("completed", True, None)
        assert got.report is not None
        assert "partial" not in got.report.extra

    def test_decisions_of_people_are_shown_with_their_reason(self, make_run: RunMaker) -> None:
        run_dir = make_run("a").address.run_dir

        pause(run_dir, reason="lunch", by="me", at=T0)
        assert (of(run_dir).state, of(run_dir).reason) == ("paused", "lunch")

        cancel(run_dir, reason="enough", by="me", at=T0)
        assert (of(run_dir).state, of(run_dir).reason) == ("cancelled", "enough")

    def test_what_cannot_be_read_is_named_and_left_out(self, make_run: RunMaker) -> None:
        run_dir = make_run("a", "b").address.run_dir
        execute(run_dir, "a")
        path = attempts.result_of(run_dir, "a", 1)
        assert path is not None
        path.write_bytes(b"{")

        got = of(run_dir)

        assert [broken for broken, _ in got.malformed] == [path]

    def test_looking_changes_nothing(self, make_run: RunMaker) -> None:
        run_dir = make_run("a").address.run_dir
        execute(run_dir, "a")
        before = {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}

        of(run_dir)

        assert before == {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}

    def test_a_run_that_is_not_sealed_is_being_planned(self, tmp_path: Path) -> None:
        assert of(a_reserved_run(tmp_path)).state == "planning"

    def test_an_empty_directory_never_started(self, tmp_path: Path) -> None:
        with pytest.raises(RunNotFound):
            of(tmp_path)


def _no_plan(request: object) -> object:
    raise AssertionError("planned a sealed run")


class TestAttendance:
    def started(self, make_run: RunMaker, broker: str) -> Path:
        run_dir = make_run("a").address.run_dir
        ready = examine(run_dir, Wish(), plan=_no_plan, now=lambda: T0)  # type: ignore[arg-type]
        go_on(ready, reason="", by="me", at=T0, broker=broker)
        return run_dir

    def test_an_embedded_run_without_its_coordinator_is_attended_by_nobody(
        self, make_run: RunMaker
    ) -> None:
        run_dir = self.started(make_run, EMBEDDED)
        assert of(run_dir).is_attended is False

        (run_dir / ".broker").write_text("left over")
        assert of(run_dir).is_attended is False

    def test_the_lock_on_its_broker_tells_that_it_lives(self, make_run: RunMaker) -> None:
        run_dir = self.started(make_run, EMBEDDED)

        with (run_dir / ".broker").open("wb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            assert of(run_dir).is_attended is True

    def test_of_a_broker_of_its_own_only_that_could_tell(self, make_run: RunMaker) -> None:
        assert of(self.started(make_run, "redis://host:6379")).is_attended is None


def test_the_broker_is_recorded_without_its_password(make_run: RunMaker) -> None:
    run_dir = TestAttendance().started(make_run, "redis://:hunter22@host:6379/0")

    (record,) = control.control_records(run_dir)
    assert "host:6379" in record.broker
    assert "hunter22" not in record.broker


class TestResultsThatWentAfterTheReport:
    """A report is there, and covers what is not there any more."""

    @pytest.fixture
    def run_dir(self, make_run: RunMaker) -> Path:
        run_dir = make_run("a", "b").address.run_dir
        execute(run_dir, "a")
        execute(run_dir, "b")
        write_report(run_dir)
        return run_dir

    def lost(self, run_dir: Path, content: bytes | None) -> None:
        path = attempts.result_of(run_dir, "a", 1)
        assert path is not None
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)

    @pytest.mark.parametrize("content", [None, b"", b'{"schema_version": "agentcompass.at'])
    def test_the_run_is_not_complete(self, run_dir: Path, content: bytes | None) -> None:
        self.lost(run_dir, content)

        got = of(run_dir)

        assert (got.state, got.done, got.is_complete) == ("running", 1, False)
        assert got.reason == "a result that its report covers is missing or malformed"

    def test_a_listing_does_not_call_it_completed(self, run_dir: Path) -> None:
        assert overview(run_dir).state == "completed"

        self.lost(run_dir, None)

        assert overview(run_dir).state == "running"

    def test_a_resume_runs_what_is_gone_and_names_what_is_torn(self, run_dir: Path) -> None:
        def look() -> Resumable:
            return examine(run_dir, Wish(), plan=no_plan, now=lambda: T0)

        assert not look().has_work
        self.lost(run_dir, b"{")
        with pytest.raises(RecordCorrupt, match=r"result\.json"):
            look()

        self.lost(run_dir, None)
        assert look().seen.left == 1


def test_another_writers_run_is_complete_only_if_its_attempts_are_over(tmp_path: Path) -> None:
    theirs.their_run_info(tmp_path, "a", "b")
    theirs.their_task(tmp_path / "details" / "normal", "a", theirs.their_result())
    assert (of(tmp_path).state, of(tmp_path).is_complete) == ("completed", False)

    theirs.their_task(tmp_path / "details" / "normal", "b", theirs.their_result())
    assert of(tmp_path).is_complete
