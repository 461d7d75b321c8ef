from __future__ import annotations

import os
from collections.abc import Iterator
from errno import EIO, ENOSPC
from pathlib import Path

import pytest

from agentcompass.runtime.finalize import finalize
from tests.fault.faulty_os import MachineDied
from tests.fault.others import Other
from tests.support.measured import a_measured_run
from tests.support.metrics import RIGHT, WRONG


@pytest.fixture(
    params=[MachineDied(), OSError(ENOSPC, "disk full"), OSError(EIO, "disk broken")],
    ids=["machine dies", "disk full once", "disk broken once"],
)
def fault(request: pytest.FixtureRequest) -> BaseException:
    assert isinstance(request.param, BaseException)
    return request.param


@pytest.fixture(autouse=True)
def fsync_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No machine really dies here, so nothing has to reach a disk; calls still count as calls."""
    monkeypatch.setattr(os, "fsync", lambda _fd: None)


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Iterator[Other]:
    """Somebody who has made a move when the test is over."""
    one = Other(monkeypatch)
    yield one
    assert one.has_moved


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """A run that is over, with its report."""
    outcomes = {"a": (RIGHT,), "b": (RIGHT,), "c": (WRONG,)}
    run_dir = a_measured_run(tmp_path, outcomes, categories={"a": "x", "b": "x", "c": "y"})
    finalize(run_dir)
    return run_dir
