"""A launch that dies at any call: its record names every run, and no request gets a second one."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcompass.coordinator.asking.validation import request_of
from agentcompass.coordinator.launching.launch import Launch, publish
from agentcompass.coordinator.launching.suite import NamedRequest
from agentcompass.coordinator.planning.plan import plan
from agentcompass.coordinator.planning.start import Place, plan_again, start
from agentcompass.models.launch import LaunchedRequest
from agentcompass.store import launches, reserve
from agentcompass.store.check import check_run
from agentcompass.store.root import find_root
from tests.builders import T0
from tests.fault.faulty_os import at_every_call
from tests.support.coordinated import request_fields
from tests.support.store_runs import a_root

pytestmark = pytest.mark.timeout(300)

REQUEST = request_of(request_fields(), where="here")
SUITE = [NamedRequest(name, REQUEST, "here") for name in ("one", "two")]


def begin(launch: Launch, entry: LaunchedRequest) -> None:
    """Do for one request what `launch` does, and what its `resume` does."""
    if launch.has_run(entry):
        plan_again(launch.run_dir(entry), plan, now=lambda: T0)
    else:
        with plan(entry.request) as planned:
            place = Place(entry.name, reserve.adopt)
            start(launch.root, planned, now=lambda: T0, announce=lambda _: None, place=place)
    launch.begun(entry.name)


def act(results: Path) -> None:
    root = find_root(results)
    assert root is not None
    launch = publish(root, "nightly", SUITE, T0)
    for entry in launch.record.requests:
        begin(launch, entry)


def runs_in(results: Path) -> list[str]:
    """Return every directory that was reserved, with or without anything in it."""
    found = [path for name in ("one", "two") for path in (results / name).glob("*")]
    return [path.relative_to(results).as_posix() for path in found]


def test_it_goes_on_in_the_runs_that_it_named(
    fault: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for results, trace in at_every_call(
        tmp_path, monkeypatch, fault, lambda place: a_root(place).path, act
    ):
        records = list((results / ".launches").glob("*.json"))
        if not records:
            assert runs_in(results) == [], trace
            continue
        launch = Launch(*launches.load(records[0]))
        named = [entry.run for entry in launch.record.requests]
        assert set(runs_in(results)) <= set(named), trace

        for entry in launch.record.requests:
            begin(launch, entry)

        assert runs_in(results) == named, trace
        assert [check_run(results / run) for run in named] == [[], []], trace
