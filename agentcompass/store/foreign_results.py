"""Results of other writers in the shape of ours. Pure; nothing of theirs is ever changed on disk.

They have no identity, leg or token of their own, leave the zone out of the times in trajectories,
and in older formats say `error` as text without issues: how severe that was is not known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import orjson
from pydantic import JsonValue, ValidationError

from agentcompass.models.base import JsonObject
from agentcompass.models.issue import MESSAGE_LIMIT
from agentcompass.models.result import AttemptResult
from agentcompass.store import records

UNCLASSIFIED: Final = "unclassified"
"""The code of a failure whose severity the old record does not tell: reuse runs it again."""

_ZONE: Final = re.compile(r"(Z|[+-]\d\d:?\d\d)$")
_PHASES: Final = {"run_error": ("run",), "eval_error": ("evaluate",)}
_ALL_PHASES: Final = ("run", "evaluate")
_UNKNOWN_STATUS: Final = {"success": "completed", "error": "run_error", "failed": "run_error"}


def adapt(record: Mapping[str, JsonValue], path: Path) -> AttemptResult:
    """Return another writer's attempt record as ours.

    Raises:
        RecordCorrupt: it is not such a record.
    """
    fields: JsonObject = {
        name: value for name, value in record.items() if name in AttemptResult.model_fields
    }
    fields.pop("schema_version", None)
    status = str(record.get("status", "completed"))
    fields["status"] = known_status(status)
    fields.setdefault("metrics", {})
    fields.setdefault("final_answer", None)
    fields["issues"] = _issues(record, status)
    fields["error"] = str(record.get("error") or "")
    fields["artifacts"] = record.get("artifacts") or {}
    fields["analysis_result"] = record.get("analysis_result") or {}
    fields["meta"] = _meta(record.get("meta"))
    fields["trajectory"] = zoned_trajectory(record.get("trajectory"))
    try:
        return AttemptResult.model_validate_json(orjson.dumps(fields))
    except ValidationError as error:
        raise records.corrupt(path, records.brief(error)) from error


def known_status(text: str) -> str:
    """Return our word for another writer's."""
    return _UNKNOWN_STATUS.get(text, text)


def _issues(record: Mapping[str, JsonValue], status: str) -> list[JsonValue]:
    given = record.get("issues")
    if isinstance(given, list):
        return [readable_issue(each) for each in given]
    error = str(record.get("error") or "").strip()
    if not error and status in {"completed", "skipped", "cancelled", "interrupted"}:
        return []
    phases = _PHASES.get(status, ("run",) if status == "completed" else _ALL_PHASES)
    message = error.splitlines()[0][:MESSAGE_LIMIT] if error else f"status {status}, no message"
    return [
        {"severity": "error", "phase": phase, "code": UNCLASSIFIED, "message": message}
        for phase in phases
    ]


def readable_issue(given: JsonValue) -> JsonValue:
    """Make the code one that our model takes; the rest must fit as it is."""
    if not isinstance(given, dict):
        return given
    code = re.sub(r"[^a-z0-9_]+", "_", str(given.get("code", "")).lower())[:64]
    return {**given, "code": code or UNCLASSIFIED, "message": str(given.get("message", ""))}


def _meta(given: JsonValue) -> JsonObject:
    known = given if isinstance(given, dict) else {}
    parts = {name: known.get(name) for name in ("benchmark", "harness")}
    return {name: part if isinstance(part, dict) else {} for name, part in parts.items()}


def zoned_trajectory(given: JsonValue) -> JsonValue:
    """Return None for an empty one; else the same with a zone in every time.

    Those times are the machine's own. We say UTC, as in the same writer's `run_info.json`.
    """
    if not isinstance(given, dict) or not given:
        return None
    steps = given.get("steps")
    timed = (
        [_zoned(step) if isinstance(step, dict) else step for step in steps or []]
        if (isinstance(steps, list))
        else []
    )
    return {**_zoned(given), "schema_version": "ACTF_v1.0", "steps": timed}


def _zoned(value: Mapping[str, JsonValue]) -> JsonObject:
    zoned = dict(value)
    for name in ("started_at", "finished_at"):
        text = zoned.get(name)
        if isinstance(text, str) and text:
            zoned[name] = text if _ZONE.search(text) else f"{text}+00:00"
        else:
            zoned[name] = None
    return zoned
