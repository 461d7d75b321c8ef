"""Reports are written and read by several at once, on machines that see each other's files late."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcompass.coordinator.report import report
from agentcompass.coordinator.status import status
from agentcompass.runtime.finalize import Finalized, Wanted, finalize
from agentcompass.store import (
    attempts,
    disk,
    filing,
    records,
    run_info,
)
from agentcompass.store import report as report_files
from agentcompass.store.check import check_run
from agentcompass.store.report import Override, expected_of, load_covered, load_written
from tests.builders import T0
from tests.fault.others import Killed, Other, die, of
from tests.support.store_runs import decide


class TestTwoFormulas:
    TREE = Override(
        "category_hierarchy",
        {"type": "weighted", "weights": {"x": 1, "y": 3}, "children": ["x", "y"]},
    )

    @pytest.fixture(params=[Override("category_mean"), TREE], ids=["mean", "tree"])
    def override(self, request: pytest.FixtureRequest) -> Override:
        assert isinstance(request.param, Override)
        return request.param

    def write(self, run_dir: Path, override: Override | None) -> None:
        finalize(run_dir, wanted=Wanted(override, is_anew=True, may_be_partial=True))

    def write_half(self, run_dir: Path, override: Override) -> None:
        """Write the metrics and go, as a process that is killed then."""
        with pytest.MonkeyPatch.context() as patch:
            Other(patch).moves(die, report_files, "replace_if_other", of("summary.md"))
            with pytest.raises(Killed):
                self.write(run_dir, override)

    def test_a_report_that_is_overtaken_is_made_again(
        self, measured: Path, other: Other, override: Override
    ) -> None:
        # Both metrics before both notes: ours is the last, and speaks of what is not there any more.
        other.moves(
            lambda: self.write(measured, override),
            report_files,
            "replace_if_other",
            of("summary.md"),
        )

        made = report(measured)

        assert (made.is_over, made.exit_code) == (True, 0)
        assert load_covered(measured) is not None
        assert check_run(measured) == []

    def test_half_of_a_report_is_nobodys_fault(self, measured: Path, override: Override) -> None:
        self.write_half(measured, override)

        assert check_run(measured) == []
        assert run_info.refresh(measured).status == "running"
        assert report(measured).is_over

    def test_a_run_that_is_looked_at_meanwhile_has_not_failed(
        self, measured: Path, other: Other, override: Override
    ) -> None:
        other.moves(lambda: self.write_half(measured, override), report_files, "load_report")

        run_info.refresh(measured)

        self.write(measured, override)
        assert run_info.load(measured).status == "completed"

    def test_the_note_is_replaced_between_the_two_that_belong_together(
        self, measured: Path, other: Other, override: Override
    ) -> None:
        other.moves(lambda: self.write(measured, override), records, "read", of(".covered.json"))

        written = load_written(measured, expected_of(run_info.load(measured)))

        assert written is not None
        assert written.covered is not None
        assert written.covered.report.aggregation == written.report.aggregation


class TestAShareThatIsBehind:
    """A listing of one machine is older than the report that another one has written."""

    @pytest.fixture
    def slept_s(self, monkeypatch: pytest.MonkeyPatch) -> list[float]:
        """Task `b` is invisible until somebody has waited three times; how long that was."""
        slept_s: list[float] = []
        real = disk.directories

        def listed(path: str | Path) -> list[str]:
            return [name for name in real(path) if len(slept_s) > 2 or not name.startswith("b--")]

        monkeypatch.setattr(disk, "directories", listed)
        return slept_s

    def test_status_does_not_call_a_result_missing_and_says_why_it_waits(
        self, measured: Path, slept_s: list[float], caplog: pytest.LogCaptureFixture
    ) -> None:
        assert status(measured, T0, sleep=slept_s.append).is_complete
        assert len(slept_s) == 3
        assert caplog.text.count("fewer results than its report covers") == 1

    def test_the_report_stays_what_it_is(self, measured: Path, slept_s: list[float]) -> None:
        before = (measured / "metrics.json").read_bytes()

        wanted = Wanted(is_anew=True, may_be_partial=True, sleep=slept_s.append)
        done = finalize(measured, wanted=wanted)

        assert isinstance(done, Finalized)
        assert done.info.status == "completed"
        assert (measured / "metrics.json").read_bytes() == before

    def test_what_stays_away_is_believed_to_be_gone(self, measured: Path) -> None:
        gone = attempts.result_of(measured, "b", 1)
        assert gone is not None
        gone.unlink()
        slept_s: list[float] = []

        assert not status(measured, T0, sleep=slept_s.append).is_complete
        assert sum(slept_s) == 60

    def test_nobody_waits_for_a_run_that_goes_on(self, measured: Path) -> None:
        decide(measured, "rerun", ("b", 1))
        filing.reopen(measured, "b", {1: 2})
        slept_s: list[float] = []

        assert not status(measured, T0, sleep=slept_s.append).is_complete
        for _ in range(2):  # over the report before the decision, then over a partial one
            wanted = Wanted(is_anew=True, may_be_partial=True, sleep=slept_s.append)
            done = finalize(measured, wanted=wanted)
            assert isinstance(done, Finalized)
            assert "partial" in done.report.extra
        assert slept_s == []
