"""The keeper that executions see: implements `agentcompass.runtime.ports.Keeper`.

An execution only writes a slip. Heartbeat, deadline and stop come from the worker's main process,
which reads the slips: in `prefork` another process than the executing one, in `threads` the same.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentcompass.runtime.ports import Execution, StopReason, Watch
from workers.broker.keys import lease_key
from workers.broker.leases import lease_value
from workers.keeping import processes, slips, strays


class SlipKeeper:
    """Made before the pool forks; each process knows the executions of its own."""

    def __init__(self, directory: Path, worker: str) -> None:
        self._directory = directory
        self._worker = worker
        self._live: dict[str, Execution] = {}
        self._blank: list[slips.Sheet] = []
        self._started = (0, None)  # type: tuple[int, int | None]
        self._has_own_process = False

    def own_process(self) -> None:
        """Say that this process, a pool child, executes one attempt at a time and nothing else."""
        self._has_own_process = True
        strays.adopt()

    @contextmanager
    def watch(self, execution: Execution) -> Iterator[Watch]:
        """Keep a slip while the context is open."""
        slip = slips.OpenSlip(self._directory, self._slip_of(execution), self._blank)
        self._live[execution.token] = execution
        if self._has_own_process:
            os.environ[processes.LABEL] = execution.token  # if we are killed, others look for it
        try:
            yield slip
        finally:
            self._end_strays(execution)
            self._live.pop(execution.token, None)
            slip.close()
            if execution.stop.reason is not None:
                slips.clear_stop(self._directory, execution.token)

    def _end_strays(self, execution: Execution) -> None:
        """End what the executing code has started by itself and forgotten."""
        if execution.pid != os.getpid():
            processes.kill_labelled([execution.token])
        elif self._has_own_process:
            strays.end_all()
            os.environ.pop(processes.LABEL, None)

    def request_stop(self, token: str, reason: StopReason) -> bool:
        """Ask an execution of this process to end; False if there is none with this token."""
        execution = self._live.get(token)
        if execution is not None:
            execution.stop.request(reason)
        return execution is not None

    def read_stops(self) -> None:
        """Obey the requests that lie beside our slips; called by the signal handler of a child."""
        for token in tuple(self._live):
            reason = slips.read_stop(self._directory, token)
            if reason is not None:
                self.request_stop(token, reason)

    def _slip_of(self, execution: Execution) -> slips.Slip:
        owner = os.getpid()
        if self._started[0] != owner:
            self._started = (owner, processes.started(owner))
        is_own = execution.pid == owner
        return slips.Slip(
            token=execution.token,
            lease=lease_key(execution.key),
            holder=lease_value(execution.token, self._worker, time.time(), owner),
            task_id=execution.task_id,
            attempt=execution.key.attempt,
            leg=execution.leg,
            run_dir=str(execution.run_dir),
            attempt_dir=str(execution.attempt_dir),
            owner=owner,
            owner_started=self._started[1],
            pid=execution.pid,
            pid_started=self._started[1] if is_own else processes.started(execution.pid),
        )
