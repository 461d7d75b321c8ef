from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentcompass.coordinator.reuse.choose import Activity, Probe
from agentcompass.store import run_info
from agentcompass.store.check import check_run
from tests.builders import a_result, an_issue
from tests.support import golden_runs as theirs
from tests.support.coordinated import MODULE
from tests.support.tree import tree_of
from tests.unit.cli.conftest import Shell


def run_dir_of(shell: Shell, run_id: str) -> Path:
    return next(shell.results.rglob(f"{run_id}/run_info.json")).parent


def metrics_of(run_dir: Path) -> object:
    return json.loads((run_dir / "metrics.json").read_text())


def errors_in(shell: Shell, *failing: str, severity: str = "error") -> None:
    """Let these tasks end with an issue from now on."""
    shell.queue.result_for = lambda task, number, leg: (
        a_result(task, number, leg=leg, issues=[an_issue(severity)], metrics={})  # type: ignore[arg-type]
        if task in failing
        else a_result(task, number, leg=leg)
    )


class TestTaking:
    def test_a_complete_source_leaves_nothing_to_run_and_gives_an_equal_report(
        self, shell: Shell
    ) -> None:
        shell.run("--run-id", "one", "-k", "2")
        before = tree_of(run_dir_of(shell, "one"))
        shell.queue.executed.clear()

        assert shell.run("--run-id", "two", "-k", "2", "--reuse") == 0

        assert shell.queue.executed == []
        two = run_dir_of(shell, "two")
        assert metrics_of(two) == metrics_of(run_dir_of(shell, "one"))
        assert check_run(two, deep=True) == []
        assert tree_of(run_dir_of(shell, "one")) == before
        assert "4 attempts taken (2 whole tasks)" in shell.err

    def test_only_tasks_that_the_source_has_not_are_run(self, shell: Shell) -> None:
        shell.run(ids=("a", "b", "c"))
        shell.queue.executed.clear()

        shell.run("--reuse", "--json", ids=("a", "b", "c", "d", "e"))

        assert shell.queue.executed == [("d", 1), ("e", 1)]
        report = shell.objects()[-1]["report"]
        assert isinstance(report, dict)
        assert report["series"][0]["counts"]["total"] == 5  # type: ignore[index,call-overload]

    def test_errors_run_again_and_the_old_result_stays_beside(self, shell: Shell) -> None:
        errors_in(shell, "b")
        assert shell.run("--run-id", "one") == 1
        errors_in(shell)
        shell.queue.executed.clear()

        assert shell.run("--run-id", "two", "--reuse-run-id", "one") == 0

        assert shell.queue.executed == [("b", 1)]
        two = run_dir_of(shell, "two")
        kept = next(two.glob("details/normal/b--*/attempt-1/retries/reused/result.json"))
        assert json.loads(kept.read_text())["reused_from"] == "one"
        assert check_run(two) == []

    def test_errors_are_kept_if_that_is_asked_for(self, shell: Shell) -> None:
        errors_in(shell, "b")
        shell.run("--run-id", "one")
        shell.queue.executed.clear()

        assert shell.run("--run-id", "two", "--reuse", "--keep-errors") == 1

        assert shell.queue.executed == []
        assert list(run_dir_of(shell, "two").glob("details/error/b--*"))

    @pytest.mark.parametrize(
        ("wanted", "runs"), [("a", [("a", 1)]), ("errored", [("b", 1)]), ("failed", [])]
    )
    def test_what_deserves_it_runs_again_all_the_same(
        self, shell: Shell, wanted: str, runs: object
    ) -> None:
        errors_in(shell, "b")
        shell.run()
        shell.queue.executed.clear()

        shell.run("--reuse", "--keep-errors", "--rerun", wanted)

        assert shell.queue.executed == runs

    def test_where_it_came_from_and_what_differs_is_recorded_and_said(self, shell: Shell) -> None:
        shell.run("--run-id", "one")

        shell.run("--run-id", "two", "--reuse", "--param", "model.temperature=0.7")

        source = run_info.load(run_dir_of(shell, "two")).reused_from
        assert source is not None
        assert (source.run_id, source.tasks, source.attempts) == ("one", 2, 2)
        assert source.path == str(run_dir_of(shell, "one"))
        changed = {"field": "model.params.temperature", "source": None, "now": 0.7}
        assert list(source.differences) == [changed]
        assert "model.params.temperature was null, is 0.7" in shell.err

    def test_the_plans_of_taken_attempts_come_along(self, shell: Shell) -> None:
        shell.run("--run-id", "one")
        shell.run("--run-id", "two", "--reuse", "--param", "model.temperature=0.7")

        plans = run_info.load(run_dir_of(shell, "two")).resolved_execution_plans
        source = run_info.load(run_dir_of(shell, "one")).resolved_execution_plans

        assert plans is not None
        assert source is not None
        assert plans.reused is not None
        assert plans.reused.default == source.default != plans.default


