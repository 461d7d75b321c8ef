"""An `os` module that fails at a chosen call, for the one module that changes a disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from errno import EIO
from functools import partial
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


class OvertakenOs:
    """Stands in for `os`: before call number `at`, another process does all that it has to do.

    So does a machine that stands still there; it goes on with what it has read before. With
    `dies_at` it dies in a later call.
    """

    def __init__(
        self, at: int, meanwhile: Callable[[], object], dies_at: int | None = None
    ) -> None:
        self.trace: list[str] = []
        self._at, self._dies_at = at, dies_at
        self._meanwhile = meanwhile
        self._is_away = False

    def __getattr__(self, name: str) -> object:
        real = getattr(os, name)
        if not callable(real) or isinstance(real, type):
            return real

        def call(*args: object, **kwargs: object) -> object:
            if self._is_away:
                return real(*args, **kwargs)
            self.trace.append(name)
            if len(self.trace) == self._at:
                self._is_away = True
                self._meanwhile()
                self._is_away = False
            if self._dies_at is not None and len(self.trace) >= self._dies_at:
                if name == "close":
                    real(*args)
                raise MachineDied
            return real(*args, **kwargs)

        return call


def overtaken_at_every_call(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    prepare: Callable[[Path], Path],
    act: Callable[[Path], object],
    meanwhile: Callable[[Path], object],
    *,
    dies_after: int | None = None,
) -> Iterator[tuple[Path, list[str]]]:
    """Do `act` in a fresh place once per system call, reads included, `meanwhile` coming before it.

    Yields each place afterwards, with the calls up to the one that came too late.

    Args:
        dies_after: so many calls after that one the machine dies, too.
    """
    for at in count(1):
        place = tmp_path / str(at)
        place.mkdir()
        prepared = prepare(place)
        dies_at = at + dies_after if dies_after is not None else None
        overtaken = OvertakenOs(at, partial(meanwhile, prepared), dies_at)
        with monkeypatch.context() as patch:
            patch.setattr(atomic, "os", overtaken)
            patch.setattr(disk, "os", overtaken)
            with suppress(MachineDied):
                act(prepared)
        if len(overtaken.trace) < at:
            assert at > 5, "is `os` still patched where it is used?"
            return
        yield prepared, overtaken.trace[:at]
