"""Which run is the source: the one that was named, or the newest one that has something to give.

A run is passed over without being named only if somebody says why. Nothing is reserved here, and
nothing of a candidate is ever written or locked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, TypeAlias

from agentcompass.coordinator.refusal import Refusal
from agentcompass.coordinator.reuse.examine import New, Reuse, SourceMalformed, examine
from agentcompass.coordinator.reuse.missing import refuse_missing_agents
from agentcompass.errors import AgentCompassError, RecordCorrupt, RunNotFound, RunNotSealed
from agentcompass.models.request import Request
from agentcompass.models.run_info import ReuseSource, RunInfo
from agentcompass.store import control, disk, layout, marks, sealed
from agentcompass.store.foreign import MixedLayouts, is_foreign
from agentcompass.store.legs import Legs
from agentcompass.store.names import safe_component
from agentcompass.store.reuse.source import Source, open_source
from agentcompass.store.scan import RunScan, pending, scan
from agentcompass.store.tasks import TaskEntry

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Activity:
    """Whether somebody still works on a run, as far as its brokers tell."""

    state: Literal["idle", "live", "unknown"]
    why: str = ""


Probe: TypeAlias = Callable[[Path, str], Activity]
"""Asks one recorded broker about a run; "" is a broker that nobody recorded."""


@dataclass(frozen=True, slots=True)
class Where:
    """Where sources are looked for."""

    results_dir: Path
    namespace: Sequence[str]
    """Of the new run; a source without a path is sought in the same one."""
    base: Path
    """The working directory, for relative paths."""
    probe: Probe

    @property
    def folder(self) -> Path:
        """The folder of the namespace; need not exist."""
        return self.results_dir.joinpath(*self.namespace)


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A newer run that is not the source."""

    path: Path
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Chosen:
    """The outcome of looking for a source."""

    reuse: Reuse | None = None
    """None: there is no source, so everything runs."""
    passed_over: Sequence[PassedOver] = ()
    warnings: Sequence[str] = ()


def choose(where: Where, new: New) -> Chosen:
    """Return the source that was named, or the newest eligible one; and what it would give.

    Raises:
        Refusal: the source is not there, live, not sealed, of mixed layouts, of another benchmark
            or plan.
        SourceMalformed: records that must be read cannot be; all of them are listed.
    """
    if new.settings.run_id:
        return _named(where, new)
    return _newest(where, new)


def frozen_reuse(chosen: ReuseSource, new: New) -> Reuse:
    """Examine the source that an interrupted planning had chosen."""
    try:
        reuse = examine(_opened(Path(chosen.path)), new)
        refuse_missing_agents(reuse, new.settings)
        return reuse
    except RunNotFound as error:
        raise Refusal(
            "source_gone",
            f"the run {chosen.run_id!r}, which this one was to reuse, is not there any more",
            where=chosen.path,
            hint="put it back, or start a new run",
        ) from error


def _named(where: Where, new: New) -> Chosen:
    source = _opened(_place(where, new))
    activity = _activity(source.run_dir, source.info, source.legs, where.probe)
    if activity.state == "live":
        raise Refusal(
            "source_live",
            f"run {source.run_id!r} is still active: {activity.why}",
            where=str(source.run_dir),
            hint="wait until it has ended, or `agentcompass cancel` it first",
        )
    unsure = f"cannot tell whether {source.run_id!r} is still active: {activity.why}"
    return Chosen(examine(source, new), warnings=[unsure] if activity.state == "unknown" else [])


def _place(where: Where, new: New) -> Path:
    """Return the run that a path or an id names; older writers had another namespace."""
    given, request = new.settings.run_id, new.request
    levels = where.namespace[:-1]
    older = (*levels, safe_component(request.benchmark.id), safe_component(request.model.id))
    places = [where.folder / given, where.results_dir.joinpath(*older, given)]
    paths = [where.base / Path(given).expanduser(), where.results_dir / given]
    for place in [*([] if "/" in given else places), *paths]:
        if (place / layout.RUN_INFO).is_file():
            return place
    raise Refusal(
        "source_not_found",
        f"there is no run {given!r} to reuse",
        where=str(where.folder),
        hint="give the id of a run of this benchmark, harness and model, or the path of any run",
    )


def _opened(run_dir: Path) -> Source:
    try:
        return open_source(run_dir)
    except RunNotSealed as error:
        raise Refusal(
            "source_not_sealed",
            f"run {run_dir.name!r} was interrupted while it was planned: there is nothing in it",
            where=str(run_dir),
        ) from error
    except MixedLayouts as error:
        raise Refusal("mixed_layouts", str(error), where=str(run_dir)) from error
    except RecordCorrupt as error:
        raise SourceMalformed(run_dir, error.problems) from error


def _newest(where: Where, new: New) -> Chosen:
    candidates = _Candidates(where, new)
    for run_dir, info in candidates.newest_first():
        reuse = candidates.try_one(run_dir, info)
        if reuse is not None:
            return Chosen(reuse, candidates.newer_than(info.started_at))
    return Chosen(None, candidates.newer_than(_LONG_AGO))


