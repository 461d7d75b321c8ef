"""What a run may use at once, and in all. Policy: a resume may change every number."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from agentcompass.models.base import Frozen

MOST_AT_ONCE: Final = 100_000
MOST_A_MINUTE: Final = 10**12


class ModelLimits(Frozen):
    """Bounds of one model endpoint; null means none.

    Given at all, even without a number, they make everybody wait when the server asks one of us to
    (`Retry-After`).
    """

    concurrent_calls: int | None = Field(default=None, ge=1, le=MOST_AT_ONCE)
    requests_per_minute: int | None = Field(default=None, ge=1, le=MOST_A_MINUTE)
    tokens_per_minute: int | None = Field(default=None, ge=1, le=MOST_A_MINUTE)
    """Question and answer together: guessed before a call, corrected by what it used."""
    adaptive: bool = False
    """Begin with few calls at once, allow one more when a round went well, and half as many when
    the server was busy; `concurrent_calls` is the most."""


class Limits(Frozen):
    """Bounds that all workers and all runs at one broker keep together; null means none."""

    model: ModelLimits | None = None
    """Of the calls to the run's model."""
    concurrent_environments: int | None = Field(default=None, ge=1, le=MOST_AT_ONCE)
    """Of the kind that an attempt opens, `docker` for example."""


class Budget(Frozen):
    """What a run may spend before it is paused; null means any amount."""

    cost_usd: float | None = Field(default=None, gt=0)
    """US dollars at the prices of the request; a cost that is not known is in no sum, and the reason for
    a pause says of how many attempts."""
    tokens: int | None = Field(default=None, ge=1)
    wall_time_s: float | None = Field(default=None, gt=0)
    """While it was going on: not while it was paused, cancelled or interrupted."""

    @property
    def is_set(self) -> bool:
        """True if anything is bounded."""
        return (self.cost_usd, self.tokens, self.wall_time_s) != (None, None, None)


class ErrorPolicy(Frozen):
    """After how many failed attempts a run is paused; the default is to go on."""

    max_errors: int | None = Field(default=None, ge=1)
    """Attempts of this run that ended with an ERROR or FATAL issue."""
    max_error_share: float | None = Field(default=None, gt=0, le=1)
    """Of the attempts that are over, once there are `min_attempts` of them."""
    min_attempts: int = Field(default=20, ge=1)

    @property
    def is_set(self) -> bool:
        """True if any number of errors pauses the run."""
        return self.max_errors is not None or self.max_error_share is not None
