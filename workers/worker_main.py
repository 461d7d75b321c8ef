"""`agentcompass worker`, and the local workers of an embedded run."""

from __future__ import annotations

import logging
import os
import re
import secrets
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agentcompass.errors import UsageError
from agentcompass.models.queue_name import QUEUE_PATTERN
from workers.keeping.instance import default_base, private_directory
from workers.serving import logs
from workers.serving.options import Pool, ServeOptions
from workers.serving.supervisor import PROGRAM, Supervisor
from workers.urls import BROKER_URL_VARIABLE, checked, masked

logger = logging.getLogger(__name__)

MAX_SLOTS: Final = 1_000


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """What `agentcompass worker` is told."""

    broker_url: str
    results_dir: Path
    queues: tuple[str, ...] = ("default",)
    pool: Pool = "prefork"
    concurrency: int | None = None
    """Attempts at once; null means one per core (prefork) or 64 (threads)."""
    name: str | None = None
    """Shown in Flower and in results, with the host behind it; null makes one up."""
    work_dir: Path | None = None
    """On this machine's own disk; null means a private folder below the temporary directory."""
    log_level: str = "INFO"
    trusted_roots: tuple[Path, ...] | None = None
    """Folders whose Python files may be executed as plug-ins; null trusts every file."""


def run_worker(options: WorkerOptions, *, program: Sequence[str] = PROGRAM) -> int:
    """Serve until SIGTERM or Ctrl-C; must be called in the main thread of a process of its own.

    Returns:
        0 after an orderly end, 1 if its processes do not start, 2 if it had to refuse messages.
    """
    served = serve_options(options)
    env = environment(options.broker_url)
    logs.set_up(served.log_level, served.name, env)
    print_banner(options, served)
    return Supervisor(served, env, program=program).run()


def environment(broker_url: str) -> Mapping[str, str]:
    """Return our environment with the broker in it, for worker processes."""
    return os.environ | {BROKER_URL_VARIABLE: checked(broker_url)}


def serve_options(options: WorkerOptions) -> ServeOptions:
    """Fill in what was left open; UsageError for what cannot work."""
    slots = options.concurrency
    if slots is None:
        slots = (os.cpu_count() or 1) if options.pool == "prefork" else 64
    _refuse_what_cannot_work(options, slots)
    base = private_directory(options.work_dir or default_base())
    name = options.name or f"worker-{secrets.token_hex(3)}"
    return ServeOptions(
        role="attempts",
        name=name if "@" in name else f"{name}@{socket.gethostname()}",
        results_dir=str(options.results_dir.absolute()),
        base=str(base.absolute()),
        queues=options.queues,
        pool=options.pool,
        concurrency=slots,
        log_level=options.log_level,
        trusted_roots=_absolute(options.trusted_roots),
    )


def _refuse_what_cannot_work(options: WorkerOptions, slots: int) -> None:
    if not 1 <= slots <= MAX_SLOTS:
        raise UsageError(
            f"{slots} attempts at once is not between 1 and {MAX_SLOTS}", where="--concurrency"
        )
    wrong = next((name for name in options.queues if not re.fullmatch(QUEUE_PATTERN, name)), None)
    if wrong is not None or not options.queues:
        raise UsageError(
            f"no lane is called {wrong!r}" if wrong else "a worker needs at least one lane",
            where="--queue",
            hint="a name has up to 32 of a-z, 0-9 and _, such as default",
        )
    if options.results_dir.exists() and not options.results_dir.is_dir():
        raise UsageError("the results folder is a file", where=str(options.results_dir.absolute()))


def _absolute(paths: tuple[Path, ...] | None) -> tuple[str, ...] | None:
    return None if paths is None else tuple(str(path.absolute()) for path in paths)


def print_banner(options: WorkerOptions, served: ServeOptions) -> None:
    """Say in one line what this worker is."""
    logger.info(
        "%s: %d %s slots for %s of %s, results in %s",
        served.name,
        served.concurrency,
        served.pool,
        ", ".join(served.queues),
        masked(options.broker_url),
        served.results_dir,
    )
