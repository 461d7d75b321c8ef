"""One attempt's directory: begin, snapshot, publish; what every execution of it may do.

Cost of an attempt of a k=1 task from begin to filed, which tests/unit/store/test_budget.py counts:
7 fsyncs, 4 renames or links, 4 files.

| step | fsync | rename, link | why |
|---|---|---|---|
| begin: `task.json` | file | link | never half a file; its name may go with the power |
| begin: start mark | – | – | see `store.marks` |
| snapshot: `checkpoint.json` | file, attempt, task | rename | an agent's work may have cost hours |
| publish: `result.json` | file, attempt | link | the message is acknowledged after this |
| file the task | `details/<state>` | rename | makes the task's own name durable, too |

Without a snapshot, publish syncs the task's directory. A task that is not over yet has its name in
`details/running` synced instead of being moved. The name of a new task in `details/running` is not
synced before its first attempt is published: losing the *power* (not the process) between snapshot
and publication can cost that one agent's work.

Below `details/<state>` nothing is created recursively. FileNotFoundError there means that the task
was moved under us, and we look where it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agentcompass.errors import FormatUnknown, RecordCorrupt
from agentcompass.models.checkpoint import Checkpoint
from agentcompass.models.request import AttemptPlan
from agentcompass.models.result import AttemptResult
from agentcompass.models.run_info import TaskRecord
from agentcompass.models.task import TaskSpec
from agentcompass.store import atomic, disk, evidence, filing, layout, marks, records, results
from agentcompass.store.artifacts import (
    AttemptOver,
    Collected,
    CollectLimits,
    collect_tree,
    verify_artifacts,
)
from agentcompass.store.evidence import (
    artifacts_directory,
    keep_execution,
    keep_retry,
    keep_unfinished,
)
from agentcompass.store.foreign_checkpoints import CHECKPOINT_V1, adapt_checkpoint
from agentcompass.store.layout import State
from agentcompass.store.marks import KillNote, Marks, StartMark, leave_kill_note
from agentcompass.store.names import is_token, task_dirname
from agentcompass.store.results import ResultHead, load_outcome, load_result
from agentcompass.store.retiring import is_unsettled
from agentcompass.store.tasks import digest_of
from agentcompass.store.views import AttemptView, find_task, until_it_stays, where

__all__ = [
    "AttemptOver",
    "AttemptView",
    "CollectLimits",
    "Collected",
    "KillNote",
    "ResultHead",
    "StartMark",
    "artifacts_directory",
    "begin",
    "close_mark",
    "collect_tree",
    "find_head",
    "find_task",
    "is_published",
    "keep_execution",
    "keep_retry",
    "keep_unfinished",
    "leave_kill_note",
    "load_checkpoint",
    "load_outcome",
    "load_result",
    "publish",
    "result_of",
    "verify_artifacts",
    "write_snapshot",
]


def is_published(run_dir: Path, task_id: str, attempt: int, valid_from_leg: int = 1) -> bool:
    """Return whether the attempt has a result that counts."""
    dirname = task_dirname(task_id)

    def once() -> bool:
        found = disk.find(run_dir, dirname)
        if found is None:
            return False
        return _has_valid_result(f"{found[1]}/{layout.attempt_dirname(attempt)}", valid_from_leg)

    return until_it_stays(run_dir, once)


def find_head(run_dir: Path, task_id: str, attempt: int) -> ResultHead | None:
    """Return an attempt's result without its trajectory, of whatever leg; None if it has none."""

    def once() -> ResultHead | None:
        path = result_of(run_dir, task_id, attempt)
        return load_outcome(path) if path is not None else None

    return until_it_stays(run_dir, once)


def result_of(run_dir: Path, task_id: str, attempt: int) -> Path | None:
    """Return the path of an attempt's result, None if it has none."""

    def once() -> Path | None:
        found = disk.find(run_dir, task_dirname(task_id))
        if found is None:
            return None
        path = f"{found[1]}/{layout.attempt_dirname(attempt)}/{layout.RESULT}"
        if disk.is_file(path):
            return Path(path)
        if not disk.is_directory(found[1]):  # filed between the two looks
            raise FileNotFoundError(found[1])
        return None

    return until_it_stays(run_dir, once)


