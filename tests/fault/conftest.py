from __future__ import annotations

import os
from errno import EIO, ENOSPC

import pytest

from tests.fault.faulty_os import MachineDied


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
