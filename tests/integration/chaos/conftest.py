from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker import server_binary
from tests.support.chaos_house import House


@pytest.fixture
def empty_house(tmp_path: Path) -> Iterator[House]:
    """A Redis; the workers are the test's own."""
    yield from _house(tmp_path)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A worker of each pool, shared by a module whose tests leave them alive."""
    for each in _house(tmp_path_factory.mktemp("house")):
        each.awaits(each.worker("prefork", 2), each.worker("threads", 4))
        yield each


def _house(directory: Path) -> Iterator[House]:
    if server_binary() is None:
        pytest.skip("no Redis or Valkey server is installed")
    with House(directory) as made:
        yield made
