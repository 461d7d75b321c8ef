"""What an attempt may cost the disk. The table is in the docstring of `store.attempts`."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcompass.store import atomic, attempts
from tests.fault.faulty_os import FaultyOs, MachineDied
from tests.support.store_runs import a_checkpoint, a_run, begin, execute, publish

SYNCS = ("fsync",)
NAMES = ("link", "rename", "replace")


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> FaultyOs:
    recording = FaultyOs(at=10**9, fault=MachineDied())
    monkeypatch.setattr(atomic, "os", recording)
    return recording


def count_of(recorded: FaultyOs, names: tuple[str, ...]) -> int:
    return sum(call in names for call in recorded.trace)


def files_below(run_dir: Path) -> list[str]:
    return sorted(path.name for path in (run_dir / "details").rglob("*") if path.is_file())


def test_an_attempt_of_a_k1_task_costs_7_fsyncs_4_names_and_4_files(
    tmp_path: Path, recorded: FaultyOs
) -> None:
    run_dir = a_run(tmp_path)
    recorded.trace.clear()

    view = begin(run_dir)
    attempts.write_snapshot(view, a_checkpoint(view))
    publish(run_dir, view)

    assert count_of(recorded, SYNCS) <= 7
    assert count_of(recorded, NAMES) <= 4
    mark = f"started-{view.token}.json"
    assert files_below(run_dir) == ["checkpoint.json", "result.json", mark, "task.json"]


def test_an_attempt_without_a_snapshot_costs_less(tmp_path: Path, recorded: FaultyOs) -> None:
    run_dir = a_run(tmp_path)
    recorded.trace.clear()

    execute(run_dir)

    assert (count_of(recorded, SYNCS), count_of(recorded, NAMES)) == (5, 3)


@pytest.mark.parametrize("attempt", [1, 2, 3])
def test_no_attempt_of_a_k3_task_costs_more(
    attempt: int, tmp_path: Path, recorded: FaultyOs
) -> None:
    run_dir = a_run(tmp_path, k=3)
    for earlier in range(1, attempt):
        execute(run_dir, attempt=earlier)
    recorded.trace.clear()

    view = begin(run_dir, attempt=attempt)
    attempts.write_snapshot(view, a_checkpoint(view))
    publish(run_dir, view)

    assert count_of(recorded, SYNCS) <= 7
    assert count_of(recorded, NAMES) <= 4


def test_bytes_reach_the_disk_before_their_name_and_the_name_before_we_return(
    tmp_path: Path, recorded: FaultyOs
) -> None:
    atomic.publish_once(tmp_path / "a", b"whole")

    told = [call for call in recorded.trace if call in {"write", "fsync", "link"}]
    assert told == ["write", "fsync", "link", "fsync"]


def test_a_replacement_is_on_disk_before_its_name_too(tmp_path: Path, recorded: FaultyOs) -> None:
    atomic.replace(tmp_path / "a", b"whole")

    told = [call for call in recorded.trace if call in {"write", "fsync", "replace"}]
    assert told == ["write", "fsync", "replace", "fsync"]


def test_a_result_and_its_directories_are_on_disk_before_publish_returns(
    tmp_path: Path, recorded: FaultyOs
) -> None:
    run_dir = a_run(tmp_path)
    view = begin(run_dir)
    recorded.trace.clear()

    publish(run_dir, view)

    told = [call for call in recorded.trace if call in {"fsync", *NAMES}]
    assert told == ["fsync", "link", "fsync", "fsync", "rename", "fsync"]
