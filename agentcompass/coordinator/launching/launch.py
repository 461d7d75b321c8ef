"""A launch and its record: which requests, which runs, and what became of them.

The record names the run of every request before any of them is made, so that a launch that was
killed between two steps goes on with the same directories and never makes a second one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, cast

from agentcompass.coordinator.launching.suite import NamedRequest
from agentcompass.coordinator.report import COMPLETE, INCOMPLETE, WITH_ERRORS, read
from agentcompass.errors import AgentCompassError, UsageError
from agentcompass.models.launch import LaunchedRequest, LaunchRecord, LaunchStatus, RequestState
from agentcompass.models.request import Request
from agentcompass.store import launches, layout, reserve, sealed
from agentcompass.store.names import namespace_of, safe_component
from agentcompass.store.root import ResultsRoot

_STATES: Final = frozenset({"completed", "failed", "cancelled", "interrupted"})


def publish(
    root: ResultsRoot, name: str, requests: Sequence[NamedRequest], now: datetime
) -> Launch:
    """Record a launch under a new id, which is also the id of every run that has none of its own."""

    def record_for(launch_id: str) -> LaunchRecord | None:
        launched = [_launched(each, launch_id) for each in requests]
        is_free = all(
            each.request.output.run_id is not None
            or not reserve.is_taken(root.path, namespace_of(each.request, each.name), launch_id)
            for each in requests
        )
        if not is_free:
            return None
        return LaunchRecord(
            launch_id=launch_id, name=name, started_at=now, requests=tuple(launched)
        )

    return Launch(root, launches.publish(root, now, record_for))


class Launch:
    """One launch; every change is on disk when the method returns. Its writer holds its lock."""

    def __init__(self, root: ResultsRoot, record: LaunchRecord) -> None:
        self.root = root
        self.record = record

    @property
    def path(self) -> Path:
        """Where the record is."""
        return launches.path_of(self.root.path, self.record.launch_id)

    def run_dir(self, entry: LaunchedRequest) -> Path:
        """Return where the run of a request is, or will be."""
        return self.root.path / entry.run

    def has_run(self, entry: LaunchedRequest) -> bool:
        """Return whether the run of a request exists.

        Raises:
            UsageError: a run is there, and is of another request.
        """
        run_dir = self.run_dir(entry)
        if not (run_dir / layout.RUN_INFO).exists():
            return False
        if sealed.load(run_dir).request != entry.request:
            raise UsageError(
                f"the run of request {entry.name!r} is another one's",
                where=str(run_dir),
                hint="it took the id before this launch could; start this request anew",
            )
        return True

    def begun(self, name: str) -> None:
        """Note that the run of a request goes on."""
        self._note({name: {"state": "running", "exit_code": None, "error": ""}})

    def changed(self, name: str, request: Request) -> LaunchedRequest:
        """Note how a request is to be started, which has no run yet."""
        self._note({name: {"request": request}})
        return self._entry(name)

    def failed(self, name: str, error: AgentCompassError) -> None:
        """Note why a request cannot go on."""
        self._note({name: _failure(error)})

    def ended(self, *names: str) -> None:
        """Note how the runs of requests stand, by their own directories."""
        self._note({name: self._outcome(self._entry(name)) for name in names})

    def close(self, names: Iterable[str], now: datetime) -> None:
        """Note how the launch ended: the requests that were attended, then the whole."""
        self.ended(*names)
        status = status_of(self.record.requests)
        self._write(self.record.model_copy(update={"status": status, "finished_at": now}))

    def reopen(self) -> None:
        """Note that somebody goes on with it."""
        self._write(self.record.model_copy(update={"status": "running", "finished_at": None}))

    def _entry(self, name: str) -> LaunchedRequest:
        return next(each for each in self.record.requests if each.name == name)

    def _outcome(self, entry: LaunchedRequest) -> dict[str, object]:
        try:
            reported = read(self.run_dir(entry))
        except AgentCompassError as error:
            return {**_failure(error), "paths": launches.found_of(self.root, entry.run)}
        return {
            "state": cast(
                "RequestState", reported.state if reported.state in _STATES else "running"
            ),
            "exit_code": reported.exit_code,
            "error": "",
            "paths": launches.found_of(self.root, entry.run),
        }

    def _note(self, changes: dict[str, dict[str, object]]) -> None:
        requests = tuple(
            each.model_copy(update=changes[each.name]) if each.name in changes else each
            for each in self.record.requests
        )
        self._write(self.record.model_copy(update={"requests": requests}))

    def _write(self, record: LaunchRecord) -> None:
        if record != self.record:
            launches.replace(self.root, record)
            self.record = record


def status_of(requests: Sequence[LaunchedRequest]) -> LaunchStatus:
    """Return how a launch stands that nobody carries out any more: the least that is true of all."""
    states = {each.state for each in requests}
    if states & {"pending", "running", "interrupted"}:
        return "interrupted"
    return "cancelled" if "cancelled" in states else "failed" if "failed" in states else "completed"


def exit_code_of(requests: Sequence[LaunchedRequest]) -> int:
    """Return 3 if a run is not complete, else 1 if a request failed or has errors, else 0."""
    codes = {each.exit_code for each in requests}
    if codes & {None, INCOMPLETE}:
        return INCOMPLETE
    return COMPLETE if codes == {COMPLETE} else WITH_ERRORS


def _launched(named: NamedRequest, launch_id: str) -> LaunchedRequest:
    """Give a request the id of its run: its own, or the launch's."""
    output = named.request.output
    run_id = output.run_id if output.run_id is not None else launch_id
    request = named.request.model_copy(
        update={"output": output.model_copy(update={"run_id": run_id})}
    )
    levels = (*namespace_of(request, named.name), safe_component(run_id))
    return LaunchedRequest(name=named.name, request=request, run="/".join(levels))


def _failure(error: AgentCompassError) -> dict[str, object]:
    return {"state": "failed", "exit_code": error.exit_code, "error": str(error)}
