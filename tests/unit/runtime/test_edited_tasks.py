"""A task list that was changed after the seal: nobody executes it, reports on it or reuses it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agentcompass.coordinator.control import cancel
from agentcompass.coordinator.planning.plan import Planned
from agentcompass.coordinator.report import report
from agentcompass.coordinator.resuming.resume import Wish, examine
from agentcompass.coordinator.status import status
from agentcompass.errors import RecordCorrupt
from agentcompass.models.request import Request
from agentcompass.runtime.finalize import finalize
from agentcompass.runtime.ports import Done, Stale
from agentcompass.store import control
from agentcompass.store.reuse.source import open_source
from tests.builders import T0
from tests.support.delivering import Lab, a_lab


def no_plan(request: Request) -> Planned:
    raise AssertionError("planned a sealed run")


def edit(
    lab: Lab, old: bytes = b'"ground_truth":"t1"', new: bytes = b'"ground_truth":"t9"'
) -> None:
    """Change a task in place, as an editor that keeps the file's size and times."""
    path = lab.run_dir / "tasks.jsonl"
    before, found = path.read_bytes(), path.stat()
    assert old in before
    path.write_bytes(before.replace(old, new))
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


READERS: dict[str, Callable[[Path], object]] = {
    "resume": lambda run_dir: examine(run_dir, Wish(), plan=no_plan, now=lambda: T0),
    "status": lambda run_dir: status(run_dir, T0),
    "report": report,
    "finalize": finalize,
    "reuse": open_source,
}


@pytest.mark.parametrize("name", READERS)
def test_it_is_refused_by_name(name: str, tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    lab.deliver("t0")
    lab.deliver("t1")
    READERS[name](lab.run_dir)

    edit(lab)

    with pytest.raises(RecordCorrupt, match=r"tasks\.jsonl: is not the task list that was sealed"):
        READERS[name](lab.run_dir)


def test_a_worker_that_knows_the_run_executes_none_of_its_tasks(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    assert lab.deliver("t0") == Done("published")

    edit(lab)

    found = lab.deliver("t1")
    assert isinstance(found, Stale)
    assert "not the task list that was sealed" in str(found)
    assert lab.ran("agent", "t1") == 0


def test_the_sealed_list_put_back_is_good_again(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    edit(lab)
    assert isinstance(lab.deliver("t1"), Stale)

    edit(lab, b'"ground_truth":"t9"', b'"ground_truth":"t1"')

    assert lab.deliver("t1") == Done("published")


def test_such_a_run_can_be_cancelled(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    edit(lab)

    cancel(lab.run_dir, reason="", by="me", at=T0)

    assert control.legs(lab.run_dir).state == "cancelled"
