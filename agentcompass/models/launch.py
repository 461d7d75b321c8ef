"""`.launches/<id>.json`: many named requests started as one, and what became of each."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentcompass.models.base import Record, Timestamp
from agentcompass.models.request import Request

LaunchStatus = Literal["running", "completed", "failed", "cancelled", "interrupted"]
RequestState = Literal["pending", "running", "completed", "failed", "cancelled", "interrupted"]


class LaunchedRequest(Record):
    """One named request and its outcome."""

    name: str
    request: Request
    """As in the run's own `run_info.json`: no secret is in it."""
    run: str
    """Where its run is below the results folder; recorded before it is made."""
    state: RequestState = "pending"
    """`pending`: its run does not exist. `failed` with an error and no paths: it never started."""
    exit_code: int | None = Field(default=None, ge=0, le=3)
    """As `agentcompass run` would have ended; null until it has."""
    error: str = ""
    paths: dict[str, str] = Field(default_factory=dict)
    """What is there of the run: name -> path below the results folder."""


class LaunchRecord(Record):
    """A launch; replaced whole by the one coordinator that carries it out."""

    schema_version: Literal["agentcompass.launch.v1"] = "agentcompass.launch.v1"
    launch_id: str
    name: str
    status: LaunchStatus = "running"
    started_at: Timestamp
    finished_at: Timestamp | None = None
    requests: tuple[LaunchedRequest, ...]
    """In the order of the suite file."""
