"""Checkpoints of another writer (v1) in the shape of ours. Pure; nothing of theirs is changed.

They name no execution and no leg, and what their snapshot says of the task was redacted by key:
where a secret was, there is the mask, which no evaluation may ever see.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import orjson
from pydantic import BaseModel, JsonValue, ValidationError

from agentcompass.models.base import JsonObject
from agentcompass.models.checkpoint import Checkpoint, SnapshotResult
from agentcompass.models.request import MASK
from agentcompass.models.task import PreparedTask, TaskInput, TaskOutput, TaskSpec
from agentcompass.store import records
from agentcompass.store.foreign_results import known_status, readable_issue, zoned_trajectory

CHECKPOINT_V1: Final = "agentcompass.attempt_checkpoint.v1"
_LONG_AGO: Final = "1970-01-01T00:00:00+00:00"


def adapt_checkpoint(record: Mapping[str, JsonValue], path: Path) -> Checkpoint:
    """Return another writer's checkpoint as ours, of leg 1 and without a token.

    Raises:
        RecordCorrupt: it is not such a record.
    """
    snapshot = record.get("evaluation")
    result = _object(_object(snapshot).get("run_result"))
    trajectory = _object(zoned_trajectory(result.get("trajectory")))
    fields: JsonObject = {
        "scheduler": {
            "state": "agent_finished" if isinstance(snapshot, dict) else "executing",
            "execution": 1,
            "worker": "",
            "token": "",
            "leg": 1,
            "started_at": trajectory.get("started_at") or _LONG_AGO,
            "updated_at": trajectory.get("finished_at") or _LONG_AGO,
        },
        "evaluation": _snapshot(snapshot, result) if isinstance(snapshot, dict) else None,
    }
    try:
        return Checkpoint.model_validate_json(orjson.dumps(fields))
    except ValidationError as error:
        raise records.corrupt(path, records.brief(error)) from error


def without_masks(prepared: PreparedTask, spec: TaskSpec) -> PreparedTask | None:
    """Return the prepared task with what its writer masked in the metadata taken from the task.

    A masked field that today's task does not have is left out: whoever evaluates it today cannot
    miss it.

    Returns:
        None if a mask is left anywhere: then the agent's work cannot be evaluated faithfully.
    """
    if not holds_mask(prepared.model_dump(mode="json")):
        return prepared
    restored = _restored(prepared.metadata, spec.metadata)
    whole = prepared.model_copy(update={"metadata": restored})
    return None if holds_mask(whole.model_dump(mode="json")) else whole


def holds_mask(value: JsonValue) -> bool:
    """Return whether the mask stands anywhere in a value."""
    if isinstance(value, dict):
        return any(map(holds_mask, value.values()))
    if isinstance(value, list):
        return any(map(holds_mask, value))
    return isinstance(value, str) and MASK in value


def _restored(kept: Mapping[str, JsonValue], today: Mapping[str, JsonValue]) -> JsonObject:
    restored: JsonObject = {}
    for name, value in kept.items():
        now = today.get(name)
        if isinstance(value, dict):
            restored[name] = _restored(value, now if isinstance(now, dict) else {})
        elif not holds_mask(value):
            restored[name] = value
        elif name in today:
            restored[name] = now
    return restored


def _snapshot(given: Mapping[str, JsonValue], result: JsonObject) -> JsonObject:
    issues = result.get("issues")
    return {
        "task_id": given.get("task_id"),
        "attempt": given.get("attempt"),
        "mode": given.get("source_evaluation_mode", "none"),
        "run_completed": given.get("run_completed") is True and not _has_failed(issues),
        "run_result": {
            **_known(result, SnapshotResult),
            "status": known_status(str(result.get("status", "completed"))),
            "trajectory": zoned_trajectory(result.get("trajectory")),
            "issues": [readable_issue(each) for each in issues] if isinstance(issues, list) else [],
        },
        "prepared_task": _prepared(given.get("prepared_task")),
        "artifacts": _manifest(_object(given.get("artifacts"))),
    }


def _has_failed(issues: JsonValue) -> bool:
    """Return whether the agent had an error: their writer calls that completed all the same."""
    found = issues if isinstance(issues, list) else []
    return any(_object(issue).get("severity") != "warning" for issue in found)


def _manifest(given: Mapping[str, JsonValue]) -> JsonObject:
    """Return the manifest without entries; not complete if it had some.

    Their checksums are made by another rule, permissions included, so we could verify none of
    them: such an agent runs again.
    """
    is_complete = given.get("complete") is not False and not given.get("entries")
    return {"directory": str(given.get("directory") or ""), "complete": is_complete}


def _prepared(given: JsonValue) -> JsonObject:
    fields = _known(_object(given), PreparedTask)
    fields["input"] = _known(_object(fields.get("input")), TaskInput)
    fields["output"] = _known(_object(fields.get("output")), TaskOutput)
    return fields


def _known(given: Mapping[str, JsonValue], model: type[BaseModel]) -> JsonObject:
    return {
        name: value
        for name, value in given.items()
        if name in model.model_fields and value is not None
    }


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}
