"""Writing what was taken into a new run, before its seal.

Each task is built beside the others, in a folder that no reader looks at, and gets its place with
one rename: after a crash it is there as a whole or not at all, and doing it again adds what is
missing. Everything goes through new files; the source is only ever opened for reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Final, Literal, TypeAlias

from pydantic import JsonValue

from agentcompass.errors import RecordCorrupt
from agentcompass.models.checkpoint import Checkpoint
from agentcompass.models.metric import MetricContract
from agentcompass.models.plan import EvaluationMode
from agentcompass.models.request import AttemptPlan
from agentcompass.models.result import AttemptMeta, AttemptResult
from agentcompass.models.task import TaskSpec
from agentcompass.store import artifacts, atomic, attempts, disk, layout, records, results
from agentcompass.store.foreign_checkpoints import without_masks
from agentcompass.store.layout import State
from agentcompass.store.names import task_dirname
from agentcompass.store.reuse.read import AttemptFound, read_task
from agentcompass.store.reuse.source import Source

Deed: TypeAlias = Literal["take", "skip", "evaluate", "run"]
"""Of one attempt: its result is taken; strategy `pass` did not need it; only its evaluation runs;
it runs as a whole."""
REUSED: Final = "reused"
"""`retries/reused/`: the source's result of an attempt that is run or evaluated again."""
STAGING: Final = f"{atomic.TEMP_PREFIX}reuse-"


@dataclass(frozen=True, slots=True)
class Taking:
    """What a new run takes of one task."""

    spec: TaskSpec
    state: State
    """Where it is filed; `running` if anything is left to do."""
    deeds: tuple[Deed, ...]
    """Of attempts 1..k."""
    mode: EvaluationMode | None = None
    """In which snapshots are evaluated that are only evaluated; None: in their own."""


@dataclass(frozen=True, slots=True)
class _Target:
    """The new run, as far as its tasks are concerned."""

    run_dir: Path
    source: Source
    plan: AttemptPlan
    contract: MetricContract


def materialize(
    run_dir: Path,
    source: Source,
    takings: Iterable[Taking],
    *,
    plan: AttemptPlan,
    contract: MetricContract,
) -> None:
    """Write everything that was taken, durable, into a run that is not sealed yet.

    Raises:
        RecordCorrupt: the source has changed since it was examined, and for the worse.
        OSError: the disk is full, for example.
    """
    _sweep(run_dir)
    target = _Target(run_dir, source, plan, contract)
    staging = run_dir / f"{STAGING}{token_hex(8)}"
    atomic.make_directory(staging)
    touched = set[State]()
    for taking in takings:
        if _write_task(target, staging, taking):
            touched.add(taking.state)
    for state in sorted(touched):
        atomic.sync_directory(layout.state_dir(run_dir, state))
    atomic.remove_tree(staging)


def _write_task(target: _Target, staging: Path, taking: Taking) -> bool:
    """Build one task and move it to its place; False if there is nothing of it to keep."""
    dirname = task_dirname(taking.spec.task_id)
    task = staging / dirname
    while not _is_built(target, taking, task):
        if disk.is_directory(task):
            atomic.remove_tree(task)
    if not disk.is_directory(task):
        return False
    record = attempts.task_record(taking.spec, target.plan)
    atomic.write_new(task / layout.TASK, (records.compact(record),))
    atomic.sync_directory(task)
    if not atomic.move(task, layout.task_path(target.run_dir, taking.state, dirname)):
        atomic.remove_tree(task)  # an interrupted materialization has brought it already
    return True


def _is_built(target: _Target, taking: Taking, task: Path) -> bool:
    """Write what is kept of a task's attempts; False if the source filed it meanwhile."""
    found = read_task(target.source, taking.spec, target.contract, compares=False)
    if found.malformed:
        raise RecordCorrupt(found.malformed)
    writer = _Writer(target, taking, task)
    try:
        for number, deed in enumerate(taking.deeds, start=1):
            writer.attempt(found.attempts.get(number) or AttemptFound(number, None), deed)
    except FileNotFoundError:
        if not found.is_moved:
            raise
    return not found.is_moved


