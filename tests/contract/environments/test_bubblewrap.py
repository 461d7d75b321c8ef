from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from agentcompass.environments.base import EnvironmentPlan
from agentcompass.environments.bubblewrap import Bubblewrap, BubblewrapParams
from tests.contract.environments.suite import EnvironmentContract, Open, Opened
from tests.support.sandboxes import needs_bubblewrap


@needs_bubblewrap
class TestBubblewrap(EnvironmentContract):
    @pytest.fixture
    def opened(self, tmp_path: Path) -> Iterator[Open]:
        made: list[Bubblewrap] = []

        def open_one(**env: str) -> Opened:
            folder = tmp_path / f"environment-{len(made)}"
            folder.mkdir()
            params = BubblewrapParams(output_limit_bytes=self.OUTPUT_LIMIT)
            made.append(Bubblewrap(params))
            made[-1].start(EnvironmentPlan(token=uuid4().hex, work_dir=folder, env=env))
            return made[-1]

        yield open_one
        for environment in made:
            environment.close()

    @pytest.fixture
    def unopened(self) -> Opened:
        return Bubblewrap(BubblewrapParams())
