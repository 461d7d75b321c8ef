"""The parent's side of an execution in a process of its own; `alone` is the child's.

The parent holds the lease, makes the start mark and publishes; the child executes. They talk in
lines of JSON over the child's standard streams: the order goes in first, then requests to stop and
answers about limits; deadlines, progress and questions about limits come out, and at last how it
ended, with the record. A child whose parent is gone ends itself.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any, Final, Self

from agentcompass.errors import UsageError
from agentcompass.models.result import AttemptResult
from agentcompass.runtime.calling.interrupts import Stopped
from agentcompass.runtime.delivery.alone_limits import answer
from agentcompass.runtime.delivery.job import Job
from agentcompass.runtime.ports import StopSignal, Watch

CHILD: Final = "agentcompass.runtime.delivery.alone"


class DiedAlone(Exception):
    """The process ended without saying how the attempt went."""


class AloneProcess:
    """A child that waits for its order; a context that leaves no process behind."""

    def __init__(self, job: Job) -> None:
        self._job = job
        search = os.pathsep.join(place or os.curdir for place in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-m", CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**job.site.environ, "PYTHONPATH": search, "AGENTCOMPASS_TOKEN": job.token},
            start_new_session=True,
            text=True,
        )

    @property
    def pid(self) -> int:
        """The process whose end is the end of the execution."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()

    def execute(self, watch: Watch, stop: StopSignal) -> AttemptResult:
        """Let the child execute, and return its record.

        Raises:
            Stopped: it was ended from outside, in order.
            UsageError: it cannot load a plug-in of the plan.
            OSError: it cannot write to the results folder.
            DiedAlone: it is gone.
        """

        def ask() -> None:
            self._tell({"stop": stop.reason})

        self._say(self._order())
        stop.listen(ask)
        try:
            return self._ended(self._last_word(watch))
        finally:
            stop.unlisten(ask)

    def _order(self) -> dict[str, object]:
        site = self._job.site
        trusted = site.trusted_roots
        return {
            "message": self._job.message.model_dump(),
            "token": self._job.token,
            "started_at": self._job.started_at.isoformat(),
            "root": [str(site.root.path), site.root.root_id],
            "worker": site.worker,
            "work_dir": str(site.work_dir),
            "secrets": dict(site.secrets),
            "has_limits": site.limits is not None,
            "trusted_roots": None if trusted is None else [str(path) for path in trusted],
        }

    def _say(self, what: object) -> None:
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):  # it has died, which reading will tell
                self._process.stdin.write(json.dumps(what) + "\n")
                self._process.stdin.flush()

    def _last_word(self, watch: Watch) -> dict[str, str]:
        """Obey what the child says until it says how it ended."""
        for line in self._process.stdout or ():
            said = json.loads(line)
            if "until" in said:
                watch.until(said["until"], said["reason"])
            elif "progress" in said:
                self._job.site.progress(said["progress"])
            elif "ask" in said:
                self._answer(said)
            else:
                return {str(key): str(value) for key, value in said.items()}
        self._kill()
        raise DiedAlone(f"its process ended with exit code {self._process.returncode}")

    def _answer(self, said: dict[str, Any]) -> None:
        limits = self._job.site.limits
        told = answer(limits, self._job.key, self._job.token, said) if limits else None
        if told is not None:
            self._tell(told)

    def _tell(self, what: object) -> None:
        """Send a short line, whole; a signal handler may do so in the middle of another one."""
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                os.write(self._process.stdin.fileno(), f"{json.dumps(what)}\n".encode())

    def _ended(self, end: dict[str, str]) -> AttemptResult:
        match end["end"]:
            case "recorded":
                return AttemptResult.model_validate_json(end["record"])
            case "cancelled" | "lease_lost" | "handed_back" as reason:
                raise Stopped(reason)
            case "cannot_load":
                raise UsageError(end["text"])
            case "os_error":
                raise OSError(int(end["errno"]), end["text"])
            case _:
                raise DiedAlone(f"it said {end}")

    def _kill(self) -> None:
        """End the child's whole session; its number is ours until we have waited for it."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
