"""The child's side of `alone_process`: executes one attempt in this process and ends.

Run as `python -m agentcompass.runtime.delivery.alone`, with the order as a line of JSON on stdin.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import signal
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final

from agentcompass.errors import AttemptFailure, UsageError
from agentcompass.models.message import AttemptMessage
from agentcompass.models.result import AttemptResult
from agentcompass.runtime.calling.interrupts import Stopped
from agentcompass.runtime.delivery.alone_limits import AskingParent
from agentcompass.runtime.delivery.job import Job
from agentcompass.runtime.delivery.run_cache import loaded
from agentcompass.runtime.execute import execute
from agentcompass.runtime.execution import records
from agentcompass.runtime.execution.failures import failure_of
from agentcompass.runtime.ports import KillReason, StopSignal
from agentcompass.runtime.site import Site
from agentcompass.runtime.values.live import MaskingFormatter, mask_output, note
from agentcompass.store import control, root, tasks

_PR_SET_PDEATHSIG: Final = 1


class _Parent:
    """Whom we report to. Plug-ins may print: their stdout is our stderr."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._lock = threading.Lock()
        self.limits = AskingParent(self.say)

    def say(self, **what: object) -> None:
        """Send one line."""
        with self._lock:
            self._out.write(json.dumps(what) + "\n")
            self._out.flush()

    def until(self, deadline_monotonic_s: float, reason: KillReason) -> None:
        """Implement `Watch`: the parent's keeper enforces it."""
        self.say(until=deadline_monotonic_s, reason=reason)

    def progress(self, line: str) -> None:
        """Pass a line of progress on."""
        self.say(progress=line)


def main() -> None:
    """Execute the one attempt that is ordered."""
    parent = _Parent(os.fdopen(os.dup(sys.stdout.fileno()), "w"))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    _die_with_parent()
    mask_output()
    log = logging.StreamHandler(sys.stderr)
    log.setFormatter(MaskingFormatter("%(levelname)s:%(name)s:%(message)s"))
    logging.basicConfig(handlers=[log], level=logging.INFO)
    line = sys.stdin.readline()
    if not line:
        return
    stop = StopSignal()
    listening = threading.Thread(target=_listen, args=(stop, parent.limits), daemon=True)
    listening.start()
    try:
        record = _execute(json.loads(line), parent, stop)
        parent.say(end="recorded", record=record.model_dump_json())
    except Stopped as stopped:
        parent.say(end=stopped.reason)
    except UsageError as error:
        parent.say(end="cannot_load", text=str(error))
    except OSError as error:
        parent.say(end="os_error", errno=error.errno or 0, text=error.strerror or str(error))


def _execute(order: dict[str, Any], parent: _Parent, stop: StopSignal) -> AttemptResult:
    job = _job(order, parent)
    view = job.begin(alone=True)
    if view.is_published:  # while this process started, by one that was thought dead
        raise Stopped("lease_lost")
    try:
        attempt = job.attempt(view, parent, stop)
    except AttemptFailure as failure:
        times = (job.started_at, job.site.now())
        return records.without_execution(job.identity, times, failure_of(failure, "open").issue)
    snapshot = job.usable_snapshot(view)
    job.put_aside(view, snapshot)
    return execute(attempt, snapshot)


def _job(order: dict[str, Any], parent: _Parent) -> Job:
    path, root_id = order["root"]
    trusted = order["trusted_roots"]
    site = Site(
        root=root.ResultsRoot(Path(path), root_id),
        worker=order["worker"],
        work_dir=Path(order["work_dir"]),
        now=_now,
        trusted_roots=None if trusted is None else tuple(Path(each) for each in trusted),
        progress=parent.progress,
        secrets=order["secrets"],
        limits=parent.limits if order["has_limits"] else None,
    )
    note(order["secrets"])
    message = AttemptMessage.model_validate(order["message"])
    run = loaded(root.resolve_ref(site.root, message.run))
    spec = tasks.read_at(run.run_dir, message.offset)
    legs = control.legs(run.run_dir)
    return Job(
        message=message,
        run=run,
        spec=spec,
        plan=run.plan_of(spec, message.attempt, legs),
        legs=legs,
        token=order["token"],
        site=site,
        started_at=datetime.fromisoformat(order["started_at"]),
    )


def _now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - this module is the wiring of its process


def _listen(stop: StopSignal, limits: AskingParent) -> None:
    """Obey the parent; when it is gone, so are we, with our whole session."""
    for line in sys.stdin:
        said = json.loads(line)
        if "stop" in said:
            stop.request(said["stop"])
        else:
            limits.hear(said)
    os.killpg(0, signal.SIGKILL)


def _die_with_parent() -> None:
    """Ask for SIGKILL at the parent's end: code that is stuck in C starves the listening thread."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


if __name__ == "__main__":
    main()
