from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentcompass.store.check import check_run
from tests.builders import a_result, an_issue
from tests.unit.cli.conftest import Shell


class TestOutput:
    def test_the_run_directory_is_the_first_line_and_the_report_follows(self, shell: Shell) -> None:
        assert shell.run() == 0

        assert shell.lines[0] == f"run directory: {shell.run_dir()}"
        assert "Coverage: 2 of 2 tasks evaluated" in "\n".join(shell.lines)
        assert check_run(shell.run_dir()) == []

    def test_json_lines_give_path_run_id_and_state_first_and_last(self, shell: Shell) -> None:
        shell.run("--json", "--run-id", "mine")

        first, last = shell.objects()
        assert (first["event"], first["run_id"], first["state"]) == ("started", "mine", "running")
        assert (last["event"], last["state"], last["exit_code"]) == ("finished", "completed", 0)
        assert first["path"] == last["path"] == str(shell.run_dir())
        assert isinstance(last["report"], dict)

    def test_progress_goes_to_standard_error(self, shell: Shell) -> None:
        shell.run()

        assert "2/2 attempts" in shell.err


class TestWhatIsRun:
    def test_attempts_are_sent_breadth_first(self, shell: Shell) -> None:
        shell.run("-k", "2")

        assert shell.queue.executed == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]

    def test_selected_tasks_are_run_in_the_order_asked_for(self, shell: Shell) -> None:
        shell.run("--task-id", "c", "--task-id", "a", ids=("a", "b", "c"))

        assert [task for task, _ in shell.queue.executed] == ["c", "a"]

    def test_a_file_and_flags_make_one_request(self, shell: Shell, tmp_path: Path) -> None:
        file = tmp_path / "r.yaml"
        file.write_text("execution: {attempts: {k: 3}}\nselection: {limit: 1}\n")

        shell.run("--config", str(file), "-k", "2")

        assert shell.queue.executed == [("a", 1), ("a", 2)]


class TestExitCodes:
    def test_an_error_makes_it_1(self, shell: Shell) -> None:
        shell.queue.result_for = lambda task, number, leg: a_result(
            task, number, issues=[an_issue()], metrics={}
        )

        assert shell.run() == 1

    def test_a_withheld_official_value_makes_it_1(self, shell: Shell) -> None:
        shell.queue.result_for = lambda task, number, leg: a_result(
            task, number, issues=[an_issue("fatal")] if task == "a" else []
        )

        assert shell.run() == 1

    def test_warnings_and_wrong_answers_are_no_errors(self, shell: Shell) -> None:
        shell.queue.result_for = lambda task, number, leg: a_result(
            task, number, issues=[an_issue("warning")], metrics={"correct": False}
        )

        assert shell.run() == 0


class TestWrongUse:
    @pytest.mark.parametrize(
        ("more", "complaint"),
        [
            (["-k", "0"], "execution.attempts.k"),
            (["-k", "-1"], "execution.attempts.k"),
            (["-k", "1000000"], "execution.attempts.k"),
            (["--benchmark", "humanevall"], "did you mean 'humaneval'"),
            (["--param", "benchmark.idz=[]"], "benchmark.idz"),
            (["--task-id", "nope"], "'nope'"),
            (["--config", "missing.yaml"], "missing.yaml"),
            (["--strategy", "best"], "avg, pass"),
            (["--detach"], "--broker"),
            (["--api-key-env", "NOT_SET_ANYWHERE"], "NOT_SET_ANYWHERE"),
            (["--run-name", "a/../b"], "output.run_name"),
        ],
    )
    def test_it_is_a_few_lines_and_nothing_is_reserved(
        self, shell: Shell, more: list[str], complaint: str
    ) -> None:
        assert shell.run(*more) == 2

        assert complaint in shell.err
        assert len(shell.err.splitlines()) <= 5
        assert "Traceback" not in shell.err
        assert not shell.results.exists()

    def test_duplicate_ids_name_both_positions_and_nothing_is_reserved(self, shell: Shell) -> None:
        assert shell.run(ids=("a", "b", "a")) == 2

        assert "positions 1 and 3" in shell.err
        assert not shell.results.exists()

    def test_a_taken_run_id_is_refused_before_anything_is_sent(self, shell: Shell) -> None:
        shell.run("--run-id", "mine")
        shell.queue.dispatched.clear()

        assert shell.run("--run-id", "mine") == 2

        assert "'mine' exists already" in shell.err
        assert shell.queue.dispatched == []

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_a_results_folder_without_write_permission_is_refused(self, shell: Shell) -> None:
        shell.results.mkdir(mode=0o500)

        assert shell.run() == 2
        assert "results folder cannot be used" in shell.err

    @pytest.mark.parametrize("flag", ["--run-id", "--run-name"])
    @pytest.mark.parametrize("name", ["run_info.json", "Details", "control", "tasks.jsonl"])
    def test_a_name_of_our_own_files_would_hide_the_runs_beside_it(
        self, shell: Shell, flag: str, name: str
    ) -> None:
        assert shell.run(flag, name) == 2

        assert f"may be called {name!r}" in shell.err
        assert not list(shell.results.glob("*"))

    def test_a_dry_run_refuses_what_the_run_would(self, shell: Shell) -> None:
        shell.run("--run-id", "mine")

        assert shell.run("--run-id", "Mine", "--dry-run") == 2
        assert "exists already" in shell.err

    def test_a_dry_run_makes_no_results_folder(self, shell: Shell) -> None:
        assert shell.run("--dry-run") == 0
        assert not shell.results.exists()

    @pytest.mark.parametrize("dry", [(), ("--dry-run",)])
    @pytest.mark.parametrize("make", [lambda p: p.write_text(""), lambda p: p.parent.rmdir()])
    def test_a_results_folder_that_cannot_be_one_is_refused(
        self, shell: Shell, make: object, dry: tuple[str, ...]
    ) -> None:
        shell.results = shell.results / "sub" / "results"
        shell.results.parent.mkdir(parents=True)
        make(shell.results)  # type: ignore[operator]

        assert shell.run(*dry) == 2
        assert "results folder cannot be used" in shell.err
        assert shell.queue.dispatched == []


def test_a_literal_secret_with_a_broker_is_refused_and_not_shown(
    shell: Shell, tmp_path: Path
) -> None:
    file = tmp_path / "r.yaml"
    file.write_text("model: {id: m, api_key: sk-canary}\n")

    assert shell.run("--config", str(file), "--broker", "redis://h") == 2

    assert "sk-canary" not in shell.err
    assert not shell.results.exists()


def test_a_literal_secret_of_an_embedded_run_is_nowhere_on_disk(
    shell: Shell, tmp_path: Path
) -> None:
    file = tmp_path / "r.yaml"
    file.write_text("model: {id: m, api_key: sk-canary}\n")

    assert shell.run("--config", str(file)) == 0

    found = [path for path in shell.results.rglob("*") if path.is_file()]
    assert not any(b"sk-canary" in path.read_bytes() for path in found)


def test_a_detached_run_is_dispatched_and_left(shell: Shell) -> None:
    assert shell.run("--broker", "redis://h", "--detach", "--json") == 0

    assert [line["event"] for line in shell.objects()] == ["started", "detached"]
    assert len(shell.queue.dispatched) == 1
