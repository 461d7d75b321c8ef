from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker import RealBroker, server_binary
from tests.support.worker_lab import WorkerLab


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RealBroker]:
    if server_binary() is None:
        pytest.skip("no Redis or Valkey server is installed")
    real = RealBroker(tmp_path / "redis")
    real.start()
    yield real
    real.close()


@pytest.fixture
def lab(tmp_path: Path, broker: RealBroker) -> Iterator[WorkerLab]:
    made = WorkerLab(tmp_path, broker)
    yield made
    made.close()
