"""What `launch` and the `resume` of a launch share: start or go on, attend, and say how it ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import click

from agentcompass.cli.attached import Going, Manner, see_through
from agentcompass.cli.output import emit, plain
from agentcompass.cli.reusing import Looking
from agentcompass.cli.run_events import announce, conclude
from agentcompass.cli.wiring import by, now, this_machine
from agentcompass.coordinator.asking.policy import policy_change
from agentcompass.coordinator.asking.requests import Asked
from agentcompass.coordinator.launching.launch import Launch, exit_code_of
from agentcompass.coordinator.planning.plan import Machine, Planned, plan
from agentcompass.coordinator.planning.start import EMBEDDED, Place, SealedRun, start
from agentcompass.coordinator.refusal import code_of
from agentcompass.coordinator.report import complete
from agentcompass.coordinator.resuming.resume import Wish, examine, go_on
from agentcompass.coordinator.serving import refuse_strangers
from agentcompass.coordinator.snapshot import look_at
from agentcompass.errors import AgentCompassError, UsageError
from agentcompass.models.base import JsonObject
from agentcompass.models.launch import LaunchedRequest, LaunchRecord
from agentcompass.models.request import Request
from agentcompass.store import layout, reserve

_HEAD: Final = ("request", "state", "exit", "run")


class Planner:
    """Plans requests, and finds what they reuse."""

    def __init__(self, results_dir: Path, broker: str | None, *, as_json: bool) -> None:
        self._results_dir = results_dir
        self._broker = broker
        self._as_json = as_json

    def plan_only(self, request: Request) -> Planned:
        """Plan one request."""
        return plan(request, machine=this_machine() if self._broker is None else Machine())

    def plan(self, name: str, request: Request) -> Planned:
        """Plan one named request together with what it takes over; the caller closes it."""
        planned = self.plan_only(request)
        try:
            asked = Asked(request, self._results_dir, self._broker)
            chosen = Looking(asked, self._results_dir, self._as_json, name).find(planned)
        except BaseException:
            planned.tasks.close()
            raise
        return replace(planned, reuse=chosen.reuse)


class Conductor:
    """Carries a launch out. Whatever refuses one request does not stop the others."""

    def __init__(
        self,
        launch: Launch,
        planner: Planner,
        manner: Manner,
        broker: str | None,
        secrets: Mapping[str, str],
    ) -> None:
        self.launch = launch
        self._planner = planner
        self._manner = manner
        self._broker = broker or EMBEDDED
        self._secrets = secrets
        self._going: list[Going] = []
        self._refused: set[str] = set()

    def __enter__(self) -> Self:
        if not self._manner.as_json:
            click.echo(f"launch: {self.launch.path}")
            return self
        runs = {each.name: str(self.launch.run_dir(each)) for each in self._entries}
        launch_id, path = self.launch.record.launch_id, str(self.launch.path)
        emit({"event": "launch_started", "launch_id": launch_id, "path": path, "runs": {**runs}})
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Whatever ends us early, the record says how things stand."""
        if error is not None:
            self.launch.close(self._names_of_runs(), now())
            click.echo(
                f"not complete; go on with: agentcompass resume {self.launch.path}", err=True
            )

    def start(self, entry: LaunchedRequest, planned: Planned) -> None:
        """Make the run of a request that has none yet; `planned` may lack the run's id."""
        with self.failing_alone(entry):
            self._refuse_strangers(entry.request.runtime.queue)
            run = start(
                self.launch.root,
                replace(planned, request=entry.request),
                now=now,
                announce=lambda path: self._announce(path, entry),
                broker=self._broker,
                place=Place(entry.name, reserve.adopt),
            )
            work = look_at(run.address.run_dir, run.info).work
            self._goes_on(Going(run, 1, work, entry.request.runtime, self._secrets, entry.name))

    def resume(self, entry: LaunchedRequest, wish: Wish) -> None:
        """Go on with a request: with its run or, if it has none, from its beginning."""
        with self.failing_alone(entry):
            if self.launch.has_run(entry):
                self._go_on(entry, wish)
                return
            entry = self._with_policy(entry, wish.changes)
            with self._planner.plan(entry.name, entry.request) as planned:
                self.start(entry, planned)

    @contextmanager
    def failing_alone(self, entry: LaunchedRequest) -> Iterator[None]:
        """Make an error the outcome of its request."""
        try:
            yield
        except AgentCompassError as error:
            self.refuse(entry.name, error)
        except OSError as error:  # the disk is full, or the share is away: perhaps not for the next
            path = self.launch.run_dir(entry)
            self.refuse(entry.name, UsageError(f"the run cannot be made: {error}", where=str(path)))

    def refuse(self, name: str, error: AgentCompassError) -> None:
        """Note why a request cannot go on, and say it."""
        self._refused.add(name)
        self.launch.failed(name, error)
        click.echo(f"request {name!r} failed: {error}", err=True)
        if self._manner.as_json:
            emit(
                {
                    "event": "refused",
                    "request": name,
                    "code": code_of(error),
                    "message": str(error),
                }
            )

    def carry_on(self) -> int:
        """Dispatch and attend everything that was started, and say how the launch ended."""
        if self._going:
            see_through(self._going, self._manner, self._ended)
        if self._manner.detach and self._going:
            _tell(self.launch, "launch_detached", as_json=self._manner.as_json)
            return int(bool(self._refused))
        self.launch.close(self._names_of_runs(), now())
        for entry in self._entries:
            if entry.name in self._names_of_runs():
                with self.failing_alone(entry):
                    run_dir = self.launch.run_dir(entry)
                    conclude(run_dir, as_json=self._manner.as_json, name=entry.name)
        _tell(self.launch, "launch_finished", as_json=self._manner.as_json)
        return exit_code_of(self._entries)

    @property
    def _entries(self) -> Sequence[LaunchedRequest]:
        return self.launch.record.requests

    def _names_of_runs(self) -> list[str]:
        """Return the requests whose runs are there, and ours."""
        there = [
            each.name
            for each in self._entries
            if (self.launch.run_dir(each) / layout.RUN_INFO).exists()
        ]
        return [name for name in there if name not in self._refused]

    def _ended(self, run: SealedRun) -> None:
        name = next(each.name for each in self._going if each.run is run)
        self.launch.ended(name)

    def _announce(self, run_dir: Path, entry: LaunchedRequest) -> None:
        announce(run_dir, as_json=self._manner.as_json, name=entry.name)

    def _go_on(self, entry: LaunchedRequest, wish: Wish) -> None:
        run_dir = self.launch.run_dir(entry)
        ready = examine(run_dir, wish, plan=self._planner.plan_only, now=now)
        if ready.has_work:
            self._refuse_strangers(ready.queue)
        for rerun in ready.reruns:
            click.echo(f"{entry.name}: again: {rerun.described}", err=True)
        resumed = go_on(ready, reason=wish.reason, by=by(), at=now(), broker=self._broker)
        self._announce(run_dir, entry)
        seen = resumed.seen
        self._goes_on(
            Going(resumed.run, resumed.leg, seen.work, seen.runtime, self._secrets, entry.name)
        )

    def _refuse_strangers(self, lane: str) -> None:
        if self._manner.queue is not None:
            refuse_strangers(self._manner.queue, lane, self.launch.root.path)

    def _goes_on(self, going: Going) -> None:
        if not going.work:
            complete(going.run.address.run_dir)
            self.launch.ended(going.name)
            return
        self.launch.begun(going.name)
        self._going.append(going)

    def _with_policy(self, entry: LaunchedRequest, changes: JsonObject) -> LaunchedRequest:
        policy = policy_change(entry.request, changes)
        if policy is None:
            return entry
        given = {"execution": policy.execution, "runtime": policy.runtime}
        changed = {name: value for name, value in given.items() if value is not None}
        return self.launch.changed(entry.name, entry.request.model_copy(update=changed))


def _tell(launch: Launch, event: str, *, as_json: bool) -> None:
    record = launch.record
    if as_json:
        emit({"event": event, "path": str(launch.path), "launch": plain(record)})
        return
    click.echo(f"launch {record.launch_id} ({record.name}): {record.status}")
    rows = [_HEAD, *map(_row, record.requests)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [text.ljust(width) for text, width in zip(row, widths, strict=True)]
        click.echo("  ".join(cells).rstrip())
    _say_how_to_go_on(launch, record)


def _say_how_to_go_on(launch: Launch, record: LaunchRecord) -> None:
    if any(each.exit_code not in {0, 1} for each in record.requests):
        click.echo(f"go on with: agentcompass resume {launch.path}", err=True)


def _row(entry: LaunchedRequest) -> Sequence[str]:
    code = "" if entry.exit_code is None else str(entry.exit_code)
    problem = " ".join(entry.error.split())
    return entry.name, entry.state, code, problem or entry.run
