"""`status`, `report`, `check`, `list`, `cancel`, `pause`: no broker, no workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcompass.store import attempts, control, sealed
from tests.support.store_runs import a_run, execute, write_report
from tests.unit.cli.conftest import Shell


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """A run of two tasks, one of which is done."""
    run_dir = a_run(tmp_path, "a", "b")
    execute(run_dir, "a")
    return run_dir


@pytest.fixture
def whole(half: Path) -> Path:
    """The same, finished."""
    execute(half, "b")
    write_report(half)
    return half


class TestStatus:
    def test_a_run_that_goes_on_is_provisional_and_exits_with_3(
        self, shell: Shell, half: Path
    ) -> None:
        assert shell("status", str(half)) == 3

        text = "\n".join(shell.lines)
        assert "attempts:  1/2 over" in text
        assert "correct.native@1 1.0000 over 1 of 2 tasks, 0 with an error, provisional" in text

    def test_programs_get_numbers(self, shell: Shell, whole: Path) -> None:
        assert shell("status", str(whole), "--json") == 0

        (found,) = shell.objects()
        assert (found["state"], found["attempts_done"], found["value"]) == ("completed", 2, 1.0)
        assert found["provisional"] is False


class TestReport:
    def test_it_is_computed_again_and_exits_by_what_it_says(
        self, shell: Shell, whole: Path
    ) -> None:
        (whole / "metrics.json").unlink()

        assert shell("report", str(whole)) == 0

        assert (whole / "metrics.json").is_file()
        assert "2 of 2 tasks evaluated" in "\n".join(shell.lines)

    def test_a_partial_run_is_marked_and_exits_with_3(self, shell: Shell, half: Path) -> None:
        assert shell("report", str(half), "--json") == 3

        (found,) = shell.objects()
        report = found["report"]
        assert isinstance(report, dict)
        assert report["extra"]["partial"] == {"status": "running", "missing": 1}  # type: ignore[index, call-overload]

    def test_every_malformed_result_is_named(self, shell: Shell, half: Path) -> None:
        path = attempts.result_of(half, "a", 1)
        assert path is not None
        path.write_bytes(b"{")

        assert shell("report", str(half)) == 2
        assert str(path) in shell.err


class TestCheck:
    def test_a_sound_run_exits_with_0(self, shell: Shell, whole: Path) -> None:
        assert shell("check", str(whole)) == 0
        assert shell.lines == [f"{whole}: every invariant holds"]

    def test_findings_exit_with_1(self, shell: Shell, whole: Path) -> None:
        path = attempts.result_of(whole, "a", 1)
        assert path is not None
        path.write_bytes(b"{")

        assert shell("check", str(whole), "--json") == 1
        assert any(found["path"] == str(path) for found in shell.objects())

    def test_no_run_exits_with_2(self, shell: Shell, tmp_path: Path) -> None:
        assert shell("check", str(tmp_path)) == 2


class TestList:
    def test_plug_ins_have_one_line_each(self, shell: Shell) -> None:
        assert shell("list", "benchmarks") == 0
        assert any(line.startswith("humaneval ") for line in shell.lines)

    def test_programs_get_everything(self, shell: Shell) -> None:
        assert shell("list", "--json") == 0
        assert {"kind": "strategies", "id": "avg", "about": "", "params": []} in shell.objects()


class TestCancel:
    def test_a_run_is_cancelled_with_its_reason_and_a_partial_report(
        self, shell: Shell, half: Path
    ) -> None:
        assert shell("cancel", str(half), "--reason", "too dear") == 0

        assert control.legs(half).state == "cancelled"
        assert "cancelled" in (half / "summary.md").read_text()
        assert "agentcompass resume" in shell.lines[-1]

    def test_one_attempt_is_cancelled_and_the_run_goes_on(self, shell: Shell, half: Path) -> None:
        assert shell("cancel", str(half), "b", "1") == 0

        legs = control.legs(half)
        assert (legs.state, legs.is_closed("b", 1)) == ("open", True)
        assert shell.lines == [f"cancelled 1 of 2 attempts of {half}"]

    def test_of_a_task_only_what_is_not_over_is_cancelled(
        self, shell: Shell, tmp_path: Path
    ) -> None:
        run_dir = a_run(tmp_path, "a", k=2)
        execute(run_dir, "a", 1)

        assert shell("cancel", str(run_dir), "a") == 0

        legs = control.legs(run_dir)
        assert (legs.is_closed("a", 1), legs.is_closed("a", 2)) == (False, True)

    @pytest.mark.parametrize("named", [(), ("a",), ("a", "1")])
    def test_where_everything_is_over_it_does_nothing_and_says_so(
        self, shell: Shell, whole: Path, named: tuple[str, ...]
    ) -> None:
        before = sealed.load(whole)

        assert shell("cancel", str(whole), *named) == 0

        assert shell.lines[0].startswith("nothing to do")
        assert (control.control_records(whole), sealed.load(whole)) == ([], before)

    def test_an_unknown_task_is_refused(self, shell: Shell, half: Path) -> None:
        assert shell("cancel", str(half), "zzz") == 2
        assert "no task 'zzz'" in shell.err


def test_pause_hands_out_nothing_more(shell: Shell, half: Path) -> None:
    assert shell("pause", str(half), "--reason", "night") == 0

    assert control.legs(half).state == "paused"
    assert control.control_records(half)[0].reason == "night"


def test_a_run_that_is_over_cannot_be_paused(shell: Shell, whole: Path) -> None:
    assert shell("pause", str(whole)) == 0

    assert shell.lines[0].startswith("nothing to do")
    assert control.control_records(whole) == []


@pytest.mark.parametrize("command", ["status", "report", "check", "cancel", "pause", "resume"])
def test_where_there_is_no_run_every_command_says_so(
    shell: Shell, tmp_path: Path, command: str
) -> None:
    assert shell(command, str(tmp_path / "nope")) == 2
    assert "no run at" in shell.err
