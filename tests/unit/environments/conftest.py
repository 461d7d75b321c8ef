from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest

from agentcompass.environments.base import EnvironmentPlan
from agentcompass.environments.host_process import HostProcess, HostProcessParams
from agentcompass.models.task import TaskResources

Open = Callable[..., HostProcess]
TOKEN: Final = uuid4().hex
"""Whoever ends processes by it looks for them on the whole machine: others test there, too."""


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Start host environments with the given parameters; all are closed in the end."""
    made: list[HostProcess] = []

    def open_one(resources: TaskResources | None = None, **params: object) -> HostProcess:
        folder = tmp_path / f"environment-{len(made)}"
        folder.mkdir()
        environment = HostProcess(HostProcessParams.model_validate(params))
        plan = EnvironmentPlan(TOKEN, folder, {}, resources or TaskResources())
        environment.start(plan)
        made.append(environment)
        return environment

    yield open_one
    for environment in made:
        environment.close()


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def is_gone(pid: int, within_s: float = 10.0) -> bool:
    """Wait for the end of a process that is to end."""
    until = time.monotonic() + within_s
    while is_alive(pid) and time.monotonic() < until:
        time.sleep(0.01)
    return not is_alive(pid)


def children() -> set[str]:
    return set(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text("utf-8").split())
