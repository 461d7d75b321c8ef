from __future__ import annotations

import os
from pathlib import Path

from agentcompass.store import layout
from agentcompass.store.check import check_run
from agentcompass.store.sweep import sweep
from tests.support.store_runs import a_run, begin, execute


def leave(path: Path, *, age_s: float) -> Path:
    path.write_text("half a re")
    time = path.stat().st_mtime - age_s
    os.utime(path, (time, time))
    return path


def test_old_temporary_files_go_and_young_ones_stay(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path, "a", "b")
    execute(run_dir, "a")
    attempt = begin(run_dir, "b").directory
    old = [
        leave(directory / ".tmp-old", age_s=4_000)
        for directory in (run_dir, run_dir / layout.CONTROL, attempt, attempt.parent)
    ]
    young = leave(attempt / ".tmp-young", age_s=10)

    assert sweep(run_dir) == len(old)

    assert [path for path in old if path.exists()] == []
    assert young.exists()
    assert check_run(run_dir) == []


def test_nothing_else_is_touched(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    execute(run_dir)
    before = sorted(run_dir.rglob("*"))

    assert sweep(run_dir, min_age_s=0) == 0
    assert sorted(run_dir.rglob("*")) == before


def test_a_directory_that_was_moved_is_left_to_the_next_sweep(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    (run_dir / layout.CONTROL).rmdir()

    assert sweep(run_dir) == 0
