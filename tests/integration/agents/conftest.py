from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from demo.scripted_agent import AgentScript
from demo.scripted_server import ScriptedServer
from tests.support.agents import CLUMSY, STUCK, WRONG, AgentLab
from tests.support.broker import server_binary
from tests.support.cluster import Cluster
from tests.support.engine_fixture import address


@pytest.fixture(scope="package")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentLab]:
    """A broker, a worker of each pool and a scripted model, for all tests here."""
    if server_binary() is None:
        pytest.skip("no Redis or Valkey server is installed")
    engine, why_no_engine = address()
    with ExitStack() as stack:
        server = stack.enter_context(ScriptedServer(AgentScript(WRONG, STUCK, CLUMSY)))
        folder = tmp_path_factory.mktemp("agents")
        home = folder / "home"
        home.mkdir()
        cluster = stack.enter_context(Cluster(folder, {"DOCKER_HOST": engine, "HOME": str(home)}))
        cluster.broker.start()
        for pool in ("prefork", "threads"):
            cluster.worker(pool)
        yield AgentLab(cluster, server, home, engine, why_no_engine)
