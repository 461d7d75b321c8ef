"""The broker and the workers of a run that names no broker: private, local, gone with the run.

`open_brokers` starts a server, or joins the one that another coordinator on this host runs for the
same runs. `start_workers` starts local workers. Both end with the coordinator, also on SIGKILL.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

from agentcompass.errors import UsageError
from workers import clock
from workers.keeping.instance import default_base, private_directory
from workers.keeping.locks import locked, try_lock
from workers.serving import leash
from workers.serving.nanny import CLIENT_FILE, JOINED_FILE, READY, STAYING, Order
from workers.serving.server import find_server
from workers.worker_main import WorkerOptions, environment, serve_options

BROKER_FILE: Final = ".broker"
_ALIVE: Final = "alive"
_START_S: Final = 30.0
_STOP_S: Final = 15.0
_AGAIN_S: Final = 0.1


@dataclass(slots=True)
class EmbeddedBroker:
    """A broker that lives as long as some coordinator holds it."""

    url: str
    """With its password: for the environment of our own processes, never for a log line."""
    is_joined: bool
    """True if another coordinator's broker was joined."""
    _hold: int = field(default=-1, repr=False)
    _nanny: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of it; it ends unless another coordinator holds it. Any number of times."""
        if self._hold >= 0:
            os.close(self._hold)
            self._hold = -1
        if self._nanny is not None:
            leash.tell(self._nanny, leash.GOODBYE)
            if leash.hear(self._nanny, _STOP_S) == STAYING:
                _let_go(self._nanny)
                self._nanny.returncode = 0  # it serves others now; nobody here waits for it
            else:
                _end(self._nanny)
            self._nanny = None


@dataclass(slots=True)
class Served:
    """A broker and the runs of ours that it serves."""

    broker: EmbeddedBroker
    run_dirs: list[Path]


def open_broker(run_dir: Path | None, *, base: Path | None = None) -> EmbeddedBroker:
    """Start or join the embedded broker of a run; without a run, start one of our own.

    Raises:
        As `open_brokers`.
    """
    if run_dir is not None:
        return open_brokers([run_dir], base=base)[0].broker
    opening = _Opening(base)
    while opening.may_go_on():
        opened = opening.start({})
        if opened is not None:
            return opened
    raise opening.too_late()


def open_brokers(run_dirs: Sequence[Path], *, base: Path | None = None) -> list[Served]:
    """Start or join the embedded brokers of runs that are attended together.

    One new broker serves all runs that have none. Those that another coordinator of this host serves
    are joined there: no run ever has two brokers. Whoever opens several is never kept waiting with
    locks in its hands, so two of them cannot wait for one another.

    Raises:
        UsageError: there is no server binary, another host runs the broker of a run, or the
            runs' file system has no locks.
    """
    opening = _Opening(base)
    served: dict[str, Served] = {}
    left = list(run_dirs)
    try:
        while left and opening.may_go_on():
            for run_dir, broker in opening.look(left):
                left.remove(run_dir)
                known = served.setdefault(broker.url, Served(broker, []))
                known.run_dirs.append(run_dir)
                if known.broker is not broker:
                    broker.close()
    except BaseException:
        _close(served.values())
        raise
    if left:
        _close(served.values())
        raise opening.too_late()
    return list(served.values())


def _close(served: Iterable[Served]) -> None:
    for each in served:
        each.broker.close()


class _Opening:
    """Tries again for a while: a broker may be just starting, or just going."""

    def __init__(self, base: Path | None) -> None:
        self._binary = find_server()
        self._folder = private_directory(base or default_base())
        self._give_up_at = time.monotonic() + _START_S
        self._is_first = True

    def may_go_on(self) -> bool:
        """Return whether there is time for one more try, after a short wait."""
        if not self._is_first:
            clock.sleep(_AGAIN_S)
        self._is_first = False
        return time.monotonic() < self._give_up_at

    def too_late(self) -> UsageError:
        return UsageError(
            "the embedded broker does not start",
            where=str(self._folder),
            hint="give --broker, or look whether another process uses this machine up",
        )

    def look(self, run_dirs: Sequence[Path]) -> Iterator[tuple[Path, EmbeddedBroker]]:
        """Yield each run that has a broker now, ours or another one's."""
        locks = _locks(run_dirs)
        opened = self.start(locks) if locks else None
        if opened is not None:
            yield from ((run_dir, opened) for run_dir in locks)
        for run_dir in run_dirs:
            joined = _join(run_dir / BROKER_FILE) if run_dir not in locks else None
            if joined is not None:
                yield run_dir, joined

    def start(self, locks: Mapping[Path, int]) -> EmbeddedBroker | None:
        """Start a nanny that holds the broker and the locks; None if it did not come up."""
        directory, alive = _private_folder(self._folder)
        order = Order(
            str(self._binary),
            str(directory),
            secrets.token_urlsafe(24),
            tuple(str(run_dir / BROKER_FILE) for run_dir in locks),
            tuple(locks.values()),
        )
        inherited = [alive, *locks.values()]
        nanny = leash.start_on_pipe(
            [sys.executable, "-m", "workers.serving.nanny"],
            os.environ,
            subprocess.DEVNULL,
            inherited=inherited,
        )
        for descriptor in inherited:
            os.close(descriptor)
        leash.tell(nanny, order.to_line())
        if leash.hear(nanny, _START_S) != READY:
            _end(nanny)
            shutil.rmtree(directory, ignore_errors=True)
            return None
        return EmbeddedBroker(_url_in(directory), is_joined=False, _nanny=nanny)


