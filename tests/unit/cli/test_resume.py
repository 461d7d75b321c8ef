from __future__ import annotations

from pathlib import Path

import pytest

from agentcompass.store import attempts, control
from agentcompass.store.check import check_run
from tests.builders import a_result, an_issue
from tests.support.store_runs import a_reserved_run, a_run, execute, write_report
from tests.unit.cli.conftest import Shell


def interrupted(tmp_path: Path, *ids: str, done: int) -> Path:
    run_dir = a_run(tmp_path, *ids)
    for task_id in ids[:done]:
        execute(run_dir, task_id)
    return run_dir


class TestResume:
    def test_it_runs_exactly_what_has_no_result_and_prints_the_report(
        self, shell: Shell, tmp_path: Path
    ) -> None:
        run_dir = interrupted(tmp_path, *"abcdefgh", done=6)

        assert shell("resume", str(run_dir)) == 0

        assert shell.queue.executed == [("g", 1), ("h", 1)]
        assert shell.lines[0] == f"run directory: {run_dir}"
        assert "8 of 8 tasks evaluated" in "\n".join(shell.lines)

    def test_resuming_it_three_times_more_executes_nothing_and_changes_no_metric(
        self, shell: Shell, tmp_path: Path
    ) -> None:
        run_dir = interrupted(tmp_path, "a", "b", done=1)
        shell("resume", str(run_dir))
        before = (run_dir / "metrics.json").read_bytes()
        shell.queue.executed.clear()

        for _ in range(3):
            assert shell("resume", str(run_dir)) == 0

        assert shell.queue.executed == []
        assert "nothing to do" in shell.err
        assert (run_dir / "metrics.json").read_bytes() == before

    def test_several_runs_one_of_which_refuses_are_all_told_and_the_code_is_not_zero(
        self, shell: Shell, tmp_path: Path
    ) -> None:
        good = interrupted(tmp_path, "a", done=0)
        bad = good.parent / "empty"
        bad.mkdir()

        assert shell("resume", str(bad), str(good)) == 2

        assert f"{bad} is not resumed: no run at" in shell.err
        assert shell.queue.executed == [("a", 1)]

    def test_with_a_broker_all_runs_are_dispatched_before_the_first_is_attended(
        self, shell: Shell, tmp_path: Path
    ) -> None:
        one, other = (interrupted(tmp_path, "a", done=0) for _ in range(2))

        assert shell("resume", str(one), str(other), "--broker", "redis://h") == 0

        assert [ref.rpartition("/")[2] for ref, _, _ in shell.queue.dispatched] == [
            one.name,
            other.name,
        ]

    def test_a_run_that_never_started_says_so(self, shell: Shell, tmp_path: Path) -> None:
        run_dir = a_reserved_run(tmp_path)
        (run_dir / "run_info.json").unlink()

        assert shell("resume", str(run_dir)) == 2
        assert "never started" in shell.err

    def test_programs_get_a_code_for_every_refusal(self, shell: Shell, tmp_path: Path) -> None:
        one, other = (interrupted(tmp_path, "a", done=1) for _ in range(2))
        (other / "run_info.json").write_text("{")

        assert shell("resume", str(one), str(other), "--json", "-k", "3") == 2

        assert [found["code"] for found in shell.objects()] == ["field_frozen", "record_corrupt"]


class TestRerun:
    def test_what_deserves_it_runs_again_and_the_reasons_are_told_first(
        self, shell: Shell, tmp_path: Path
    ) -> None:
        run_dir = a_run(tmp_path, "a", "b")
        execute(run_dir, "a", 1, a_result("a", issues=[an_issue()], metrics={}))
        execute(run_dir, "b")

        assert shell("resume", str(run_dir), "--rerun", "errored") == 0

        assert shell.queue.executed == [("a", 1)]
        assert (
            "again: a (errored: attempt 1: run run_failed): "
            "attempt 1 run again (there is no snapshot)" in shell.err
        )
        assert check_run(run_dir) == []

    def test_a_dry_run_tells_the_same_and_changes_nothing(
        self, shell: Shell, tmp_path: Path
    ) -> None:
        run_dir = a_run(tmp_path, "a", "b")
        execute(run_dir, "a", 1, a_result("a", issues=[an_issue()], metrics={}))

        assert shell("resume", str(run_dir), "--rerun", "errored", "--dry-run") == 0

        assert shell.lines == [
            f"{run_dir}: 1/2 over, 1 to run",
            "  again: a (errored: attempt 1: run run_failed): "
            "attempt 1 run again (there is no snapshot)",
        ]
        assert control.control_records(run_dir) == []


