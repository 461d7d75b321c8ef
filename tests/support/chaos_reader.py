"""Somebody who reads a run while everything happens to it, as dashboards and people do."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_EVERY_S: Final = 0.1
_OF_THE_RUN: Final = ("run_info.json", "metrics.json", ".covered.json", "params.json")


class Reader:
    """Reads every record of a run again and again; none may ever be half written."""

    def __init__(self, run_dir: Path) -> None:
        self.broken: list[str] = []
        self.read = 0
        self._run_dir = run_dir
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="reader", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end.set()
        self._thread.join()

    def _go_on(self) -> None:
        while not self._end.wait(_EVERY_S):
            try:
                for path in self._records():
                    self._look_at(path)
            except OSError as error:
                self.broken.append(str(error))

    def _look_at(self, path: Path) -> None:
        with suppress(FileNotFoundError):  # moved this very moment, or not there yet
            data = path.read_bytes()
            self.read += 1
            try:
                json.loads(data)
            except ValueError as error:
                self.broken.append(f"{path}: {error}: {data[:80]!r}")

    def _records(self) -> Iterator[Path]:
        yield from (self._run_dir / name for name in _OF_THE_RUN)
        for task in _newest(self._run_dir / "details" / "running"):
            yield task / "task.json"
            for name in ("result.json", "checkpoint.json"):
                yield task / "attempt-1" / name


def _newest(folder: Path) -> list[Path]:
    """Return some of what is being worked on."""
    with suppress(OSError):
        return [Path(entry.path) for entry in list(os.scandir(folder))[:5]]
    return []
