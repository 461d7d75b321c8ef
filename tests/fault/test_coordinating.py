"""Starting and resuming a run: a fault at any call, then a plain resume goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcompass.coordinator.asking.validation import request_of
from agentcompass.coordinator.planning import plan as planning
from agentcompass.coordinator.planning.plan import Planned
from agentcompass.coordinator.planning.start import start
from agentcompass.coordinator.resuming.resume import Wish, examine, go_on
from agentcompass.coordinator.snapshot import breadth_first
from agentcompass.errors import RunNotFound
from agentcompass.models.base import JsonObject
from agentcompass.models.request import Request
from agentcompass.store import attempts, control, run_info
from agentcompass.store.check import check_run
from agentcompass.store.root import find_root
from tests.builders import T0, a_result, an_issue
from tests.fault.faulty_os import at_every_call
from tests.support.coordinated import request_fields
from tests.support.store_runs import a_root, a_run, begin, execute, publish, write_report

pytestmark = pytest.mark.timeout(300)


def plan(_: Request | None = None) -> Planned:
    fields: JsonObject = {**request_fields(ids=["a", "b"]), "output": {"run_id": "mine"}}
    return planning.plan(request_of(fields, where="test"))


def resumed(run_dir: Path, *, rerun: tuple[str, ...] = ()) -> list[tuple[str, int]]:
    """Resume and return what is to be run."""
    ready = examine(run_dir, Wish(rerun=rerun), plan=plan, now=lambda: T0)
    work = go_on(ready, reason="", by="me", at=T0).seen.work
    return [(each.task_id, each.attempt) for each in breadth_first(work)]


def finish(run_dir: Path, work: list[tuple[str, int]]) -> None:
    legs = control.legs(run_dir)
    for task_id, attempt in work:
        first = legs.valid_from_leg(task_id, attempt)
        token = f"token-{legs.current}"
        view = begin(run_dir, task_id, attempt, token=token, leg=legs.current, valid_from_leg=first)
        publish(run_dir, view, a_result(task_id, attempt, leg=legs.current, token=token))
    assert write_report(run_dir).status == "completed"
    assert check_run(run_dir) == []


def test_a_start_that_dies_anywhere_never_started_or_is_resumed_to_its_end(
    fault: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare(place: Path) -> Path:
        return a_root(place).path

    def act(results: Path) -> object:
        root = find_root(results)
        assert root is not None
        with plan() as planned:
            return start(root, planned, now=lambda: T0, announce=lambda _: None)

    for results, trace in at_every_call(tmp_path, monkeypatch, fault, prepare, act):
        found = list(results.glob("*/mine"))
        if not found:
            continue
        try:
            run_info.load(found[0])
        except RunNotFound:
            with pytest.raises(RunNotFound, match="never started"):
                resumed(found[0])
            continue
        assert check_run(found[0]) == [], trace
        finish(found[0], resumed(found[0]))


def test_a_rerun_that_dies_anywhere_is_completed_by_a_plain_resume(
    fault: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare(place: Path) -> Path:
        run_dir = a_run(place, "a", "b")
        execute(run_dir, "a", 1, a_result("a", issues=[an_issue()], metrics={}))
        execute(run_dir, "b")
        write_report(run_dir)
        return run_dir

    def act(run_dir: Path) -> object:
        return resumed(run_dir, rerun=("errored",))

    for run_dir, trace in at_every_call(tmp_path, monkeypatch, fault, prepare, act):
        assert check_run(run_dir) == [], trace
        is_recorded = bool(control.control_records(run_dir))
        work = resumed(run_dir)
        assert work == ([("a", 1)] if is_recorded else []), trace
        finish(run_dir, work)


def test_a_quarantine_that_dies_anywhere_is_completed_by_the_next_one(
    fault: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare(place: Path) -> Path:
        run_dir = a_run(place, "a", "b")
        for task_id in ("a", "b"):
            execute(run_dir, task_id)
        path = attempts.result_of(run_dir, "a", 1)
        assert path is not None
        path.write_bytes(b"{")
        return run_dir

    def act(run_dir: Path) -> object:
        ready = examine(run_dir, Wish(quarantine=True), plan=plan, now=lambda: T0)
        work = go_on(ready, reason="", by="me", at=T0).seen.work
        return [(each.task_id, each.attempt) for each in breadth_first(work)]

    for run_dir, trace in at_every_call(tmp_path, monkeypatch, fault, prepare, act):
        work = act(run_dir)
        assert work == [("a", 1)], trace
        finish(run_dir, [("a", 1)])
