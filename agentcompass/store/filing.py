"""Moving a task between `running` and where its attempts' issues put it. Derived and repeatable.

Whoever notices that all attempts of a task are terminal files it, and everyone computes the same
state and writes the same bytes. Records are rewritten *before* the move: a crash in between leaves
the task in `running`, where the next look at it goes on. A filed task is never removed, so a
`running` copy beside it is the leftover of somebody who did not see it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final
from uuid import uuid4

import orjson
from pydantic import JsonValue

from agentcompass.errors import RecordCorrupt
from agentcompass.metrics.per_task.strategies import STRATEGIES
from agentcompass.models.issue import Severity
from agentcompass.models.metric import MetricContract, MetricSpec
from agentcompass.models.request import AttemptPlan
from agentcompass.models.result import AttemptOutcome
from agentcompass.store import atomic, control, disk, evidence, layout, records, results, sealed
from agentcompass.store.layout import State
from agentcompass.store.legs import Legs
from agentcompass.store.names import task_dirname
from agentcompass.store.results import ResultHead
from agentcompass.store.retiring import retire

_STATE_OF: Final[dict[Severity, State]] = {
    "fatal": "fatal",
    "error": "error",
    "warning": "normal",
}
_SEVERITY: Final[dict[State, int]] = {"running": 0, "normal": 0, "error": 1, "fatal": 2}
_PLAIN_CONTRACT: Final = MetricContract(
    metrics=(MetricSpec(metric_id="correct", kind="binary_success", primary=True),)
)
_TRIES: Final = 4


def file_if_terminal(
    run_dir: Path,
    task_id: str,
    plan: AttemptPlan,
    *,
    legs: Legs | None = None,
    own: Mapping[int, ResultHead] | None = None,
) -> State | None:
    """Move the task out of `running` if every attempt of its plan has a result that counts.

    One that somebody has filed who did not see it reopened is moved to where it belongs.

    Args:
        legs: as folded by the caller; by default read again.
        own: heads that the caller has just published, to save reading them.

    Returns:
        The state in which the task stands filed and durable; None if it is not over, or absent.

    Raises:
        RecordCorrupt: an attempt's result cannot be read; the task stays where it is.
    """
    dirname = task_dirname(task_id)
    legs = legs or control.legs(run_dir)
    for _ in range(_TRIES):
        found = disk.find(run_dir, dirname)
        if found is None:
            return None
        now, task_dir = found
        try:
            # Of a filed task the records decide: it may have been reopened since `own`.
            known = (own or {}) if now == "running" else {}
            heads = _terminal_heads(task_dir, task_id, plan, legs, known)
            if heads is None:
                return now if now != "running" else None
            state = state_of(heads, plan, run_dir)
            if state == now:
                return now
            _rewrite(task_dir, dirname, plan, state)
        except FileNotFoundError:
            continue  # somebody else filed it meanwhile
        if atomic.move(task_dir, layout.task_path(run_dir, state, dirname)):
            atomic.sync_directory(layout.state_dir(run_dir, state))
            return state
    return None


def state_of(heads: Mapping[int, ResultHead], plan: AttemptPlan, run_dir: Path) -> State:
    """Return where a task belongs: the most severe final issue of the attempts that count."""
    outcomes = [heads[n].outcome for n in range(1, plan.k + 1)]
    worst: State = "normal"
    for outcome in outcomes[: _needed(outcomes, plan, run_dir)]:
        for issue in outcome.issues:
            worst = max(worst, _STATE_OF[issue.severity], key=_SEVERITY.__getitem__)
    return worst


def reopen(run_dir: Path, task_id: str, valid_from: Mapping[int, int]) -> bool:
    """Take the results of earlier legs from attempts, and the task back to `running`.

    Safe to repeat, and to be finished by another process after a crash anywhere: until it is done,
    readers ignore those results because of their leg. Snapshots and artifacts stay.

    Args:
        valid_from: attempt number -> the first leg whose results count.

    Returns:
        False if the task is nowhere, so that there is nothing to reopen.
    """
    dirname = task_dirname(task_id)
    for _ in range(_TRIES):
        found = disk.find(run_dir, dirname)
        if found is None:
            break
        try:
            if found[0] != "running":
                if _all_count(found[1], valid_from):
                    return True
                _bring_back(run_dir, found[0], dirname)
                continue
            for attempt, leg in valid_from.items():
                retire(Path(found[1]) / layout.attempt_dirname(attempt), leg)
        except FileNotFoundError:
            continue
        return True
    return False


def quarantine(record: Path) -> Path:
    """Move a malformed attempt record to `retries/quarantine-<random>/` beside it; return where.

    Publishing the control record that reopens its attempt comes first.
    """
    target = evidence.keep(record.parent, f"{layout.QUARANTINE}{uuid4().hex}", {}) / record.name
    atomic.move(record, target)
    atomic.sync_directory(record.parent)
    return target


def _terminal_heads(
    task_dir: str, task_id: str, plan: AttemptPlan, legs: Legs, own: Mapping[int, ResultHead]
) -> Mapping[int, ResultHead] | None:
    """Return the heads of all k attempts, None as soon as one is missing or does not count."""
    missing = [n for n in range(1, plan.k + 1) if n not in own]
    paths = {n: f"{task_dir}/{layout.attempt_dirname(n)}/{layout.RESULT}" for n in missing}
    if not all(disk.is_file(path) for path in paths.values()):
        return None
    heads = dict(own)
    for number, path in paths.items():
        heads[number] = results.load_outcome(path)
    counts = all(
        head.is_terminal and head.leg >= legs.valid_from_leg(task_id, number)
        for number, head in heads.items()
    )
    return heads if counts else None


def _needed(outcomes: list[AttemptOutcome], plan: AttemptPlan, run_dir: Path) -> int:
    """Return how many of the first attempts count under the run's strategy."""
    strategy = STRATEGIES.get(plan.strategy)
    if plan.k == 1 or not strategy.is_sequential:
        return strategy.needed(_PLAIN_CONTRACT, outcomes)
    return strategy.needed(_contract_of(run_dir), outcomes)