def begin(
    run_dir: Path,
    spec: TaskSpec,
    plan: AttemptPlan,
    attempt: int,
    mark: StartMark,
    valid_from_leg: int = 1,
) -> AttemptView:
    """Say that an execution begins, then look: take the lease before, decide after this.

    Makes the directories and `task.json` where they are missing, makes the start mark, which also
    refreshes a share's cache, and lists the attempt. An attempt whose result is in sight already
    gets no mark. A result that its reopening made stale is moved aside, a task that was filed with
    it comes back to `running`.

    Raises:
        RunNotFound: the run's directory is gone.
        ValueError: the token cannot be part of a file name.
    """
    if not is_token(mark.token):
        raise ValueError(f"token {mark.token!r} must be 1 to 64 of [A-Za-z0-9_-]")
    dirname = task_dirname(spec.task_id)

    def once() -> AttemptView:
        state, task_dir = _task_directory(run_dir, dirname, spec, plan)
        directory = f"{task_dir}/{layout.attempt_dirname(attempt)}"
        is_new = state == "running" and atomic.make_directory(directory)
        if not is_new and not _has_valid_result(directory, valid_from_leg):
            is_stale = disk.is_file(f"{directory}/{layout.RESULT}")
            was_taken = valid_from_leg > 1 and is_unsettled(directory)
            if state != "running" or is_stale or was_taken:
                filing.reopen(run_dir, spec.task_id, {attempt: valid_from_leg})
                raise FileNotFoundError(directory)
            is_new = True
        if is_new:
            marks.put(directory, mark)
        found = _look(directory, mark.token, valid_from_leg)
        return AttemptView(
            directory=Path(directory),
            token=mark.token,
            state=state,
            is_published=found.is_published,
            has_checkpoint=found.has_checkpoint,
            marks=found.marks.marks,
            kill_note=found.marks.kill_note,
            run_dir=run_dir,
            task_id=spec.task_id,
            attempt=attempt,
            valid_from_leg=valid_from_leg,
        )

    return until_it_stays(run_dir, once)


def close_mark(attempt: AttemptView | Path, token: str, reason: str) -> None:
    """Say how an execution ended (`handed_back`, `cancelled`, …), so that nobody fears its attempt.

    Args:
        attempt: its view, or its directory.
        reason: lower-case letters and `_`.
    """
    directory = attempt if isinstance(attempt, Path) else where(attempt)
    marks.close(directory, token, reason)


def load_checkpoint(attempt_dir: Path) -> Checkpoint | None:
    """Return the checkpoint of an attempt, ours or another writer's; None if it has none.

    Raises:
        RecordCorrupt, FormatUnknown: it cannot be relied on; then the agent runs again.
    """
    path = attempt_dir / layout.CHECKPOINT
    try:
        data = disk.read(path)
    except FileNotFoundError:
        return None
    try:
        return records.parse_fast(data, Checkpoint, path)
    except FormatUnknown as error:
        if error.found != CHECKPOINT_V1:
            raise
        return adapt_checkpoint(records.json_object(data, path), path)


def write_snapshot(view: AttemptView, checkpoint: Checkpoint) -> bool:
    """Replace the checkpoint, whole and durable down to the attempt's own name.

    Returns:
        False if the attempt has a result by now: a late checkpoint never stands beside the result
        of another execution.
    """
    data = records.compact(checkpoint)

    def once() -> bool:
        directory = where(view)
        if disk.is_file(f"{directory}/{layout.RESULT}"):
            return False
        atomic.replace(f"{directory}/{layout.CHECKPOINT}", data)
        atomic.sync_directory(directory.parent)
        view.is_anchored = True
        view.has_checkpoint = True
        return True

    return until_it_stays(view.run_dir, once)


def publish(run_dir: Path, view: AttemptView, result: AttemptResult, plan: AttemptPlan) -> bool:
    """Publish the attempt's terminal result once, durable, and file its task if that is all.

    Safe to repeat: the same token's result counts as published by us.

    Returns:
        False if another execution was first. Its result stays; ours, with what it collected, goes
        to `retries/execution-<token>/`. Either way the attempt has a result on disk now.

    Raises:
        TypeError: the result holds what JSON cannot; nothing was written.
        OSError: the disk is full, for example; there is no result then.
    """
    data = results.to_bytes(result)
    won = until_it_stays(run_dir, lambda: _publish_result(view, data, result.token))
    if not won:
        until_it_stays(run_dir, lambda: _keep_lost(view, result.token, data))
    else:
        _secure(view, result)
    view.is_published = True
    own = {view.attempt: results.head_of(result)} if won else {}
    try:
        filed = filing.file_if_terminal(run_dir, view.task_id, plan, own=own)
    except (RecordCorrupt, FormatUnknown):
        # A sibling's record is malformed. Ours is published all the same, and whoever reduces the
        # run has to read that record and names it.
        filed = None
    if filed is None:
        atomic.sync_directory(layout.state_dir(run_dir, "running"))
    return won


