from __future__ import annotations

from pathlib import Path
from threading import Thread

import pytest

from agentcompass.errors import RecordCorrupt, RunNotFound
from agentcompass.models.run_info import ControlRecord
from agentcompass.store import control
from tests.builders import T0
from tests.support.store_runs import a_run, decide


def test_decisions_are_numbered_and_folded_in_order(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)

    decide(run_dir, "pause")
    decide(run_dir, "resume")

    assert sorted(path.name for path in (run_dir / "control").iterdir()) == [
        "0001.json",
        "0002.json",
    ]
    assert [record.action for record in control.control_records(run_dir)] == ["pause", "resume"]
    assert (control.legs(run_dir).current, control.legs(run_dir).state) == (2, "open")


def test_the_next_decision_is_made_knowing_the_one_that_came_between(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    seen = []

    def record_for(current: int) -> ControlRecord:
        seen.append(current)
        if len(seen) == 1:
            decide(run_dir, "resume")  # another process is faster
        return ControlRecord(leg=current + 1, action="resume", at=T0)

    assert control.append(run_dir, record_for).leg == 3
    assert seen == [1, 2]


def test_many_at_once_open_a_leg_each(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    threads = [Thread(target=decide, args=(run_dir, "resume")) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [record.leg for record in control.control_records(run_dir)] == list(range(2, 10))
    assert control.legs(run_dir).current == 9


def test_nothing_new_costs_one_listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir = a_run(tmp_path)
    decide(run_dir, "resume")
    before = control.legs(run_dir)
    monkeypatch.setattr(control, "fold", None)

    assert control.legs(run_dir) is before


def test_a_record_that_the_share_showed_late_is_folded_in_its_place(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    decide(run_dir, "pause")
    decide(run_dir, "resume")
    first = run_dir / "control" / "0001.json"
    data = first.read_bytes()
    first.unlink()
    assert control.legs(run_dir).closed_through == 0

    first.write_bytes(data)

    assert control.legs(run_dir).closed_through == 1


def test_other_files_are_no_records(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    (run_dir / "control" / ".tmp-1").write_text("half")

    assert control.legs(run_dir).current == 1


def test_a_record_that_cannot_be_read_stops(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    (run_dir / "control" / "0001.json").write_text('{"leg": 1, "leg": 2}')

    with pytest.raises(RecordCorrupt, match=r"0001\.json"):
        control.legs(run_dir)


def test_without_a_run_there_are_no_legs(tmp_path: Path) -> None:
    with pytest.raises(RunNotFound):
        control.legs(tmp_path / "gone")


def test_the_memory_of_runs_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "_CACHE_LIMIT", 2)
    monkeypatch.setattr(control, "_cache", {})
    for name in "abc":
        (tmp_path / name / "control").mkdir(parents=True)
        control.legs(tmp_path / name)

    assert len(control._cache) <= 2
