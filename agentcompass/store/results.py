"""`result.json`: one terminal attempt, written so that its numbers are read without the rest.

The bytes are the compact head without its last brace, then `SPLIT`, the value, and `END`. In
compact JSON a raw line feed occurs nowhere else, so the first one ends the head, and a file that
does not end in `END` is not whole.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from agentcompass.metrics.usage import Spend, spend_of
from agentcompass.models.base import Timestamp
from agentcompass.models.issue import Issue
from agentcompass.models.result import (
    TERMINAL_STATUSES,
    AttemptOutcome,
    AttemptResult,
    AttemptStatus,
    Observation,
)
from agentcompass.store import disk, foreign_results, records

SPLIT: Final = b',\n"trajectory":'
END: Final = b"}\n"
_OURS: Final = b'{"schema_version":'
_FIRST_READ: Final = 32_768
"""Bytes. Most heads are smaller, and a page more costs less than a second call."""


@dataclass(frozen=True, slots=True)
class ResultHead:
    """What the numbers, the scheduler and the listing need of a result."""

    task_id: str
    attempt: int
    leg: int
    token: str
    status: AttemptStatus
    outcome: AttemptOutcome
    retry_count: int
    worker: str
    started_at: Timestamp | None
    finished_at: Timestamp | None
    telemetry: object = None
    """As the harness reported it; anything."""
    reused_from: str = ""
    """The run that paid for it; "" if it is this one."""
    agent_from: str = ""
    """The run that paid for its agent, if only its evaluation ran in this one."""
    analysis_result: Mapping[str, object] = field(default_factory=dict)
    """What the run's analyzers said, by their ids."""

    @property
    def is_terminal(self) -> bool:
        """False for what other writers leave of an attempt that was stopped."""
        return self.status in TERMINAL_STATUSES

    @property
    def is_on_disk(self) -> bool:
        """False for an attempt that another writer did not run and left no record of."""
        return bool(self.token) or not self.outcome.skipped or self.started_at is not None

    @property
    def spend(self) -> Spend | None:
        """What the execution cost, as far as it is known; None if nothing was executed."""
        return None if self.outcome.skipped else spend_of(self.telemetry)

    @property
    def duration_s(self) -> float | None:
        """From the start to the end of the execution; None if that is not known."""
        if self.started_at is None or self.finished_at is None or self.outcome.skipped:
            return None
        return (self.finished_at - self.started_at).total_seconds()


class _Lenient(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, allow_inf_nan=False, extra="ignore")


class _Harness(_Lenient):
    telemetry: object = None


class _Meta(_Lenient):
    harness: _Harness = _Harness()


class _Head(_Lenient):
    schema_version: Literal["agentcompass.attempt_result.v1"] = "agentcompass.attempt_result.v1"
    task_id: str
    attempt: int
    leg: int
    token: str
    started_at: Timestamp | None
    finished_at: Timestamp | None
    worker: str
    status: AttemptStatus
    metrics: dict[str, Observation]
    issues: tuple[Issue, ...]
    analysis_result: dict[str, object] = {}
    meta: _Meta
    retry_count: int
    reused_from: str = ""
    agent_from: str = ""


def to_bytes(result: AttemptResult) -> bytes:
    """Return the bytes of `result.json`; equal results give equal bytes.

    Raises:
        TypeError: the result holds what JSON cannot (see `records.compact`).
    """
    fields = result.model_dump()
    trajectory = fields.pop("trajectory")
    return join(orjson.dumps(fields), orjson.dumps(trajectory))


def join(head: bytes, trajectory: bytes) -> bytes:
    """Return a file of a head, which is a JSON object, and the JSON of a trajectory."""
    return b"".join((head[:-1], SPLIT, trajectory, END))


def split(data: bytes, path: Path) -> tuple[bytes, bytes]:
    """Return (head, trajectory) of one of our files as JSON; the inverse of `join`.

    Raises:
        RecordCorrupt: it is not one of our files, or not a whole one.
    """
    at = data.find(SPLIT)
    if at < 0 or not data.endswith(END):
        raise records.corrupt(path, _why_torn(data))
    return data[:at] + b"}", data[at + len(SPLIT) : -len(END)]