def _task_directory(
    run_dir: Path, dirname: str, spec: TaskSpec, plan: AttemptPlan
) -> tuple[State, str]:
    """Return where the task stands, made in `running` with its `task.json` if it is nowhere."""
    state, path = disk.look(run_dir, dirname) or _made(run_dir, dirname)
    record = f"{path}/{layout.TASK}"
    if state == "running" and not disk.is_file(record):
        data = records.compact(task_record(spec, plan))
        atomic.publish_once(record, data, sync_directory=False)
    return state, path


def _made(run_dir: Path, dirname: str) -> tuple[State, str]:
    """Make a task's directory in `running`, unless it turns out to stand somewhere.

    The mkdir is the second look at `running`, and what follows the one at the other states: until
    both are made, a task does not count as absent.
    """
    running = layout.task_path(run_dir, "running", dirname)
    if atomic.make_directory(running):
        filed = disk.find_filed(run_dir, dirname)
        if filed is not None and atomic.remove_directory(running):
            return filed
    return "running", running


def task_record(spec: TaskSpec, plan: AttemptPlan) -> TaskRecord:
    """Return the content of `task.json`: a pure function of the frozen task and the plan."""
    return TaskRecord(
        task_id=spec.task_id,
        category=spec.category,
        ground_truth=spec.ground_truth,
        attempt_plan=plan,
        content_sha256=digest_of(spec),
        attempts={str(n): layout.attempt_dirname(n) for n in range(1, plan.k + 1)},
    )


def _has_valid_result(attempt_dir: str, valid_from_leg: int) -> bool:
    path = f"{attempt_dir}/{layout.RESULT}"
    if not disk.is_file(path):
        return False
    return valid_from_leg <= 1 or load_outcome(path).leg >= valid_from_leg


@dataclass(frozen=True, slots=True)
class _Listing:
    is_published: bool
    has_checkpoint: bool
    marks: Marks


def _look(directory: str, token: str, valid_from_leg: int) -> _Listing:
    """Return what a listing of an attempt's directory says to the execution of this token."""
    names = disk.names(directory)
    return _Listing(
        layout.RESULT in names and _has_valid_result(directory, valid_from_leg),
        layout.CHECKPOINT in names,
        marks.read(directory, names, without=token),
    )


def _publish_result(view: AttemptView, data: bytes, token: str) -> bool:
    directory = where(view)
    path = f"{directory}/{layout.RESULT}"
    if view.valid_from_leg > 1 and is_unsettled(directory):
        filing.reopen(view.run_dir, view.task_id, {view.attempt: view.valid_from_leg})
    if atomic.publish_once(path, data):
        return True
    try:
        present = load_outcome(path)
    except RecordCorrupt:
        return False  # it is theirs to explain; `check` names it, `--quarantine` removes it
    if present.leg < view.valid_from_leg:
        filing.reopen(view.run_dir, view.task_id, {view.attempt: view.valid_from_leg})
        raise FileNotFoundError(path)
    return present.token == token


def _secure(view: AttemptView, result: AttemptResult) -> None:
    """Make sure that a result that was just published, and what it names, is there to stay."""
    manifest = result.artifacts.get("manifest")
    directory = manifest.get("directory") if isinstance(manifest, dict) else None
    if directory:
        token = str(directory).rpartition("/")[2]
        until_it_stays(view.run_dir, lambda: evidence.bring_back(where(view), token))
    if not view.is_anchored:
        # A sibling may file the task between our link and this.
        until_it_stays(view.run_dir, lambda: atomic.sync_directory(where(view).parent))


def _keep_lost(view: AttemptView, token: str, data: bytes) -> None:
    directory = where(view)
    target = evidence.keep(directory, f"execution-{token}", {layout.RESULT: data})
    evidence.move_outputs(directory, token, target)
    marks.close(directory, token, "superseded")
