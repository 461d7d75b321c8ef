"""`agentcompass worker`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import click

from agentcompass.cli.request_options import other_broker_option
from agentcompass.cli.wiring import need_broker


@click.command("worker")
@other_broker_option
@click.option(
    "--results-dir",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=Path("results"),
    show_default=True,
    help="The results folder that this machine shares with the coordinators.",
)
@click.option(
    "--queue",
    "queues",
    metavar="NAME",
    multiple=True,
    default=("default",),
    show_default=True,
    help="Lane to take attempts from; repeatable.",
)
@click.option(
    "--pool",
    type=click.Choice(["prefork", "threads"]),
    default="prefork",
    show_default=True,
    help="prefork: a process per attempt; threads: many waiting attempts in one process.",
)
@click.option("--concurrency", type=int, help="Attempts at once.")
@click.option("--name", help="Shown in Flower and in results.")
@click.option(
    "--work-dir",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Scratch space on this machine's own disk.",
)
@click.option(
    "--trust",
    "trusted",
    metavar="DIR",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Folder whose Python files may be run as plug-ins (path/file.py:Class); repeatable. "
    "[default: none]",
)
@click.option(
    "--log-level",
    type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"], case_sensitive=False),
    default="INFO",
    show_default=True,
)
def command(  # noqa: PLR0913, PLR0917 - one argument per option
    broker: str | None,
    results_dir: Path,
    queues: tuple[str, ...],
    pool: Literal["prefork", "threads"],
    concurrency: int | None,
    name: str | None,
    work_dir: Path | None,
    trusted: tuple[Path, ...],
    log_level: str,
) -> int:
    """Execute attempts that a broker hands out, until SIGTERM or Ctrl-C.

    Secrets that runs refer to are read from this process's environment.
    """
    from workers.worker_main import WorkerOptions, run_worker

    return run_worker(
        WorkerOptions(
            broker_url=need_broker(broker, os.environ),
            results_dir=results_dir,
            queues=queues,
            pool=pool,
            concurrency=concurrency,
            name=name,
            work_dir=work_dir,
            log_level=log_level,
            trusted_roots=tuple(folder.absolute() for folder in trusted),
        )
    )
