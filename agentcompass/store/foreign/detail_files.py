"""The oldest layout: one `details/<task>[_<category>].json` per task, `_error_…` if it failed.

A record holds its attempts under "1", "2", …, each with `correct`, `score` and `error`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from agentcompass.models.base import JsonObject
from agentcompass.models.issue import MESSAGE_LIMIT, Issue
from agentcompass.models.request import AttemptPlan
from agentcompass.models.result import AttemptOutcome, Observation, status_of
from agentcompass.models.task import UNCATEGORIZED
from agentcompass.store import disk, records
from agentcompass.store.foreign_results import UNCLASSIFIED
from agentcompass.store.results import ResultHead

ERROR_PREFIX: Final = "_error_"
OBSERVATIONS: Final = ("correct", "score")


@dataclass(frozen=True, slots=True)
class DetailFile:
    """One task's record."""

    path: Path
    task_id: str
    category: str
    k: int
    attempts_tried: int
    record: JsonObject

    @property
    def is_error(self) -> bool:
        """The writer put it aside as failed; reuse never takes it."""
        return self.path.name.startswith(ERROR_PREFIX)

    @property
    def is_qualified(self) -> bool:
        """Its name carries the category, which goes before one that does not."""
        return self.path.stem.endswith(f"_{self.category}")

    def heads(self, k: int) -> tuple[ResultHead | None, ...]:
        """Return the results of attempts 1..k, None where the record has none."""
        return tuple(self._head(number) for number in range(1, k + 1))

    def _head(self, number: int) -> ResultHead | None:
        attempts = self.record.get("attempts")
        attempt = attempts.get(str(number)) if isinstance(attempts, dict) else None
        if not isinstance(attempt, dict):
            return None
        metrics = attempt.get("metrics")
        observed = {**(metrics if isinstance(metrics, dict) else {}), **_own(attempt)}
        issues = _issues(attempt)
        return ResultHead(
            task_id=self.task_id,
            attempt=number,
            leg=1,
            token="",
            status=status_of(issues),
            outcome=AttemptOutcome(metrics=_numbers(observed), issues=issues),
            retry_count=0,
            worker="",
            started_at=None,
            finished_at=None,
        )


def read_detail(path: Path) -> DetailFile:
    """Read one record.

    Raises:
        RecordCorrupt: it is not such a record.
    """
    record = records.json_object(disk.read(path), path)
    task_id, category = record.get("task_id"), record.get("category")
    attempts = record.get("attempts")
    if not isinstance(task_id, str | int) or not isinstance(attempts, dict):
        raise records.corrupt(path, "is not a task's record: it needs task_id and attempts")
    return DetailFile(
        path=path,
        task_id=str(task_id),
        category=str(category) if category else UNCATEGORIZED,
        k=max(_integer(record.get("k"), 1), *(int(n) for n in attempts if n.isdecimal()), 1),
        attempts_tried=_integer(record.get("attempts_tried"), len(attempts)),
        record=record,
    )


def plan_of(found: Mapping[str, DetailFile]) -> AttemptPlan:
    """Return the plan that the records tell: `pass` if some task stopped before its k-th attempt."""
    k = max((each.k for each in found.values()), default=1)
    stopped = any(each.attempts_tried < each.k for each in found.values())
    return AttemptPlan(k=k, strategy="pass" if stopped else "avg")


def better(one: DetailFile, other: DetailFile | None) -> DetailFile:
    """Return which of two records of a task counts: a normal one, then one with the category."""
    if other is None:
        return one
    return max(other, one, key=lambda each: (not each.is_error, each.is_qualified))


def _own(attempt: Mapping[str, JsonValue]) -> JsonObject:
    return {name: attempt[name] for name in OBSERVATIONS if attempt.get(name) is not None}


def _numbers(observed: Mapping[str, JsonValue]) -> dict[str, Observation]:
    return {
        name: value for name, value in observed.items() if isinstance(value, bool | int | float)
    }


def _issues(attempt: Mapping[str, JsonValue]) -> tuple[Issue, ...]:
    text = str(attempt.get("error") or "").strip()
    if not text:
        return ()
    message = text.splitlines()[0][:MESSAGE_LIMIT]
    return (Issue(severity="error", phase="run", code=UNCLASSIFIED, message=message),)


def _integer(value: JsonValue, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default
