from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from agentcompass.environments.base import EnvironmentPlan
from agentcompass.environments.docker.environment import Docker, DockerParams
from tests.contract.environments.suite import EnvironmentContract, Open, Opened
from tests.support.docker_engine import IMAGE


@pytest.mark.integration
class TestDocker(EnvironmentContract):
    @pytest.fixture
    def opened(self, engine: str, tmp_path: Path) -> Iterator[Open]:
        made: list[Docker] = []

        def open_one(**env: str) -> Opened:
            folder = tmp_path / f"environment-{len(made)}"
            folder.mkdir()
            made.append(Docker(DockerParams(image=IMAGE, output_limit_bytes=self.OUTPUT_LIMIT)))
            made[-1].start(EnvironmentPlan(token=uuid4().hex, work_dir=folder, env=env))
            return made[-1]

        yield open_one
        for environment in made:
            environment.close()

    @pytest.fixture
    def unopened(self) -> Opened:
        return Docker(DockerParams())
