"""What people see while something runs: a bar on a terminal, plain lines elsewhere, all on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TextIO

from agentcompass.coordinator.planning.start import SealedRun
from agentcompass.coordinator.watching.progress import Progress

_BAR_CELLS: Final = 24
_LINE_EVERY_S: Final = 10.0


class Console:
    """Shows progress. Standard output is for results and `--json` only."""

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        several: bool = False,
        names: Mapping[Path, str] | None = None,
    ) -> None:
        """Show one run, or several with a name before each line.

        Args:
            names: of runs that share an id, such as those of a launch; others go by their ids.
        """
        self._stream = stream or sys.stderr
        self._is_terminal = self._stream.isatty()
        self._several = several
        self._names = names or {}
        self._bar = ""
        self._shown: dict[str, tuple[float, int]] = {}

    def progress(self, run: SealedRun, progress: Progress) -> None:
        """Redraw the bar, or print a line if enough has happened or enough time has passed."""
        text = self._named(run, self._text(progress))
        if self._is_terminal and not self._several:
            self._draw(text)
            return
        at_s, done = self._shown.get(run.address.ref, (-_LINE_EVERY_S, -1))
        is_over = progress.done >= progress.total
        if progress.done == done or (time.monotonic() - at_s < _LINE_EVERY_S and not is_over):
            return
        self._shown[run.address.ref] = (time.monotonic(), progress.done)
        self._write(f"{text}\n")

    def say(self, run: SealedRun, message: str) -> None:
        """Print a line above the bar."""
        self.line(self._named(run, message))

    def line(self, text: str) -> None:
        """Print a line that belongs to no run."""
        bar = self._bar
        self.clear()
        self._write(f"{text}\n")
        if bar:
            self._draw(bar)

    def clear(self) -> None:
        """Remove the bar, so that results stand alone."""
        if self._bar:
            self._write(f"\r{' ' * len(self._bar)}\r")
            self._bar = ""

    def _text(self, progress: Progress) -> str:
        bar = ""
        if self._is_terminal and not self._several:
            filled = _BAR_CELLS * progress.done // max(progress.total, 1)
            bar = f"[{'#' * filled}{'.' * (_BAR_CELLS - filled)}] "
        parts = [f"{bar}{progress.done}/{progress.total} attempts"]
        if progress.failed_tasks:
            parts.append(f"{progress.failed_tasks} tasks with errors")
        if progress.eta_s is not None and progress.done < progress.total:
            parts.append(f"about {duration(progress.eta_s)} left")
        return ", ".join(parts)

    def _named(self, run: SealedRun, text: str) -> str:
        name = self._names.get(run.address.run_dir) or run.info.run_id
        return f"{name}: {text}" if self._several else text

    def _draw(self, text: str) -> None:
        self._write(f"\r{text}{' ' * max(0, len(self._bar) - len(text))}")
        self._bar = text

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def duration(seconds: float) -> str:
    """Return a duration as people say it: `42 s`, `3:05 min`, `2:07 h`, `3 d`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60}:{whole % 60:02d} min"
    if whole < 172_800:
        return f"{whole // 3_600}:{whole % 3_600 // 60:02d} h"
    return f"{whole // 86_400} d"
