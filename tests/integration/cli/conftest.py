from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.broker import server_binary
from tests.support.cluster import Cluster
from tests.support.stubs import executions
from tests.support.tree import published_in

STUBS = "tests.support.stubs"


@dataclass
class Bench:
    """A cluster with stub plug-ins, and the ledger of what they executed."""

    cluster: Cluster

    @property
    def ledger(self) -> Path:
        return self.cluster.directory / "ledger.jsonl"

    def flags(
        self, tasks: int, *more: str, script: Mapping[str, str] | None = None
    ) -> Sequence[str]:
        """Return the flags of a run over tasks t0, t1, …, whose agent follows a script."""
        ids = [f"t{number}" for number in range(tasks)]
        return (
            *("--benchmark", f"{STUBS}:StubBenchmark", "--harness", f"{STUBS}:StubHarness"),
            *("--environment", f"{STUBS}:StubEnvironment", "--model", "m"),
            *("--param", f"benchmark.tasks={json.dumps(ids)}"),
            *("--param", f"harness.script={json.dumps(script or {})}"),
            *("--param", f"harness.ledger={self.ledger}"),
            *("--results-dir", str(self.cluster.results)),
            *more,
        )

    def executed(self, task_id: str | None = None) -> int:
        return executions(self.ledger, "agent", task_id)

    def results(self) -> int:
        return published_in(self.cluster.results)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    if server_binary() is None:
        pytest.skip("no Redis or Valkey server is installed")
    with Cluster(tmp_path) as cluster:
        yield Bench(cluster)
