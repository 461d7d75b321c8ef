"""The fixture `engine`: one Docker engine for the whole session, whichever tests use it."""

from __future__ import annotations

import atexit
from contextlib import ExitStack
from functools import cache

import pytest

from tests.support.docker_engine import NoEngine, running_engine


@cache
def address() -> tuple[str, str]:
    """Return the address of the engine, or "" and why there is none."""
    stack = ExitStack()
    atexit.register(stack.close)
    try:
        return stack.enter_context(running_engine()), ""
    except NoEngine as reason:
        return "", str(reason)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the address of an engine of our own, which `DOCKER_HOST` names."""
    place, reason = address()
    if not place:
        pytest.skip(reason)
    monkeypatch.setenv("DOCKER_HOST", place)
    return place
