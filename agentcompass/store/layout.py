"""The name and place of every file of a run. Pure: nothing here looks at a disk."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal

from agentcompass.store.names import task_dirname

State = Literal["running", "normal", "error", "fatal"]
STATES: Final[tuple[State, ...]] = ("running", "normal", "error", "fatal")
FILED_STATES: Final[tuple[State, ...]] = ("normal", "error", "fatal")
"""By rising severity; `running` holds what is not over."""

ROOT_FILE: Final = ".agentcompass-root"
RUN_INFO: Final = "run_info.json"
PARAMS: Final = "params.json"
TASKS: Final = "tasks.jsonl"
CONTROL: Final = "control"
DETAILS: Final = "details"
METRICS: Final = "metrics.json"
SUMMARY: Final = "summary.md"
COVERED: Final = ".covered.json"
"""Which results `metrics.json` covers; see `store.report`."""
CONTEXT: Final = ".summary.json"
"""What the summary says beside the numbers; see `store.report`."""
ANALYSIS: Final = "analysis_summary.json"
ANALYSIS_SUMMARY: Final = "analysis_summary.md"
PLANNING_LOCK: Final = ".planning"

TASK: Final = "task.json"
RESULT: Final = "result.json"
CHECKPOINT: Final = "checkpoint.json"
ARTIFACTS: Final = "artifacts"
RETRIES: Final = "retries"
OURS: Final = frozenset(
    {RUN_INFO, PARAMS, TASKS, CONTROL, DETAILS, METRICS, SUMMARY, ANALYSIS, ANALYSIS_SUMMARY}
)
"""What a run directory holds: no run and no level above one may go by such a name, because a folder
with a `run_info.json` is taken for a run."""
RETRY: Final = "retry-"
"""Starts the names of discarded tries."""
QUARANTINE: Final = "quarantine-"
"""Starts the names of what a decision has put aside because it cannot be read."""

_ATTEMPT: Final = re.compile(r"attempt-([1-9][0-9]*)", re.ASCII)
_CONTROL: Final = re.compile(r"([0-9]{4,})\.json", re.ASCII)
_TASK_DIR: Final = re.compile(r"[A-Za-z0-9._=-]{1,80}--[0-9a-f]{64}", re.ASCII)
_MARK: Final = re.compile(
    r"(started|closed|killed)-([A-Za-z0-9_-]{1,64})(?:\.([a-z_]{1,64}))?\.json"
)


def state_dir(run_dir: Path, state: str) -> Path:
    """Return `details/<state>`."""
    return run_dir / DETAILS / state


def task_dir(run_dir: Path, state: str, task_id: str) -> Path:
    """Return where a task in this state has its directory."""
    return run_dir / DETAILS / state / task_dirname(task_id)


def task_path(run_dir: Path, state: str, dirname: str) -> str:
    """Return the same for a directory name, as text for hot paths."""
    return f"{run_dir}/{DETAILS}/{state}/{dirname}"


def is_task_dirname(name: str) -> bool:
    """Return whether a directory name has the shape of a task's."""
    return _TASK_DIR.fullmatch(name) is not None


def attempt_dirname(attempt: int) -> str:
    """Return `attempt-<n>`."""
    return f"attempt-{attempt}"


def attempt_number(name: str) -> int | None:
    """Return n of `attempt-<n>`, or None if the name is something else."""
    match = _ATTEMPT.fullmatch(name)
    return int(match.group(1)) if match else None


def is_result_name(name: str) -> bool:
    """Return whether a file below `retries/` is a result: as published, or of an older leg."""
    return name == RESULT or (name.startswith("result-") and name.endswith(".json"))


def control_name(number: int) -> str:
    """Return the name of the `number`-th control record, counted from 1."""
    return f"{number:04d}.json"


def control_number(name: str) -> int | None:
    """Return the number of a control record, or None for any other file."""
    match = _CONTROL.fullmatch(name)
    return int(match.group(1)) if match else None


def started_name(token: str) -> str:
    """Return the name of an open start mark."""
    return f"started-{token}.json"


def closed_name(token: str, reason: str) -> str:
    """Return the name that a start mark gets when its execution came to a known end."""
    return f"closed-{token}.{reason}.json"


def killed_name(token: str) -> str:
    """Return the name of the note that a keeper leaves before it kills."""
    return f"killed-{token}.json"


def mark_of(name: str) -> tuple[str, str, str | None] | None:
    """Return (kind, token, reason) of a mark's file name, or None for any other file."""
    match = _MARK.fullmatch(name)
    return (match.group(1), match.group(2), match.group(3)) if match else None


def with_state(recorded: str, dirname: str, state: str) -> str:
    """Map a run-relative path of this task to the state in which its record stands.

    A task's records name their artifacts by `details/<state>/<task>/…`; a move cut short leaves
    an old state in them. Anything that is not below this task's directory stays as it is.
    """
    for known in STATES:
        prefix = f"{DETAILS}/{known}/{dirname}/"
        if recorded.startswith(prefix):
            return f"{DETAILS}/{state}/{dirname}/{recorded[len(prefix) :]}"
    return recorded
