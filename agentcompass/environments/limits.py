"""Limits of the processes that run on the worker's own machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from pydantic import Field

from agentcompass.models.base import Frozen
from agentcompass.models.task import TaskResources

_MEMORY_LIMIT: Final = "RLIMIT_DATA" if sys.platform == "linux" else "RLIMIT_AS"
"""Linux can limit what is really used; the size of the address space is often far larger."""


class ProcessLimits(Frozen):
    """Limits of each process of a command; null means none beyond the machine's."""

    memory_bytes: int | None = Field(default=None, gt=0)
    """A task's own `resources.memory_bytes` goes before it."""
    file_size_bytes: int | None = Field(default=4 << 30, gt=0)
    open_files: int | None = Field(default=None, gt=0)
    processes: int | None = Field(default=None, gt=0)
    """Of the worker's user on this machine, all together; not enforced for root."""
    cpu_s: int | None = Field(default=None, gt=0)
    output_limit_bytes: int = Field(default=1 << 20, ge=1_024)
    """What is kept of each output stream, half of its beginning and half of its end."""
    pass_env: tuple[str, ...] = ()
    """Names of further variables of the worker that commands may see; never secrets."""

    def rlimits(self, resources: TaskResources) -> dict[str, int]:
        """Return `RLIMIT_…` -> value."""
        wanted = {
            _MEMORY_LIMIT: resources.memory_bytes or self.memory_bytes,
            "RLIMIT_FSIZE": self.file_size_bytes,
            "RLIMIT_NOFILE": self.open_files,
            "RLIMIT_NPROC": self.processes,
            "RLIMIT_CPU": self.cpu_s,
        }
        return {"RLIMIT_CORE": 0, **{name: value for name, value in wanted.items() if value}}


def check_host(resources: TaskResources, kind: str) -> None:
    """Refuse a task that needs what this machine cannot give.

    Raises:
        ValueError: it needs an image, or GPUs where there are none.
    """
    image = resources.image or resources.dockerfile
    if image is not None:
        raise ValueError(f"the task needs the image {image!r}, which {kind} has not")
    if resources.gpus and not gpu_devices():
        raise ValueError(f"the task needs {resources.gpus} GPUs, and this host has none")


def gpu_devices() -> list[Path]:
    """Return the device files of this machine's GPUs."""
    return sorted(Path("/dev").glob("nvidia[0-9]*"))
