from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentcompass.llm import wire


@pytest.fixture(autouse=True)
def _no_client_is_left() -> Iterator[None]:
    yield
    wire.close_clients()