class _Writer:
    """Writes the attempts of one task below a folder of its own."""

    def __init__(self, target: _Target, taking: Taking, task: Path) -> None:
        self._target = target
        self._taking = taking
        self._task = task

    def attempt(self, found: AttemptFound, deed: Deed) -> None:
        """Write what is kept of one attempt; nothing if that is nothing."""
        match deed:
            case "take":
                self._take(found)
            case "skip":
                self._publish(self._directory(found.number), self._skipped(found.number))
            case "evaluate":
                self._keep_old(found)
                self._snapshot(found, self._directory(found.number), self._taking.mode)
            case _:
                self._keep_old(found)

    def _take(self, found: AttemptFound) -> None:
        if found.result is None:
            raise records.corrupt(found.directory or self._target.source.run_dir, "has no result")
        directory = self._directory(found.number)
        token = _token_of(found)
        self._copy_artifacts(found, directory, {token, _manifest_name(found)})
        self._checkpoint(found, directory)
        self._publish(directory, self._owned(found, found.result))

    def _snapshot(self, found: AttemptFound, directory: Path, mode: EvaluationMode | None) -> None:
        self._copy_artifacts(found, directory, {_manifest_name(found)})
        self._checkpoint(found, directory, mode)
        atomic.sync_directory(directory)

    def _keep_old(self, found: AttemptFound) -> None:
        """Keep the result of an attempt that is done again, beside what is going to replace it."""
        if found.result is None:
            return
        directory = self._directory(found.number)
        kept = directory / layout.RETRIES / REUSED
        atomic.make_directory(directory / layout.RETRIES)
        atomic.make_directory(kept)
        old = results.to_bytes(self._owned(found, found.result))
        atomic.write_new(kept / layout.RESULT, (old,))

    def _publish(self, directory: Path, result: AttemptResult) -> None:
        atomic.write_new(directory / layout.RESULT, (results.to_bytes(result),))
        atomic.sync_directory(directory)

    def _checkpoint(
        self, found: AttemptFound, directory: Path, mode: EvaluationMode | None = None
    ) -> None:
        checkpoint = self._own_checkpoint(found)
        if checkpoint is not None and checkpoint.evaluation is not None and mode is not None:
            snapshot = checkpoint.evaluation.model_copy(update={"mode": mode})
            checkpoint = checkpoint.model_copy(update={"evaluation": snapshot})
        if checkpoint is not None:
            atomic.write_new(directory / layout.CHECKPOINT, (records.compact(checkpoint),))

    def _own_checkpoint(self, found: AttemptFound) -> Checkpoint | None:
        """Return the checkpoint with this run's paths; None if it can never be evaluated here."""
        checkpoint = found.checkpoint
        snapshot = checkpoint.evaluation if checkpoint is not None else None
        if checkpoint is None or snapshot is None:
            return None
        prepared = snapshot.prepared_task
        if self._target.source.layout != "ours":
            restored = without_masks(prepared, self._taking.spec)
            if restored is None:
                return None
            prepared = restored
        move = self._relocation(found)
        own = snapshot.run_result.model_copy(
            update={"artifacts": _mapped(snapshot.run_result.artifacts, move)}
        )
        manifest = snapshot.artifacts.model_copy(
            update={"directory": move(snapshot.artifacts.directory)}
        )
        fields = {
            "run_result": own,
            "prepared_task": prepared,
            "artifacts": manifest,
            "retry_count": 0,  # the discarded tries stay with the source
            "agent_from": snapshot.agent_from or self._target.source.run_id,
        }
        scheduler = checkpoint.scheduler.model_copy(update={"leg": 1, "token": _token_of(found)})
        evaluation = snapshot.model_copy(update=fields)
        return checkpoint.model_copy(update={"scheduler": scheduler, "evaluation": evaluation})

    def _owned(self, found: AttemptFound, result: AttemptResult) -> AttemptResult:
        """Return the source's result as one of this run."""
        return result.model_copy(
            update={
                "task_id": self._taking.spec.task_id,
                "attempt": found.number,
                "leg": 1,
                "token": _token_of(found),
                "reused_from": result.reused_from or self._target.source.run_id,
                "artifacts": _mapped(result.artifacts, self._relocation(found)),
            }
        )

    def _skipped(self, number: int) -> AttemptResult:
        return AttemptResult(
            task_id=self._taking.spec.task_id,
            attempt=number,
            token=f"{REUSED}-skipped",
            reused_from=self._target.source.run_id,
            status="skipped",
            metrics={},
            final_answer=None,
            artifacts={},
            meta=AttemptMeta(),
            trajectory=None,
        )

    def _directory(self, number: int) -> Path:
        directory = self._task / layout.attempt_dirname(number)
        atomic.make_directory(self._task)
        atomic.make_directory(directory)
        return directory

    def _copy_artifacts(self, found: AttemptFound, directory: Path, names: set[str]) -> None:
        if found.directory is None:
            return
        theirs, own = found.directory / layout.ARTIFACTS, directory / layout.ARTIFACTS
        pairs = (
            [(theirs / name, own / name) for name in sorted(names - {""})]
            if self._target.source.layout == "ours"
            else [(theirs, own / _token_of(found))]
        )
        for source, copy in pairs:
            if disk.is_directory(source):
                atomic.make_directory(own)
                artifacts.copy_tree(source, copy)
        if disk.is_directory(own):
            atomic.sync_directory(own)

    def _relocation(self, found: AttemptFound) -> Callable[[str], str]:
        """Return what maps a run-relative path of the source to the same thing in this run."""
        dirname, state = task_dirname(self._taking.spec.task_id), self._taking.state
        if found.directory is None:
            return lambda text: text
        theirs = found.directory.parent.name
        if self._target.source.layout == "ours":
            return lambda text: layout.with_state(text, theirs, state)
        inside = f"{layout.attempt_dirname(found.number)}/{layout.ARTIFACTS}"
        places = [f"{layout.DETAILS}/{known}/{theirs}/{inside}" for known in layout.STATES]
        places.append(f"{layout.DETAILS}/{theirs}/{inside}")
        own = f"{layout.DETAILS}/{state}/{dirname}/{inside}/{_token_of(found)}"

        def moved(text: str) -> str:
            for place in places:
                if text == place or text.startswith(f"{place}/"):
                    return own + text[len(place) :]
            return text

        return moved


def _token_of(found: AttemptFound) -> str:
    """Return the execution's token; other writers have none, so their place gives one."""
    own = found.result.token if found.result is not None else ""
    if not own and found.checkpoint is not None:
        own = found.checkpoint.scheduler.token
    return own or f"{REUSED}-{sha256(str(found.directory).encode()).hexdigest()[:16]}"


def _manifest_name(found: AttemptFound) -> str:
    """Return the artifact folder that a snapshot names: of an earlier execution, if it continued one."""
    snapshot = found.checkpoint.evaluation if found.checkpoint is not None else None
    return snapshot.artifacts.directory.rpartition("/")[2] if snapshot is not None else ""


def _mapped(value: JsonValue, move: Callable[[str], str]) -> JsonValue:
    if isinstance(value, str):
        return move(value)
    if isinstance(value, list):
        return [_mapped(each, move) for each in value]
    if isinstance(value, dict):
        return {name: _mapped(each, move) for name, each in value.items()}
    return value


def _sweep(run_dir: Path) -> None:
    """Remove what an interrupted materialization was building; whoever plans the run holds its lock."""
    for name in disk.directories(run_dir):
        if name.startswith(STAGING):
            atomic.remove_tree(run_dir / name)