def load_result(path: Path) -> AttemptResult:
    """Read a whole result, of ours or of another writer.

    Raises:
        FileNotFoundError: the attempt has none.
        RecordCorrupt, FormatUnknown: it cannot be relied on.
    """
    data = disk.read(path)
    if not data.startswith(_OURS):
        return foreign_results.adapt(records.json_object(data, path), path)
    split(data, path)
    return records.parse_fast(data, AttemptResult, path)


def load_outcome(path: str | Path) -> ResultHead:
    """Read a result without its trajectory; of ours only the beginning and the last two bytes.

    Raises:
        FileNotFoundError: the attempt has none.
        RecordCorrupt, FormatUnknown: it cannot be relied on.
    """
    head = _read_head(path)
    if not head.startswith(_OURS):
        whole = records.json_object(head, Path(path))
        return head_of(foreign_results.adapt(whole, Path(path)))
    try:
        parsed = _Head.model_validate_json(head)
    except ValidationError:
        # Says whether it is the JSON, the format or the record; it is as strict, so it raises.
        parsed = records.parse_fast(head, _Head, Path(path))
    return ResultHead(
        task_id=parsed.task_id,
        attempt=parsed.attempt,
        leg=parsed.leg,
        token=parsed.token,
        status=parsed.status,
        outcome=AttemptOutcome(
            metrics=parsed.metrics, issues=parsed.issues, skipped=parsed.status == "skipped"
        ),
        retry_count=parsed.retry_count,
        worker=parsed.worker,
        started_at=parsed.started_at,
        finished_at=parsed.finished_at,
        telemetry=parsed.meta.harness.telemetry,
        reused_from=parsed.reused_from,
        agent_from=parsed.agent_from,
        analysis_result=parsed.analysis_result,
    )


def head_of(result: AttemptResult) -> ResultHead:
    """Return the head of a result that is in memory."""
    return ResultHead(
        task_id=result.task_id,
        attempt=result.attempt,
        leg=result.leg,
        token=result.token,
        status=result.status,
        outcome=AttemptOutcome(
            metrics=result.metrics, issues=result.issues, skipped=result.status == "skipped"
        ),
        retry_count=result.retry_count,
        worker=result.worker,
        started_at=result.started_at,
        finished_at=result.finished_at,
        telemetry=result.meta.harness.get("telemetry"),
        reused_from=result.reused_from,
        agent_from=result.agent_from,
        analysis_result=result.analysis_result,
    )


def load_without_trajectory(path: str | Path) -> AttemptResult:
    """Read a result with `trajectory` None, for formulas and summaries over many attempts."""
    head = _read_head(path)
    if not head.startswith(_OURS):
        whole = records.json_object(head, Path(path))
        adapted = foreign_results.adapt(whole, Path(path))
        return adapted.model_copy(update={"trajectory": None})
    return records.parse_fast(head[:-1] + b',"trajectory":null}', AttemptResult, Path(path))


def _read_head(path: str | Path) -> bytes:
    """Return the JSON of the head of one of our files, or the whole of another writer's."""
    fd = disk.open_to_read(path)
    try:
        data = os.read(fd, _FIRST_READ)
        if len(data) == _FIRST_READ or not data.endswith(END):
            data = _more(fd, data)
    finally:
        os.close(fd)
    if not data.startswith(_OURS):
        return data
    at = data.find(SPLIT)
    if at < 0 or not data.endswith(END):
        raise records.corrupt(path, _why_torn(data))
    return data[:at] + b"}"


def _more(fd: int, data: bytes) -> bytes:
    """Return the whole file; or of one of ours all up to its trajectory, and its last bytes."""
    size = os.fstat(fd).st_size
    if not data.startswith(_OURS):
        return data + disk.read_exactly(fd, size - len(data), len(data))
    while SPLIT not in data and len(data) < size:
        data += disk.read_exactly(fd, min(len(data), size - len(data)), len(data))
    return data if len(data) >= size else data + disk.read_exactly(fd, len(END), size - len(END))


def _why_torn(data: bytes) -> str:
    return "is empty" if not data else f"is not whole ({len(data)} bytes read)"
