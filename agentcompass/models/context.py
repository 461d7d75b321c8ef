"""What a harness is told about the attempt that it executes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from logging import Logger, LoggerAdapter
from pathlib import Path
from typing import Protocol

from agentcompass.models.request import ModelSpec
from agentcompass.models.secret import SecretValue


@dataclass(frozen=True, slots=True)
class CallTurn:
    """One call that may be made now."""

    number: int
    """Tells the calls of one execution apart."""
    waited_s: float = 0.0
    """Not the agent's time: its deadline has moved by as much."""


class CallGate(Protocol):
    """Where the calls of all runs to one endpoint take turns; may be used from any thread.

    `enter` before each request, `leave` after it, whatever became of it.
    """

    def enter(self, tokens: int) -> CallTurn:
        """Wait until one more request may be sent; ends at once when the execution is stopped.

        Args:
            tokens: what it will probably use, question and answer.
        """

    def leave(self, turn: CallTurn, tokens: int | None) -> None:
        """Make room for the next one. `tokens` is what it used; None if nobody said. Never raises."""

    def slow_down(self, turn: CallTurn, retry_after_s: float | None) -> None:
        """Say that the server was busy: nobody asks it again before that time. Never raises."""


@dataclass(frozen=True, slots=True)
class ModelEndpoint:
    """A model with its secrets resolved; lives on the worker, for one attempt."""

    spec: ModelSpec
    api_key: SecretValue | None = None
    headers: Mapping[str, str | SecretValue] = field(default_factory=dict)
    gate: CallGate | None = None
    """None where the request limits nothing."""


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
    read_deadline: Callable[[], float]
    """See `deadline_monotonic_s`."""
    logger: Logger | LoggerAdapter[Logger]
    progress: Callable[[str], None]
    """Reports one short line to whoever watches; cheap, never raises, may be lost."""

    @property
    def work_dir(self) -> Path:
        """Private to this execution, on the worker's own disk, gone afterwards; made on demand."""
        return self.make_work_dir()

    @property
    def deadline_monotonic_s(self) -> float:
        """On `time.monotonic()`; after it the run phase is ended from outside.

        It moves while a call waits for its turn: read it each time.
        """
        return self.read_deadline()