@lru_cache(maxsize=64)
def _contract_of(run_dir: Path) -> MetricContract:
    """Return the frozen contract. It never changes after the seal, so a process reads it once."""
    return sealed.load_sealed(run_dir).metric_contract or _PLAIN_CONTRACT


def _rewrite(task_dir: str, dirname: str, plan: AttemptPlan, state: State) -> None:
    """Let the records of attempts with artifacts name the directory that they are about to have."""
    for number in range(1, plan.k + 1):
        directory = f"{task_dir}/{layout.attempt_dirname(number)}"
        if disk.is_directory(f"{directory}/{layout.ARTIFACTS}"):
            _rewrite_result(Path(directory, layout.RESULT), dirname, state)
            _rewrite_checkpoint(Path(directory, layout.CHECKPOINT), dirname, state)


def _rewrite_result(path: Path, dirname: str, state: State) -> None:
    seen = disk.version(path)
    data = disk.read(path)
    head, trajectory = results.split(data, path)
    fields = records.json_object(head, path)
    fields["artifacts"] = _renamed(fields.get("artifacts"), dirname, state)
    renamed = results.join(orjson.dumps(fields), trajectory)
    if renamed != data:
        _replace(path, renamed, seen)


def _rewrite_checkpoint(path: Path, dirname: str, state: State) -> None:
    """Do the same for the snapshot's manifest. A checkpoint that cannot be read stays as it is."""
    try:
        seen = disk.version(path)
        data = disk.read(path)
        fields = records.json_object(data, path)
    except (FileNotFoundError, RecordCorrupt):
        return
    snapshot = fields.get("evaluation")
    if not isinstance(snapshot, dict):
        return
    snapshot["artifacts"] = _renamed(snapshot.get("artifacts"), dirname, state)
    run_result = snapshot.get("run_result")
    if isinstance(run_result, dict):
        run_result["artifacts"] = _renamed(run_result.get("artifacts"), dirname, state)
    renamed = records.compact(fields)
    if renamed != data:
        _replace(path, renamed, seen)


def _replace(path: Path, data: bytes, seen: tuple[int, int, int]) -> None:
    """Replace a record by what was made of it, unless the next leg's has its name by now."""
    atomic.replace_stream(path, (data,), is_current=lambda: disk.version(path) == seen)


def _renamed(value: JsonValue, dirname: str, state: State) -> JsonValue:
    """Map every text below `artifacts` that is a path below this task's directory."""
    if isinstance(value, str):
        return layout.with_state(value, dirname, state)
    if isinstance(value, list):
        return [_renamed(each, dirname, state) for each in value]
    if isinstance(value, dict):
        return {name: _renamed(each, dirname, state) for name, each in value.items()}
    return value


def _all_count(task_dir: str, valid_from: Mapping[int, int]) -> bool:
    """Return whether each of these attempts has a result of its leg: it was reopened and is over."""
    return all(
        disk.is_file(path) and results.load_outcome(path).leg >= leg
        for number, leg in valid_from.items()
        for path in (f"{task_dir}/{layout.attempt_dirname(number)}/{layout.RESULT}",)
    )


def _bring_back(run_dir: Path, state: State, dirname: str) -> None:
    filed = layout.state_dir(run_dir, state) / dirname
    running = layout.state_dir(run_dir, "running") / dirname
    if disk.is_directory(running):
        _absorb(running, filed)
    if atomic.move(filed, running):
        atomic.sync_directory(running.parent)
        atomic.sync_directory(filed.parent)


def _absorb(leftover: Path, filed: Path) -> None:
    """Put what a leftover holds among the evidence of the filed copy, and remove it.

    All of it is moved below the filed copy, what is to be removed as well. If another process has
    brought that back meanwhile, so that what we take for a leftover is the task itself, there is no
    place to move to, and nothing happens.

    Raises:
        FileNotFoundError: that was so; or the leftover is gone.
    """
    for name in disk.names(leftover):
        if layout.attempt_number(name) is None:
            spare = filed / f"{atomic.TEMP_PREFIX}{uuid4().hex}"
            if atomic.move(leftover / name, spare):
                atomic.remove(spare)
            continue
        atomic.make_directory(filed / name)
        target = evidence.keep(filed / name, f"leftover-{uuid4().hex}", {})
        atomic.move(leftover / name, target / name)
    atomic.remove_directory(leftover)