class TestU01:
    """Field report U01: of 20 tasks 5 are wrong, 3 ended in an ERROR, 12 are right."""

    WRONG = ("w1", "w2", "w3", "w4", "w5")
    BROKEN = ("e1", "e2", "e3")

    @pytest.fixture
    def run_dir(self, tmp_path: Path) -> Path:
        right = [f"r{number}" for number in range(12)]
        run_dir = a_run(tmp_path, *self.WRONG, *self.BROKEN, *right)
        for task_id in (*self.WRONG, *self.BROKEN, *right):
            broken = task_id in self.BROKEN
            metrics = {} if broken else {"correct": task_id not in self.WRONG}
            issues = [an_issue()] if broken else []
            execute(run_dir, task_id, 1, a_result(task_id, issues=issues, metrics=metrics))
        write_report(run_dir)
        return run_dir

    @pytest.mark.parametrize(
        ("kinds", "again"), [(("errored",), BROKEN), (("failed", "errored"), WRONG + BROKEN)]
    )
    def test_what_broke_is_chosen_apart_from_what_is_wrong(
        self, shell: Shell, run_dir: Path, kinds: tuple[str, ...], again: tuple[str, ...]
    ) -> None:
        flags = [word for kind in kinds for word in ("--rerun", kind)]
        reasons = {
            **dict.fromkeys(
                self.WRONG, "(failed: attempt 1: correct is False): attempt 1 run again (failed)"
            ),
            **dict.fromkeys(
                self.BROKEN,
                "(errored: attempt 1: run run_failed): attempt 1 run again (there is no snapshot)",
            ),
        }

        assert shell("resume", str(run_dir), *flags, "--dry-run") == 0

        assert shell.lines[1:] == [f"  again: {task} {reasons[task]}" for task in again]
        assert (shell.queue.executed, control.control_records(run_dir)) == ([], [])

        shell("resume", str(run_dir), *flags)

        assert [task for task, _ in shell.queue.executed] == list(again)
        assert [f"again: {task} {reasons[task]}" in shell.err for task in again] == [True] * len(
            again
        )
        assert check_run(run_dir) == []


class TestChanges:
    def test_policy_is_changed_and_recorded(self, shell: Shell, tmp_path: Path) -> None:
        run_dir = interrupted(tmp_path, "a", done=0)

        assert shell("resume", str(run_dir), "--workers", "7", "--timeout", "60") == 0

        policy = control.control_records(run_dir)[0].policy
        assert policy is not None
        assert policy.runtime is not None
        assert policy.execution is not None
        assert (policy.runtime.workers, policy.execution.run_timeout_s) == (7, 60)

    @pytest.mark.parametrize(
        ("flags", "field"),
        [
            (["-k", "3"], "execution.attempts.k"),
            (["--benchmark", "jsonl"], "benchmark.id"),
            (["--limit", "1"], "selection.limit"),
            (["--param", "model.temperature=0"], "model.params.temperature"),
        ],
    )
    def test_what_is_evaluated_is_frozen(
        self, shell: Shell, tmp_path: Path, flags: list[str], field: str
    ) -> None:
        run_dir = interrupted(tmp_path, "a", done=0)

        assert shell("resume", str(run_dir), *flags) == 2

        assert f"resume cannot change {field}" in shell.err
        assert "[field_frozen]" in shell.err
        assert shell.queue.dispatched == []


class TestMalformed:
    def test_it_stops_names_every_file_and_goes_on_with_quarantine(
        self, shell: Shell, tmp_path: Path
    ) -> None:
        run_dir = interrupted(tmp_path, "a", "b", done=2)
        path = attempts.result_of(run_dir, "a", 1)
        assert path is not None
        path.write_bytes(b"{")

        assert shell("resume", str(run_dir)) == 2
        assert str(path) in shell.err

        assert shell("resume", str(run_dir), "--quarantine") == 0
        assert shell.queue.executed == [("a", 1)]