@dataclass(slots=True)
class _Candidates:
    """The runs of one namespace, looked at one after the other."""

    where: Where
    new: New
    _passed: list[tuple[datetime, PassedOver]] = field(default_factory=list)

    def newest_first(self) -> list[tuple[Path, RunInfo]]:
        """Return the sealed runs of the same ids, by their own words about their start."""
        found = [(path, info) for path in self._runs() if (info := self._eligible(path))]
        return sorted(found, key=lambda each: (each[1].started_at, each[1].run_id), reverse=True)

    def newer_than(self, started_at: datetime) -> list[PassedOver]:
        """Return what was passed over and began at that time or later."""
        newer = [each for each in self._passed if each[0] >= started_at]
        return [passed for _, passed in sorted(newer, key=lambda each: each[0], reverse=True)]

    def try_one(self, run_dir: Path, info: RunInfo) -> Reuse | None:
        """Return what a run would give; None, noted, if it is live or has nothing."""
        try:
            return self._tried(run_dir, info)
        except (AgentCompassError, FileNotFoundError):
            if disk.is_file(run_dir / layout.RUN_INFO):
                raise
            return None  # somebody deletes it: it is no candidate any more

    def _tried(self, run_dir: Path, info: RunInfo) -> Reuse | None:
        legs = control.legs(run_dir)
        activity = _activity(run_dir, info, legs, self.where.probe)
        if activity.state != "idle":
            code = "live" if activity.state == "live" else "activity_unknown"
            self._pass(run_dir, info.started_at, code, activity.why)
            return None
        found = scan(run_dir, legs)
        if not any(task.published or task.checkpoints for task in found.tasks.values()):
            self._pass(run_dir, info.started_at, "nothing_reusable", "no attempt of it is over")
            return None
        reuse = examine(_opened(run_dir), self.new)
        if not reuse.is_useful:
            why = "nothing in it can be reused for these tasks"
            self._pass(run_dir, info.started_at, "nothing_reusable", why)
            return None
        return reuse

    def _runs(self) -> Iterator[Path]:
        try:
            folders = sorted(self.where.folder.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return
        yield from (path for path in folders if (path / layout.RUN_INFO).is_file())

    def _eligible(self, run_dir: Path) -> RunInfo | None:
        try:
            if is_foreign(run_dir):
                why = "another program wrote it; name it with --reuse-run-id"
                self._pass(run_dir, _LONG_AGO, "other_writer", why)
                return None
            info = sealed.load(run_dir)
        except RunNotFound:
            return None  # deleted since it was listed
        except RecordCorrupt as error:
            if not self.new.settings.skip_malformed:
                raise SourceMalformed(run_dir, error.problems) from error
            self._pass(run_dir, _LONG_AGO, "record_corrupt", error.problems[0][1])
            return None
        other = _other_id(info.request, self.new.request)
        if info.sealed_at is None:
            self._pass(run_dir, info.started_at, "not_sealed", "interrupted while it was planned")
        elif other:
            self._pass(run_dir, info.started_at, "other_ids", other)
        else:
            return info
        return None

    def _pass(self, run_dir: Path, started_at: datetime, code: str, reason: str) -> None:
        self._passed.append((started_at, PassedOver(run_dir, code, reason)))


def _other_id(one: Request, other: Request) -> str:
    """Return in which raw id two requests differ: names made safe may be equal all the same."""
    for name in ("benchmark", "harness", "model"):
        old, new = getattr(one, name).id, getattr(other, name).id
        if old != new:
            return f"its {name}.id is {old!r}, not {new!r}"
    return ""


def _activity(run_dir: Path, info: RunInfo | None, legs: Legs, probe: Probe) -> Activity:
    """Ask every broker that was recorded for a leg of which attempts may execute.

    That is each open leg. A pause lets what executes come to its end, so then it is each leg of which
    an attempt has begun and not ended. A run that is over, or cancelled, is idle.
    """
    if info is None or legs.state == "cancelled":
        return Activity("idle")
    found = scan(run_dir, legs)
    left = pending(run_dir, info, found)
    if legs.state == "paused":
        begun = _legs_begun(run_dir, found, left)
    elif any(True for _ in left):
        begun = {leg for leg in range(1, legs.current + 1) if legs.is_open(leg)}
    else:
        begun = set()
    brokers = {info.broker} if 1 in begun else set[str]()
    brokers |= {
        record.broker
        for record in control.control_records(run_dir)
        if record.broker and record.leg in begun
    }
    answers = [probe(run_dir, broker) for broker in sorted(brokers)]
    for state in ("live", "unknown"):
        answer = next((each for each in answers if each.state == state), None)
        if answer is not None:
            return answer
    return Activity("idle")


def _legs_begun(
    run_dir: Path, found: RunScan, left: Iterable[tuple[TaskEntry, Sequence[int]]]
) -> set[int]:
    """Return the legs of executions of which only the beginning is known."""
    legs = set[int]()
    for entry, numbers in left:
        task = found.get(entry.task_id)
        if task is None:
            continue
        place = layout.task_dir(run_dir, task.state, entry.task_id)
        for directory in (str(place / layout.attempt_dirname(number)) for number in numbers):
            with suppress(FileNotFoundError):  # it is over, and was filed
                read = marks.read(directory, disk.names(directory)).marks
                legs |= {mark.leg for mark in read if mark.closed is None}
    return legs
