"""A run that takes over another one: a fault at any call, then somebody goes on. The source stays."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agentcompass.coordinator.planning.start import plan_again
from agentcompass.models.request import ReuseSettings
from agentcompass.models.run_info import RunInfo
from agentcompass.store import run_info, scan
from agentcompass.store.check import check_run
from agentcompass.store.names import namespace_of
from agentcompass.store.reserve import reserve
from agentcompass.store.root import open_root
from tests.builders import T0, a_task
from tests.fault.faulty_os import at_every_call
from tests.support.reusing import (
    TASKS,
    fingerprint,
    look,
    new_request,
    planned,
    the_source,
)

SPECS = [a_task(task_id) for task_id in TASKS]
REQUEST = new_request(run_id="target", reuse=ReuseSettings())


def published(run_dir: Path) -> dict[str, int]:
    found = scan.scan(run_dir).tasks
    return {name.partition("--")[0]: len(task.published) for name, task in found.items()}


@pytest.fixture
def template(tmp_path: Path) -> Path:
    """A results folder with a source, and a target that died just after it was described."""
    results = tmp_path / "template" / "results"
    (tmp_path / "template").mkdir()
    the_source(results)
    chosen = look(results, REQUEST, SPECS)
    assert chosen.reuse is not None
    root = open_root(results)
    run_dir = reserve(root, namespace_of(REQUEST), "target", T0)
    info = RunInfo(run_id="target", started_at=T0, request=REQUEST, reused_from=chosen.reuse.begun)
    run_info.write_reserved(run_dir, info)
    return results


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_reuse_is_whole_or_goes_on_and_the_source_never_changes(
    fault: BaseException, template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare(place: Path) -> Path:
        fresh = next(template.glob("*/target"))  # its source stays where it is
        return Path(shutil.copytree(fresh, place / "target"))

    before = fingerprint(next(template.glob("*/source")))
    calls = at_every_call(tmp_path, monkeypatch, fault, prepare, goes_on, reads=False)
    for target, trace in calls:
        info = goes_on(target)
        assert check_run(target, deep=True) == [], trace
        assert info.reused_from is not None, trace
        assert (info.reused_from.attempts, info.reused_from.evaluations) == (3, 1), trace
        assert published(target) == {"whole": 2, "half": 1, "errored": 0}, trace
        assert not list(target.glob(".tmp-reuse-*")), trace
    assert fingerprint(next(template.glob("*/source"))) == before


def goes_on(target: Path) -> RunInfo:
    """Plan again what was not sealed; twice is as good as once."""
    return plan_again(target, lambda request: planned(request, SPECS), now=lambda: T0)
