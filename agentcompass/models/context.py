"""What a harness is told about the attempt that it executes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from logging import Logger, LoggerAdapter
from pathlib import Path

from agentcompass.models.request import ModelSpec
from agentcompass.models.secret import SecretValue


@dataclass(frozen=True, slots=True)
class ModelEndpoint:
    """A model with its secrets resolved; lives on the worker, for one attempt."""

    spec: ModelSpec
    api_key: SecretValue | None = None
    headers: Mapping[str, str | SecretValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AttemptContext:
    """Identity, place and time of one execution."""

    run_id: str
    task_id: str
    attempt: int
    token: str
    """Names this execution; a second execution of the same attempt has another one."""
    make_work_dir: Callable[[], Path]
    """See `work_dir`."""
    deadline_monotonic_s: float
    """On `time.monotonic()`; after it the run phase is ended from outside."""
    logger: Logger | LoggerAdapter[Logger]
    progress: Callable[[str], None]
    """Reports one short line to whoever watches; cheap, never raises, may be lost."""

    @property
    def work_dir(self) -> Path:
        """Private to this execution, on the worker's own disk, gone afterwards; made on demand."""
        return self.make_work_dir()
