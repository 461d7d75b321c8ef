from __future__ import annotations

import shutil
from pathlib import Path

from agentcompass.coordinator.runs import LiveRuns, find_runs, opened
from tests.support.store_runs import a_reserved_run, execute, write_report
from tests.unit.coordinator.conftest import RunMaker


def test_runs_are_found_at_any_level_and_runs_are_not_looked_into(
    make_run: RunMaker, tmp_path: Path
) -> None:
    run_dir = make_run("a").address.run_dir
    (run_dir / "details" / "running" / "run_info.json").write_text("{}")
    deep = tmp_path / "results" / "x" / "y" / "run-1"
    deep.mkdir(parents=True)
    (deep / "run_info.json").write_text("{}")

    assert list(find_runs(tmp_path / "results")) == sorted([run_dir, deep])


def test_only_runs_with_work_to_watch_are_live(make_run: RunMaker, tmp_path: Path) -> None:
    live, over = make_run("a"), make_run("a")
    execute(over.address.run_dir, "a")
    write_report(over.address.run_dir)
    a_reserved_run(tmp_path)
    broken = tmp_path / "results" / "broken"
    broken.mkdir()
    (broken / "run_info.json").write_text("{")

    found = LiveRuns(tmp_path / "results")

    assert [run.address.run_dir for run in found] == [live.address.run_dir]


def test_a_run_that_goes_away_is_live_no_more(make_run: RunMaker, tmp_path: Path) -> None:
    run = make_run("a")
    found = LiveRuns(tmp_path / "results")
    assert len(list(found)) == 1

    shutil.rmtree(run.address.run_dir)

    assert list(found) == []


def test_a_run_is_opened_as_workers_find_it(make_run: RunMaker) -> None:
    run = make_run("a")

    assert opened(run.address.run_dir) == run
