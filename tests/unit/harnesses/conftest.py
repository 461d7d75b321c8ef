from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentcompass.llm import wire
from agentcompass.models.context import AttemptContext


@pytest.fixture(autouse=True)
def _no_client_is_left() -> Iterator[None]:
    yield
    wire.close_clients()


@pytest.fixture
def a_context(tmp_path: Path) -> Callable[..., AttemptContext]:
    def build(
        *, task_id: str = "task-1", attempt: int = 1, seconds: float = 20.0
    ) -> AttemptContext:
        work_dir = tmp_path / "scratch"
        work_dir.mkdir(exist_ok=True)
        deadline_s = time.monotonic() + seconds
        return AttemptContext(
            run_id="run-1",
            task_id=task_id,
            attempt=attempt,
            token="t" * 32,
            make_work_dir=lambda: work_dir,
            read_deadline=lambda: deadline_s,
            logger=logging.getLogger("tests"),
            progress=lambda _: None,
        )

    return build
