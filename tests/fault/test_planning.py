"""Reserve, freeze, seal and control: a fault at any call, then somebody goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcompass.errors import RunNotFound
from agentcompass.models.run_info import RunInfo
from agentcompass.store import control, run_info, tasks
from agentcompass.store.check import check_run
from agentcompass.store.reserve import reserve
from agentcompass.store.root import find_root, open_root
from tests.builders import T0, a_request, a_task
from tests.fault.faulty_os import at_every_call
from tests.support.store_runs import (
    a_reserved_run,
    a_root,
    a_run,
    decide,
    execute,
    finish_planning,
    write_report,
)

pytestmark = pytest.mark.timeout(300)

SPECS = [a_task("a"), a_task("b")]


def finishes(run_dir: Path) -> None:
    """Plan what is not sealed, execute what is pending, report, and find nothing wrong."""
    if run_info.load(run_dir).sealed_at is None:
        finish_planning(run_dir, SPECS)
    for spec in SPECS:
        execute(run_dir, spec.task_id)
    assert write_report(run_dir).status == "completed"
    assert check_run(run_dir) == []


def test_a_results_folder_is_opened_or_opened_again(
    fault: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act(place: Path) -> object:
        return open_root(place / "results")

    for place, trace in at_every_call(tmp_path, monkeypatch, fault, lambda path: path, act):
        again = open_root(place / "results")
        assert find_root(place / "results") == again, trace


def test_a_reserved_run_never_started_or_is_planned_to_its_end(
    fault: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare(place: Path) -> Path:
        return a_root(place).path

    def act(results: Path) -> None:
        root = find_root(results)
        assert root is not None
        run_dir = reserve(root, ("space",), "run-1", T0)
        info = RunInfo(run_id="run-1", started_at=T0, request=a_request())
        run_info.write_reserved(run_dir, info)

    for results, trace in at_every_call(tmp_path, monkeypatch, fault, prepare, act):
        run_dir = results / "space" / "run-1"
        try:
            run_info.load(run_dir)
        except RunNotFound:
            continue
        assert check_run(run_dir) == [], trace
        finishes(run_dir)


def test_freezing_and_sealing_stops_unsealed_or_sealed_and_goes_on(
    fault: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act(run_dir: Path) -> object:
        return finish_planning(run_dir, SPECS)

    for run_dir, trace in at_every_call(tmp_path, monkeypatch, fault, a_reserved_run, act):
        assert check_run(run_dir) == [], trace
        finishes(run_dir)
        assert [entry.task_id for entry in tasks.entries(run_dir)] == ["a", "b"], trace


def test_a_decision_is_taken_once_or_not_at_all(
    fault: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare(place: Path) -> Path:
        run_dir = a_run(place, "a", "b")
        decide(run_dir, "pause")
        return run_dir

    for run_dir, trace in at_every_call(
        tmp_path, monkeypatch, fault, prepare, lambda run_dir: decide(run_dir, "resume")
    ):
        assert check_run(run_dir) == [], trace
        assert control.legs(run_dir).current in {1, 2}, trace
        assert decide(run_dir, "resume").leg == control.legs(run_dir).current, trace
        finishes(run_dir)