class TestChoosing:
    def test_without_a_source_everything_runs_and_that_is_said(self, shell: Shell) -> None:
        assert shell.run("--reuse") == 0

        assert len(shell.queue.executed) == 2
        assert "no run to take over from" in shell.err
        assert run_info.load(shell.run_dir()).reused_from is None

    def test_nothing_is_reused_unless_it_is_asked_for(self, shell: Shell) -> None:
        shell.run()
        shell.queue.executed.clear()

        shell.run()

        assert len(shell.queue.executed) == 2

    @pytest.mark.parametrize("how", [("--reuse",), ("--reuse-run-id", "one")])
    def test_another_plan_is_refused_naming_both_and_nothing_is_reserved(
        self, shell: Shell, how: tuple[str, ...]
    ) -> None:
        shell.run("--run-id", "one")

        assert shell.run(*how, "-k", "3") == 2

        assert "k=1 avg" in shell.err
        assert "k=3 avg" in shell.err
        assert "[attempts_differ]" in shell.err
        assert len(list(shell.results.rglob("run_info.json"))) == 1

    def test_the_same_plan_from_a_file_is_the_same_plan(self, shell: Shell, tmp_path: Path) -> None:
        shell.run("-k", "3")
        file = tmp_path / "request.yaml"
        file.write_text("execution: {attempts: {k: 3, strategy: avg}}\nreuse: true\n")
        shell.queue.executed.clear()

        assert shell.run("--config", str(file)) == 0

        assert shell.queue.executed == []

    def test_a_run_of_a_model_whose_name_looks_the_same_is_passed_over(self, shell: Shell) -> None:
        shell.run("--model", "org/m1")
        shell.queue.executed.clear()

        shell.run("--model", "org_m1", "--reuse")

        assert len(shell.queue.executed) == 2
        assert "its model.id is 'org/m1', not 'org_m1'" in shell.err

    def test_a_named_source_of_another_model_warns(self, shell: Shell) -> None:
        shell.run("--model", "org/m1", "--run-id", "one")
        shell.queue.executed.clear()

        shell.run("--model", "org_m1", "--reuse-run-id", "one")

        assert shell.queue.executed == []
        assert 'model.id was "org/m1", is "org_m1"' in shell.err

    def test_a_live_run_is_no_source(self, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
        shell.run("--run-id", "one")
        shell.run("--run-id", "two")
        result = next(run_dir_of(shell, "two").glob("details/normal/b--*/attempt-1/result.json"))
        result.unlink()
        probes(monkeypatch, {"two": Activity("live", "its broker holds 1 of its attempts")})

        shell.run("--run-id", "three", "--reuse")

        assert "passed over two: its broker holds 1" in shell.err
        assert "reusing one" in shell.err
        assert shell.run("--run-id", "four", "--reuse-run-id", "two") == 2
        assert "[source_live]" in shell.err

    def test_what_cannot_be_told_of_a_named_source_is_a_warning(
        self, shell: Shell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shell.run("--run-id", "one")
        next(run_dir_of(shell, "one").glob("details/normal/b--*/attempt-1/result.json")).unlink()
        probes(monkeypatch, {"one": Activity("unknown", "no answer")})

        shell.run("--reuse-run-id", "one")

        assert "warning: cannot tell whether 'one' is still active: no answer" in shell.err

    def test_a_source_that_froze_no_tasks_says_what_it_was_compared_by(
        self, shell: Shell, tmp_path: Path
    ) -> None:
        source = tmp_path / "theirs"
        theirs.their_run_info(source, "a")
        right = theirs.their_result(correct=True)
        theirs.their_task(source / "details" / "normal", "a", right, category=None)
        info = json.loads((source / "run_info.json").read_text())
        info["request"]["benchmark"]["id"] = f"{MODULE}:Bench"
        (source / "run_info.json").write_text(json.dumps(info))

        shell.run("--reuse-run-id", str(source), "--require-same-tasks", ids=["a"])

        assert shell.queue.executed == []
        assert "recorded only category and truth" in shell.err

    def test_an_id_that_is_nowhere_is_refused(self, shell: Shell) -> None:
        assert shell.run("--reuse-run-id", "nope") == 2

        assert "[source_not_found]" in shell.err
        assert not shell.results.exists()


def probes(monkeypatch: pytest.MonkeyPatch, answers: dict[str, Activity]) -> None:
    def probe_with(_: str | None) -> Probe:
        return lambda run_dir, _: answers.get(run_dir.name, Activity("idle"))

    monkeypatch.setattr("agentcompass.cli.reusing.probe_with", probe_with)


def test_u01_what_went_wrong_is_selected_apart_from_what_broke(shell: Shell) -> None:
    ids = [f"t{number:02}" for number in range(20)]
    wrong, broken = ids[:5], ids[5:8]
    shell.queue.result_for = lambda task, number, leg: a_result(
        task,
        number,
        leg=leg,
        issues=[an_issue()] if task in broken else [],
        metrics={} if task in broken else {"correct": task not in wrong},
    )
    shell.run(ids=ids)

    shell.run("--reuse", "--keep-errors", "--rerun", "errored", "--dry-run", "--json", ids=ids)
    errored = [each for each in shell.objects() if each.get("run")]
    more = ("--rerun", "errored", "--rerun", "failed")
    shell.run("--reuse", "--keep-errors", *more, "--dry-run", "--json", ids=ids)
    both = [each for each in shell.objects() if each.get("run")]

    assert [each["task_id"] for each in errored] == broken
    assert [each["task_id"] for each in both] == wrong + broken
    assert both[0]["reason"] == "failed: attempt 1: correct is False"
    assert len(list(shell.results.rglob("run_info.json"))) == 1


class TestDryRun:
    def test_it_prints_each_task_with_the_reason_and_touches_nothing(self, shell: Shell) -> None:
        errors_in(shell, "b")
        shell.run("--run-id", "one")
        before = tree_of(shell.results)
        shell.queue.executed.clear()

        assert shell.run("--reuse", "--dry-run", ids=("a", "b", "c")) == 0

        assert shell.lines == [
            "a: take all  (all attempts are over without an error)",
            "b: run all  (attempt 1 has run run_failed)",
            "c: run all  (the source has nothing of it)",
        ]
        assert shell.queue.executed == []
        assert tree_of(shell.results) == before

    def test_without_reuse_it_shows_the_plan_and_makes_no_results_folder(
        self, shell: Shell
    ) -> None:
        assert shell.run("--dry-run", "--json") == 0

        assert [each["run"] for each in shell.objects()] == [[1], [1]]
        assert not shell.results.exists()


class TestResuming:
    def test_an_unsealed_run_resumes_from_the_source_that_was_chosen_then(
        self, shell: Shell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shell.run("--run-id", "one")
        with monkeypatch.context() as patch:
            patch.setattr("agentcompass.store.run_info.seal", fails)
            with pytest.raises(RuntimeError):
                shell.run("--run-id", "two", "--reuse")
        shell.run("--run-id", "three")
        shell.queue.executed.clear()

        assert shell("resume", str(run_dir_of(shell, "two"))) == 0

        source = run_info.load(run_dir_of(shell, "two")).reused_from
        assert source is not None
        assert (source.run_id, source.attempts) == ("one", 2)
        assert shell.queue.executed == []

    def test_a_run_whose_source_is_gone_says_so(
        self, shell: Shell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shell.run("--run-id", "one")
        with monkeypatch.context() as patch:
            patch.setattr("agentcompass.store.run_info.seal", fails)
            with pytest.raises(RuntimeError):
                shell.run("--run-id", "two", "--reuse")
        (run_dir_of(shell, "one") / "run_info.json").unlink()

        assert shell("resume", str(run_dir_of(shell, "two"))) == 2

        assert "[source_gone]" in shell.err

    def test_a_half_built_run_is_never_the_source(
        self, shell: Shell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        errors_in(shell, "b")
        shell.run("--run-id", "one")
        with monkeypatch.context() as patch:
            patch.setattr("agentcompass.store.run_info.seal", fails)
            with pytest.raises(RuntimeError):
                shell.run("--run-id", "two", "--reuse")
        shell.queue.executed.clear()

        shell.run("--run-id", "three", "--reuse")

        assert shell.queue.executed == [("b", 1)]
        assert "passed over two: interrupted while it was planned" in shell.err


def fails(*_: object) -> None:
    raise RuntimeError("the machine died")


def test_many_differences_are_cut_short(
    shell: Shell,
) -> None:
    shell.run("--run-id", "one")
    many = [word for n in range(9) for word in ("--param", f"model.p{n}={n}")]

    shell.run("--reuse-run-id", "one", *many)

    assert "and in 1 more fields (reused_from in run_info.json)" in shell.err
