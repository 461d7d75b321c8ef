from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from demo.scripted_agent import AgentScript
from demo.scripted_server import ScriptedServer
from demo.scripted_wires import Answer, Call
from tests.support.agents import CLUMSY, STUCK, WRONG, AgentLab
from tests.support.broker import server_binary
from tests.support.cluster import Cluster
from tests.support.engine_fixture import address

SILENT = "silent"
"""A model that begins to work and then never answers again."""


class Script(AgentScript):
    def answer(self, call: Call) -> Answer:
        found = super().answer(call)
        is_silent = call.body["model"] == SILENT and call.heard.turns > 0
        return replace(found, stall=True) if is_silent else found


@pytest.fixture(scope="package")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentLab]:
    """A broker, a worker of each pool and a scripted model, for all tests here."""
    if server_binary() is None:
        pytest.skip("no Redis or Valkey server is installed")
    engine, why_no_engine = address()
    with ExitStack() as stack:
        server = stack.enter_context(ScriptedServer(Script(WRONG, STUCK, CLUMSY)))
        folder = tmp_path_factory.mktemp("agents")
        home = folder / "home"
        home.mkdir()
        cluster = stack.enter_context(Cluster(folder, {"DOCKER_HOST": engine, "HOME": str(home)}))
        cluster.broker.start()
        for pool in ("prefork", "threads"):
            cluster.worker(pool)
        yield AgentLab(cluster, server, home, engine, why_no_engine)
