"""A delivery that fails in any call to the disk: the next one ends the attempt, paying no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcompass.models.task import ArtifactRequest, TaskSpec
from agentcompass.runtime.delivery import held, run_cache
from agentcompass.runtime.finalize import Finalized, finalize
from agentcompass.runtime.ports import Delivered, Done
from agentcompass.store import attempts
from agentcompass.store.attempts import AttemptView
from agentcompass.store.check import check_run
from tests.fault.faulty_os import at_every_call
from tests.support.delivering import Lab, a_lab

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TASK = TaskSpec(task_id="t0", ground_truth="t0", artifacts=(ArtifactRequest(path="out.txt"),))


def test_whatever_call_fails_the_next_delivery_ends_the_attempt(
    fault: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labs: dict[Path, Lab] = {}

    def prepare(place: Path) -> Path:
        lab = a_lab(place, task_specs=[TASK], environ={"PATH": "/usr/bin:/bin"})
        labs[lab.run_dir] = lab
        return lab.run_dir

    def act(run_dir: Path) -> None:
        labs[run_dir].deliver()

    for run_dir, trace in at_every_call(tmp_path, monkeypatch, fault, prepare, act):
        lab = labs[run_dir]
        assert check_run(run_dir) == [], trace
        had_finished = has_snapshot(lab)
        monkeypatch.setattr(run_cache, "_runs", {})
        lab.leases.held.clear()
        monkeypatch.setattr(held.Held, "_execute_alone", here)

        assert isinstance(lab.deliver(), Done), trace

        agents = lab.ran("agent")
        assert agents == 1 if had_finished else agents <= 2, trace
        assert report_is_whole(lab), trace
        assert check_run(run_dir, deep=True) == [], trace


def here(delivery: held.Held, view: AttemptView) -> Delivered:
    """Stand in for a process of its own, which unit tests of executions alone do start."""
    return delivery._execute_here(view, resume=True)


def has_snapshot(lab: Lab) -> bool:
    found = attempts.find_task(lab.run_dir, "t0")
    return found is not None and (found[1] / "attempt-1" / "checkpoint.json").exists()


def report_is_whole(lab: Lab) -> bool:
    found = finalize(lab.run_dir)
    assert isinstance(found, Finalized)
    # A disk that was full while artifacts were collected is the attempt's own, fatal error.
    is_fatal = any(issue.severity == "fatal" for issue in lab.result().issues)
    return found.report.headline.value == (None if is_fatal else 1.0)
