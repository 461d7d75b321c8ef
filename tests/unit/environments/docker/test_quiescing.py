"""What ends everything in a container, told by what the engine is asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from agentcompass.environments.docker import environment as module
from agentcompass.environments.docker.environment import Docker, DockerParams


class Engine:
    """An engine that shows the container's own processes only."""

    def __init__(self) -> None:
        self.restarts = 0

    def top(self, _container: str) -> dict[str, Any]:
        return {"Processes": [["1"], ["2"], ["3"]]}

    def restart(self, _container: str, timeout: int) -> None:
        assert timeout == 0
        self.restarts += 1


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def docker(engine: Engine) -> Docker:
    made = Docker(DockerParams(image="any"))
    made._client = SimpleNamespace(api=engine)  # type: ignore[assignment]
    return made


def test_a_quiet_container_is_left_alone(docker: Docker, engine: Engine) -> None:
    docker.quiesce()

    assert engine.restarts == 0


def test_a_call_that_was_cut_off_may_begin_its_command_after_the_look(
    docker: Docker, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "run", cut_off)
    with pytest.raises(KeyboardInterrupt):
        docker.exec("true")

    docker.quiesce()
    docker.quiesce()

    assert engine.restarts == 1
