from __future__ import annotations

from pathlib import Path

from agentcompass.store.check import check_run
from tests.support.store_runs import a_run, execute, write_report


def test_a_whole_run_keeps_every_invariant(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path, "a", "b", k=3)
    for task_id in ("a", "b"):
        for attempt in (1, 2, 3):
            assert execute(run_dir, task_id, attempt)

    info = write_report(run_dir)

    assert info.status == "completed"
    assert check_run(run_dir) == []
