"""A broker for a while: one of the user's own, or a private one with local workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentcompass.cli.wiring import open_queue
from agentcompass.coordinator.ports import (
    Holdings,
    LiveWorker,
    PendingAttempt,
    Queue,
    RunAddress,
)
from agentcompass.coordinator.watching.attach import Session
from agentcompass.models.request import RuntimeSettings

if TYPE_CHECKING:
    from workers.embedded import LocalWorkers
    from workers.serving.options import Pool
    from workers.worker_main import WorkerOptions


class OwnBroker:
    """A broker that others serve with workers."""

    is_embedded = False

    def __init__(self, queue: Queue) -> None:
        self.queue = queue

    def stop_workers(self) -> None:
        """They are not ours to stop."""

    def problem(self) -> str:
        """Return "": whether others serve is not for us to say."""
        return ""


class Embedded:
    """A private broker with local workers."""

    is_embedded = True

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self._workers: list[LocalWorkers] = []
        self._is_stopped = False

    def start(self, options: WorkerOptions, secrets: Mapping[str, str]) -> None:
        """Start local workers of our own."""
        from workers.embedded import start_workers

        self._workers.append(start_workers(options, secrets_env=secrets))

    def stop_workers(self) -> None:
        """End them; what they execute is handed back."""
        if not self._is_stopped:
            self._is_stopped = True
            for workers in self._workers:
                workers.close()

    def problem(self) -> str:
        """Return why they do not serve, unless we have ended them."""
        codes = [] if self._is_stopped else [workers.exit_code() for workers in self._workers]
        ended = next((code for code in codes if code is not None), None)
        return "" if ended is None else f"the local workers ended with exit code {ended}"


class Routed:
    """Several brokers as one: each run has its own, because others serve some of them already."""

    def __init__(self, queues: Mapping[str, Queue]) -> None:
        self._of_run = queues

    def ping(self, timeout_s: float) -> None:
        for queue in self._of_run.values():
            queue.ping(timeout_s)

    def dispatch(
        self, run: RunAddress, leg: int, pending: Iterable[PendingAttempt], count: int
    ) -> None:
        self._of_run[run.ref].dispatch(run, leg, pending, count)

    def resend(self, run: RunAddress, leg: int, pending: Iterable[PendingAttempt]) -> None:
        self._of_run[run.ref].resend(run, leg, pending)

    def finalize(self, run: RunAddress, leg: int) -> None:
        self._of_run[run.ref].finalize(run, leg)

    def holdings(self, run: RunAddress) -> Holdings:
        return self._of_run[run.ref].holdings(run)

    def workers(self, queue: str) -> Sequence[LiveWorker]:
        return [each for one in self._of_run.values() for each in one.workers(queue)]

    def nudge(self, run: RunAddress) -> None:
        self._of_run[run.ref].nudge(run)


@dataclass(frozen=True, slots=True)
class ToServe:
    """A run that needs local workers."""

    run: RunAddress
    runtime: RuntimeSettings


def crews(runs: Iterable[ToServe]) -> dict[tuple[str, Pool], int | None]:
    """Return the local workers that runs need: (queue, pool) -> slots, null is the default.

    Runs of one queue share its workers, as many as the one that wants most; their lanes are served
    in turn.
    """
    found: dict[tuple[str, Pool], int | None] = {}
    for each in runs:
        key = (each.run.queue, each.runtime.pool)
        wanted, known = each.runtime.workers, found.get(key, 0)
        found[key] = None if wanted is None or known is None else max(wanted, known)
    return found


@contextmanager
def embedded(
    runs: Sequence[ToServe], secrets: Mapping[str, str], *, log_level: str
) -> Iterator[Session]:
    """Serve runs with a private broker and local workers while the context is open.

    Another coordinator's broker for the same run on this host is joined; workers of our own come
    with it all the same, because the other one may leave at any time.

    Raises:
        UsageError: there is no server binary, or another host serves one of these runs.
    """
    from workers.embedded import open_brokers

    by_run_dir = {each.run.run_dir: each for each in runs}
    with ExitStack() as brokers:
        queues: dict[str, Queue] = {}
        session = Embedded(Routed(queues))
        try:
            opened = open_brokers(list(by_run_dir))
            for served in opened:
                brokers.enter_context(served.broker)
            for served in opened:
                ours = [by_run_dir[run_dir] for run_dir in served.run_dirs]
                queue = open_queue(served.broker.url)
                queues.update((each.run.ref, queue) for each in ours)
                for crew, slots in crews(ours).items():
                    options = _options(served.broker.url, ours[0].run.root.path, crew, slots)
                    session.start(replace(options, log_level=log_level), secrets)
            yield session
        finally:
            session.stop_workers()


def _options(
    url: str, results_dir: Path, crew: tuple[str, Pool], slots: int | None
) -> WorkerOptions:
    from workers.worker_main import WorkerOptions

    queue, pool = crew
    return WorkerOptions(
        broker_url=url, results_dir=results_dir, queues=(queue,), pool=pool, concurrency=slots
    )


def require_server() -> None:
    """Make sure that a private broker could start, before anything is reserved.

    Raises:
        UsageError: there is no server binary; says what to install.
    """
    from workers.serving.server import find_server

    find_server()
