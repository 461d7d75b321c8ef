"""How much is measured: some minutes by default, all that the bars ask for with `--full`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """Sizes and rounds."""

    rounds: int = 3
    attempts: tuple[int, ...] = (200, 1_000, 5_000)
    """Tasks of the runs that are executed."""
    in_threads: int = 1_000
    """Tasks of the run that is executed in the pool `threads`."""
    messages: int = 10_000
    """Attempts of the run that is only dispatched."""
    complete: int = 5_000
    """Tasks of a complete run that is looked at, and reused."""
    runs: int = 200
    """Runs that are listed."""
    small_results: int = 20_000
    """Results of 2 kB that are reported."""
    large_results: int = 400
    """Results of 5 MB that are reported."""
    waiting: int = 1_000
    """Attempts that wait at once."""


FULL = Scale(
    attempts=(200, 1_000, 5_000, 100_000),
    in_threads=5_000,
    messages=100_000,
    runs=2_000,
    small_results=100_000,
)
