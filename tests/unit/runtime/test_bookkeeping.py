"""Threads keep their books one after the other, and nobody waits for one who waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from agentcompass.runtime import bookkeeping as module
from agentcompass.runtime.bookkeeping import bookkeeping, others_go_on
from agentcompass.runtime.calling import calls
from tests.unit.runtime.conftest import a_limit

LONG_S = 20.0


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody gives up waiting, unless a test says so."""
    monkeypatch.setattr(module, "COURTESY_S", LONG_S)


@contextmanager
def beside(fn: Callable[[], None]) -> Iterator[threading.Thread]:
    """Let another thread do something; yields it."""
    thread = threading.Thread(target=fn, daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        thread.join(LONG_S)
        assert not thread.is_alive()


class Visitor:
    """Keeps books once, and says so."""

    def __init__(self) -> None:
        self.was_here = threading.Event()

    def __call__(self) -> None:
        with bookkeeping():
            self.was_here.set()


def a_visitor_waits(around: Callable[[], None] = lambda: None) -> bool:
    """Keep books and do something meanwhile; return whether a visitor then came only afterwards."""
    visitor = Visitor()
    thread = threading.Thread(target=visitor)
    with bookkeeping():
        around()
        thread.start()
        was_here_too_early = visitor.was_here.wait(0.1)
    thread.join(LONG_S)
    return visitor.was_here.is_set() and not was_here_too_early


def test_one_waits_for_the_other() -> None:
    assert a_visitor_waits()


def test_inside_of_itself_it_keeps_the_turn_that_it_has() -> None:
    def nested() -> None:
        with bookkeeping():
            pass

    assert a_visitor_waits(nested)


def test_who_has_waited_long_enough_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COURTESY_S", 0.01)
    visitor = Visitor()

    with bookkeeping(), beside(visitor):
        assert visitor.was_here.wait(LONG_S)


def test_who_went_on_takes_nobody_elses_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COURTESY_S", 0.01)
    with bookkeeping(), beside(Visitor()):
        pass
    monkeypatch.setattr(module, "COURTESY_S", LONG_S)

    assert a_visitor_waits()


def test_where_many_wait_already_nobody_joins_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_queue", threading.Semaphore(0))
    visitor = Visitor()

    with bookkeeping(), beside(visitor):
        assert visitor.was_here.wait(LONG_S)


def test_who_lets_others_go_on_comes_back() -> None:
    def let_one_go_on() -> None:
        visitor = Visitor()
        with others_go_on(), beside(visitor):
            assert visitor.was_here.wait(LONG_S)

    assert a_visitor_waits(let_one_go_on)


def test_an_error_gives_the_turn_back() -> None:
    with pytest.raises(OSError, match="full"), bookkeeping():
        raise OSError("full")
    with pytest.raises(OSError, match="full"), bookkeeping(), others_go_on():
        raise OSError("full")

    visitor = Visitor()
    with beside(visitor):
        assert visitor.was_here.wait(LONG_S)


async def _meet_later(visitor: Visitor) -> bool:
    return visitor.was_here.wait(LONG_S)


def _meet(visitor: Visitor) -> bool:
    return visitor.was_here.wait(LONG_S)


@pytest.mark.parametrize("plug_in", [_meet, _meet_later])
def test_a_plug_in_keeps_nobody_waiting(plug_in: Any, pool: Callable[..., Any]) -> None:
    """Hundreds of attempts wait in their plug-ins at once."""

    def attempt() -> object:
        visitor = Visitor()
        with bookkeeping(), beside(visitor):
            return calls.call(a_limit(), plug_in, visitor)

    assert pool(attempt) is True
