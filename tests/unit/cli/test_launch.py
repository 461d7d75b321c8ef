"""`launch`: many requests, one record; what fails alone, what is written when, and going on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agentcompass.cli import launched
from agentcompass.coordinator.planning import start as planning
from agentcompass.coordinator.ports import LiveWorker
from agentcompass.errors import ResultsDirUnusable
from agentcompass.store import control, launches, sealed
from agentcompass.store.check import check_run
from agentcompass.store.root import find_root
from tests.builders import a_result, an_issue
from tests.support.coordinated import request_fields
from tests.unit.cli.conftest import Shell

BROKEN = {"name": "broken", "benchmark": {"params": {"breaks": True}}}


def a_file(shell: Shell, *requests: Mapping[str, object], **fields: object) -> str:
    shell.results.parent.mkdir(exist_ok=True)
    file = shell.results.parent / "nightly.json"
    content = {"version": 1, "defaults": request_fields(), "requests": requests, **fields}
    file.write_text(json.dumps(content))
    return str(file)


def launched_by(shell: Shell, *requests: Mapping[str, object], more: tuple[str, ...] = ()) -> int:
    return shell("launch", a_file(shell, *requests), "--results-dir", str(shell.results), *more)


def record_path(shell: Shell) -> Path:
    (path,) = (shell.results / ".launches").glob("*.json")
    return path


def record(shell: Shell) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(record_path(shell).read_bytes())
    return content


def outcomes(shell: Shell) -> list[tuple[str, str, int | None]]:
    return [(each["name"], each["state"], each["exit_code"]) for each in record(shell)["requests"]]


class TestOutcomes:
    def test_all_requests_run_and_the_record_says_where_and_how(self, shell: Shell) -> None:
        assert launched_by(shell, {"name": "one"}, {"name": "two"}) == 0

        found = record(shell)
        assert outcomes(shell) == [("one", "completed", 0), ("two", "completed", 0)]
        assert (found["status"], found["name"]) == ("completed", "nightly")
        assert found["finished_at"] is not None
        launch_id = found["launch_id"]
        assert found["requests"][0]["paths"] == {
            "run": f"one/{launch_id}",
            "run_info": f"one/{launch_id}/run_info.json",
            "metrics": f"one/{launch_id}/metrics.json",
            "summary": f"one/{launch_id}/summary.md",
        }
        assert check_run(shell.results / "one" / launch_id) == []

    def test_a_request_that_fails_at_planning_does_not_stop_the_others(self, shell: Shell) -> None:
        shell.queue.result_for = lambda task, number, leg: a_result(
            task, number, leg=leg, issues=[an_issue()] if task == "e" else []
        )
        errors = {"name": "errors", "benchmark": {"params": {"ids": ["e"]}}}

        assert launched_by(shell, BROKEN, errors, {"name": "clean"}) == 1

        assert outcomes(shell) == [
            ("broken", "failed", 2),
            ("errors", "completed", 1),
            ("clean", "completed", 0),
        ]
        broken = record(shell)["requests"][0]
        assert "the data set is on fire" in broken["error"]
        assert broken["paths"] == {}
        assert not (shell.results / "broken").exists()
        assert record(shell)["status"] == "failed"

    def test_a_run_that_cannot_be_made_fails_alone(
        self, shell: Shell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = planning.start

        def start(root: Any, planned: Any, **more: Any) -> Any:
            if planned.request.output.run_name == "full":
                raise ResultsDirUnusable(root.path, "the disk is full")
            return real(root, planned, **more)

        monkeypatch.setattr(launched, "start", start)

        assert launched_by(shell, {"name": "one", "output": {"run_name": "full"}}, {"name": "two"})

        assert outcomes(shell) == [("one", "failed", 2), ("two", "completed", 0)]

    def test_everything_is_dispatched_before_anything_is_attended(self, shell: Shell) -> None:
        launched_by(shell, {"name": "one"}, {"name": "two"})

        launch_id = record(shell)["launch_id"]
        refs = [ref for ref, _, _ in shell.queue.dispatched]
        assert refs == [f"one/{launch_id}", f"two/{launch_id}"]

    def test_runs_of_distinct_places_keep_ids_of_their_own(self, shell: Shell) -> None:
        launched_by(shell, {"name": "one", "output": {"run_id": "mine"}}, {"name": "two"})

        assert record(shell)["requests"][0]["run"] == "one/mine"

    def test_progress_goes_by_the_names_of_the_requests(self, shell: Shell) -> None:
        launched_by(shell, {"name": "one"}, {"name": "two"})

        assert "one: 2/2 attempts" in shell.err
        assert "two: 2/2 attempts" in shell.err

    def test_programs_get_every_event_and_the_whole_record_last(self, shell: Shell) -> None:
        assert launched_by(shell, BROKEN, {"name": "one"}, more=("--json",)) == 1

        events = [(line["event"], line.get("request")) for line in shell.objects()]
        assert events == [
            ("launch_started", None),
            ("refused", "broken"),
            ("started", "one"),
            ("finished", "one"),
            ("launch_finished", None),
        ]
        assert shell.objects()[-1]["launch"] == record(shell)


class TestBeforeAnythingIsReserved:
    def test_a_wrong_suite_leaves_nothing(self, shell: Shell) -> None:
        assert launched_by(shell, {"name": "a b"}, {"name": "a_b"}) == 2

        assert "'a b' and 'a_b'" in shell.err
        assert not shell.results.exists()

    def test_a_dry_run_plans_everything_and_leaves_nothing(self, shell: Shell) -> None:
        assert launched_by(shell, {"name": "one"}, BROKEN, more=("--dry-run",)) == 1

        assert shell.lines[0] == "one: 2 tasks, 2 attempts, in one"
        assert shell.lines[1].startswith("broken: would fail: benchmark")
        assert not shell.results.exists()

    def test_a_dry_run_is_refused_where_the_launch_would_be(self, shell: Shell) -> None:
        shell.queue.living = [LiveWorker("worker@there", "0123abcd", "/elsewhere")]
        broker = ("--broker", "redis://127.0.0.1:6379/0")

        assert launched_by(shell, {"name": "one"}, more=("--dry-run", *broker)) == 2

        assert "/elsewhere" in shell.err
        assert not shell.results.exists()

    def test_two_launches_of_one_second_get_an_id_each(self, shell: Shell) -> None:
        root = shell.results
        launched_by(shell, {"name": "one"})
        launched_by(shell, {"name": "one"})

        ids = sorted(path.stem for path in (root / ".launches").glob("*.json"))
        assert len(ids) == 2
        assert sorted(path.name for path in (root / "one").iterdir()) == ids

    def test_leaving_it_needs_a_broker(self, shell: Shell) -> None:
        assert launched_by(shell, {"name": "one"}, more=("--detach",)) == 2
        assert "--broker" in shell.err
        assert not shell.results.exists()


def test_the_status_of_a_launch_is_that_of_its_runs_and_not_of_its_record(shell: Shell) -> None:
    more = ("--broker", "redis://h", "--detach")
    launched_by(shell, {"name": "one"}, {"name": "two"}, more=more)
    assert record(shell)["status"] == "running"

    assert shell("status", str(record_path(shell))) == 0

    assert shell.lines[0].endswith("(nightly): 2 of 2 runs over")
    assert sum("completed" in line for line in shell.lines) == 2


def test_a_request_without_a_run_keeps_its_launch_from_being_complete(shell: Shell) -> None:
    assert launched_by(shell, BROKEN, {"name": "good"}) != 0

    assert shell("status", str(record_path(shell)), "--json") == 3

    assert [each["state"] for each in shell.objects()] == ["pending", "completed"]


def test_a_detached_launch_is_dispatched_and_completed_by_a_resume(shell: Shell) -> None:
    more = ("--broker", "redis://h", "--detach")
    assert launched_by(shell, {"name": "one"}, more=more) == 0
    assert outcomes(shell) == [("one", "running", None)]

    assert shell("resume", str(record_path(shell)), "--broker", "redis://h") == 0

    assert outcomes(shell) == [("one", "completed", 0)]
    assert len(shell.queue.dispatched) == 1


class TestReuse:
    def run_again(self, shell: Shell, **fields: object) -> Path:
        """Launch a request and, with other fields, the same name again; return the second run."""
        request = {"name": "one", "output": {"run_id": "first"}}
        launched_by(shell, request)
        shell.queue.executed.clear()
        launched_by(shell, {**request, "reuse": True, "output": {"run_id": "second"}, **fields})
        return shell.results / "one" / "second"

    def test_a_request_reuses_what_its_name_has_paid_for(self, shell: Shell) -> None:
        run_dir = self.run_again(shell)

        source = sealed.load(run_dir).reused_from
        assert source is not None
        assert (source.run_id, shell.queue.executed) == ("first", [])
        assert check_run(run_dir) == []

    def test_r18_results_of_another_model_under_the_same_name_are_never_implicit(
        self, shell: Shell
    ) -> None:
        run_dir = self.run_again(shell, model={"id": "m2"})

        assert sealed.load(run_dir).reused_from is None
        assert shell.queue.executed == [("a", 1), ("b", 1)]
        assert "its model.id is 'org/m', not 'm2'" in shell.err


class TestResume:
    def interrupted(self, shell: Shell, *requests: Mapping[str, object]) -> None:
        """Kill a launch after its first run was made, and before its second."""

        def dies(*_: object, **__: object) -> None:
            raise SystemExit(9)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(launched.Conductor, "__exit__", lambda *_: None)
            patch.setattr(launched.Conductor, "_goes_on", dies)
            with pytest.raises(SystemExit):
                launched_by(shell, *requests)
        shell.capture.readouterr()

    def test_runs_that_exist_go_on_and_those_that_do_not_are_made_where_they_were_to_be(
        self, shell: Shell
    ) -> None:
        self.interrupted(shell, {"name": "one"}, {"name": "two"})
        before = [each["run"] for each in record(shell)["requests"]]
        (shell.results / before[1]).mkdir(parents=True)  # killed right after its mkdir

        assert shell("resume", str(record_path(shell))) == 0

        assert outcomes(shell) == [("one", "completed", 0), ("two", "completed", 0)]
        runs = sorted(path.parent for path in shell.results.rglob("run_info.json"))
        assert runs == [shell.results / run for run in before]
        assert all(check_run(run_dir) == [] for run_dir in runs)

    def test_a_launch_goes_by_its_id_too(self, shell: Shell) -> None:
        self.interrupted(shell, {"name": "one"})

        launch_id = record_path(shell).stem

        assert shell("resume", launch_id, "--results-dir", str(shell.results)) == 0
        assert record(shell)["status"] == "completed"

    def test_resuming_a_finished_launch_executes_nothing(self, shell: Shell) -> None:
        launched_by(shell, {"name": "one"})
        shell.queue.executed.clear()

        assert shell("resume", str(record_path(shell))) == 0

        assert shell.queue.executed == []
        assert record(shell)["status"] == "completed"

    def test_what_failed_at_planning_is_planned_again(self, shell: Shell) -> None:
        launched_by(shell, BROKEN, {"name": "one"})

        assert shell("resume", str(record_path(shell))) == 1

        assert outcomes(shell) == [("broken", "failed", 2), ("one", "completed", 0)]
        assert "the data set is on fire" in shell.err

    def test_a_dry_run_says_what_is_left_of_each_and_changes_nothing(self, shell: Shell) -> None:
        self.interrupted(shell, {"name": "one"}, {"name": "two"})
        before = record_path(shell).read_bytes()

        assert shell("resume", str(record_path(shell)), "--dry-run") == 0

        assert shell.lines == ["one: 0/2 over, 2 to run", "two: 2 tasks, 2 attempts, in two"]
        assert record_path(shell).read_bytes() == before
        assert shell.queue.dispatched == []

    def test_policy_may_change_for_runs_and_for_what_has_none(self, shell: Shell) -> None:
        self.interrupted(shell, {"name": "one"}, {"name": "two"})

        assert shell("resume", str(record_path(shell)), "--workers", "7") == 0

        one, two = (shell.results / each["run"] for each in record(shell)["requests"])
        policy = control.control_records(one)[0].policy
        assert policy is not None
        assert policy.runtime is not None
        assert policy.runtime.workers == 7
        assert sealed.load(two).request.runtime.workers == 7

    def test_what_deserves_it_runs_again_in_all_runs(self, shell: Shell) -> None:
        shell.queue.result_for = lambda task, number, leg: a_result(
            task, number, leg=leg, issues=[an_issue()] if leg == 1 and task == "a" else []
        )
        launched_by(shell, {"name": "one"}, {"name": "two"})
        shell.queue.executed.clear()

        assert shell("resume", str(record_path(shell)), "--rerun", "errored") == 0

        assert shell.queue.executed == [("a", 1), ("a", 1)]
        assert "one: again: a (errored: attempt 1: run run_failed)" in shell.err

    def test_somebody_elses_run_of_that_id_is_not_touched(self, shell: Shell) -> None:
        self.interrupted(shell, {"name": "one"}, {"name": "two"})
        launch_id = record_path(shell).stem
        shell.run("--run-name", "x", "--run-id", launch_id)
        (theirs,) = (shell.results / "x").glob(f"*/{launch_id}")
        (shell.results / "two").mkdir()
        theirs.rename(shell.results / "two" / launch_id)

        assert shell("resume", str(record_path(shell))) == 1

        assert outcomes(shell)[1][:2] == ("two", "failed")
        assert "another one's" in shell.err

    def test_only_one_coordinator_carries_it_out(self, shell: Shell) -> None:
        launched_by(shell, {"name": "one"})
        root = find_root(shell.results)
        assert root is not None

        with launches.carrying_out(root, record_path(shell).stem):
            assert shell("resume", str(record_path(shell))) == 2

        assert "another coordinator carries this launch out" in shell.err

    @pytest.mark.parametrize(
        ("flags", "said"), [(("-k", "3"), "field_frozen"), (("--rerun", "a"), "no task 'a'")]
    )
    def test_what_no_run_can_do_changes_no_outcome(
        self, shell: Shell, flags: tuple[str, str], said: str
    ) -> None:
        launched_by(shell, {"name": "one"})
        before = record(shell)

        assert shell("resume", str(record_path(shell)), *flags) == 2

        assert said in shell.err
        assert record(shell) == before

    def test_it_is_resumed_alone(self, shell: Shell) -> None:
        launched_by(shell, {"name": "one"})

        assert shell("resume", str(record_path(shell)), str(shell.run_dir())) == 2
        assert "a launch is resumed alone" in shell.err
