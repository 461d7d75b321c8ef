"""CPU seconds, wall seconds and peak memory of commands and of trees of processes (Linux)."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PYTHON: Final = sys.executable
OURS: Final = (PYTHON, "-m", "agentcompass.cli.main")
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_PROC: Final = Path("/proc")
_LOOK_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Spent:
    """What a finished command used, its own finished children included."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    output: str = ""


def spent_by(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, accepts: Iterable[int] = (0,)
) -> Spent:
    """Run a command to its end; RuntimeError if its exit code is not one of `accepts`."""
    start = time.perf_counter()
    # What it prints goes through a file: a pipe that nobody empties would stop it.
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(
            command, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, stdout=printed
        )
        peak_mb = _peak_until_end_mb(process.pid)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        output = printed.read().decode()
    if process.returncode not in accepts:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return Spent(wall_s, usage.ru_utime + usage.ru_stime, peak_mb, output)


def _peak_until_end_mb(pid: int) -> float:
    """Return the largest memory of a process; `ru_maxrss` would count that of its parent, too."""
    peak_mb = 0.0
    descriptor = os.pidfd_open(pid)
    try:
        while not select.select([descriptor], [], [], _LOOK_S)[0]:
            peak_mb = _field_of(pid, "status", "VmHWM:") / 1e6 or peak_mb
    finally:
        os.close(descriptor)
    return peak_mb


def cpu_of_tree(root: int) -> float:
    """Return the CPU seconds of a process, its descendants, and those that they have reaped."""
    parents, seconds = _processes()
    return sum(seconds.get(pid, 0.0) for pid in _tree(root, parents))


def memory_of_tree(root: int) -> float:
    """Return the proportional memory of a process and its descendants, in MB."""
    parents, _ = _processes()
    return sum(_field_of(pid, "smaps_rollup", "Pss:") for pid in _tree(root, parents)) / 1e6


def _tree(root: int, parents: Mapping[int, int]) -> set[int]:
    members, size = {root}, 0
    while len(members) > size:
        size = len(members)
        members |= {pid for pid, parent in parents.items() if parent in members}
    return members


def _processes() -> tuple[dict[int, int], dict[int, float]]:
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for path in _PROC.iterdir():
        if not path.name.isdigit():
            continue
        try:
            text = path.joinpath("stat").read_bytes()
        except OSError:
            continue
        fields = text[text.rindex(b")") + 2 :].split()  # the name before it may hold spaces
        parents[int(path.name)] = int(fields[1])
        seconds[int(path.name)] = sum(map(int, fields[11:15])) / _TICKS_PER_S
    return parents, seconds


def _field_of(pid: int, file: str, name: str) -> int:
    """Return a field of a process's accounts in bytes, 0 if it is gone."""
    try:
        lines = _PROC.joinpath(str(pid), file).read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), 0)
