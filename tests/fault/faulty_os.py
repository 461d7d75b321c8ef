"""An `os` module that fails at a chosen call, for the one module that changes a disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from errno import EIO
from itertools import count
from pathlib import Path

import pytest

from agentcompass.errors import AgentCompassError
from agentcompass.store import atomic, disk


class MachineDied(BaseException):
    """Not an Exception: no handler in the code under test outlives its own machine."""


class FaultyOs:
    """Stands in for `os` in `store.atomic`; raises `fault` at call number `at`, counted from 1.

    A machine that died stays dead: all later calls fail too, so that nothing tidies up, as after
    kill -9. Any other fault happens once. A write that fails has written half.
    """

    def __init__(self, at: int, fault: BaseException) -> None:
        self.at = at
        self.fault = fault
        self.trace: list[str] = []

    def __getattr__(self, name: str) -> object:
        real = getattr(os, name)
        is_call = callable(real) and not isinstance(real, type)
        return self._wrap(name, real) if is_call else real

    def _wrap(self, name: str, real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            self.trace.append(name)
            now = len(self.trace)
            if now < self.at or (now > self.at and not isinstance(self.fault, MachineDied)):
                return real(*args, **kwargs)
            if now == self.at and name == "write":
                fd, data = args
                os.write(fd, data[: len(data) // 2])  # type: ignore[arg-type, index]
            if name == "close":  # closes all the same, or the test runs out of descriptors
                real(*args)
            raise self.fault

        return call


def at_every_call(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: BaseException,
    prepare: Callable[[Path], Path],
    act: Callable[[Path], object],
    *,
    reads: bool = True,
) -> Iterator[tuple[Path, list[str]]]:
    """Do `act` in a fresh place once per system call, failing in it; yield each place afterwards.

    A broken disk fails in reads as well, unless there are too many of them to do it all again for
    each. A full one does not refuse them, and a machine that dies in one dies before the next write.

    Ends by itself when the fault is not reached any more: nobody keeps a list of crash points.
    """
    for at in count(1):
        place = tmp_path / str(at)
        place.mkdir()
        prepared = prepare(place)
        faulty = FaultyOs(at, fault)
        with monkeypatch.context() as patch:
            patch.setattr(atomic, "os", faulty)
            if reads and getattr(fault, "errno", None) == EIO:
                patch.setattr(disk, "os", faulty)
            with suppress(MachineDied, OSError, AgentCompassError):
                act(prepared)
        yield prepared, faulty.trace
        if len(faulty.trace) < at:
            assert at > 5, "is `os` still patched where it is used?"
            return
