from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker import server_binary
from tests.support.cluster import Cluster
from tests.support.laboratory import Laboratory


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    """One broker and one worker for all tests here; each run has a name of its own."""
    if server_binary() is None:
        pytest.skip("no Redis or Valkey server is installed")
    with Cluster(tmp_path_factory.mktemp("laboratory")) as cluster:
        cluster.broker.start()
        cluster.worker("prefork")
        yield Laboratory(cluster)