def _locks(run_dirs: Sequence[Path]) -> dict[Path, int]:
    """Lock what nobody holds."""
    taken: dict[Path, int] = {}
    try:
        for run_dir in run_dirs:
            lock = _lock(run_dir / BROKER_FILE)
            if lock is not None:
                taken[run_dir] = lock
    except UsageError:
        for lock in taken.values():
            os.close(lock)
        raise
    return taken


def _lock(path: Path) -> int | None:
    try:
        return try_lock(path)
    except OSError as error:
        raise UsageError(
            f"the embedded broker needs a lock and cannot have one ({error.strerror})",
            where=str(path),
            hint="give --broker: with a broker of its own a run needs no lock",
        ) from error


def _join(path: Path) -> EmbeddedBroker | None:
    """Join the broker that another coordinator of this host runs; None if it is not (yet, still) up."""
    try:
        who = json.loads(path.read_bytes())
        host, directory = str(who["host"]), Path(str(who["instance"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if host != socket.gethostname():
        raise UsageError(
            f"this run has its embedded broker on host {host!r}",
            where=str(path),
            hint="go on there, or wait until it has ended, or give --broker on both",
        )
    private_directory(directory.parent)
    try:
        hold = try_lock(directory / JOINED_FILE, shared=True)
    except OSError:
        return None
    if hold is None:
        return None
    try:
        return EmbeddedBroker(_url_in(directory), is_joined=True, _hold=hold)
    except OSError:
        os.close(hold)
        return None


def _url_in(directory: Path) -> str:
    return str(json.loads((directory / CLIENT_FILE).read_bytes())["url"])


@dataclass(slots=True)
class LocalWorkers:
    """Local worker processes under a supervisor of their own."""

    _supervisor: subprocess.Popen[bytes] = field(repr=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def exit_code(self) -> int | None:
        """Return None while they serve; else 1 (do not start) or 2 (refuse), a line is in the log."""
        return self._supervisor.poll()

    def close(self) -> None:
        """End them; what they execute is handed back or, after a moment, killed."""
        leash.tell(self._supervisor, leash.GOODBYE)
        _end(self._supervisor)


def start_workers(
    options: WorkerOptions,
    *,
    secrets_env: Mapping[str, str] | None = None,
    log: IO[bytes] | None = None,
    module: str = "workers.serving.local",
) -> LocalWorkers:
    """Start local workers that end when this process does.

    Args:
        secrets_env: variables for the workers only, for secrets that the request held.
        log: gets their lines; None is our own standard error.
    """
    served = serve_options(options)
    env = {**environment(options.broker_url), **(secrets_env or {})}
    argv = [sys.executable, "-m", module, served.to_json()]
    return LocalWorkers(leash.start_on_pipe(argv, env, log))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Cut the leash and wait; SIGKILL for what hangs takes its children along."""
    _let_go(process)
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _let_go(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None and not pipe.closed:
            pipe.close()


def _private_folder(folder: Path) -> tuple[Path, int]:
    """Make the folder of a new broker, with a lock that its nanny inherits: it says who lives.

    Folders whose nanny was killed are removed; their servers died with it.
    """
    with locked(folder / ".lock"):
        for left in folder.glob("broker-*"):
            with suppress(FileNotFoundError, NotADirectoryError):  # its nanny clears up meanwhile
                lock = try_lock(left / _ALIVE)
                if lock is not None:
                    shutil.rmtree(left, ignore_errors=True)
                    os.close(lock)
        made = Path(tempfile.mkdtemp(prefix="broker-", dir=folder))
        alive = try_lock(made / _ALIVE)
    if alive is None:
        raise RuntimeError(f"{made} is locked by a process that does not know it")
    return made, alive
