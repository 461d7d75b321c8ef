"""`agentcompass run`."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import click

from agentcompass.cli.attached import Going, Manner, carry_out
from agentcompass.cli.request_options import (
    broker_option,
    config_option,
    fields_of,
    identity_options,
    policy_options,
    reuse_options,
)
from agentcompass.cli.reusing import Looking, print_plan
from agentcompass.cli.run_events import announce, conclude
from agentcompass.cli.sessions import require_server
from agentcompass.cli.wiring import now, open_queue, this_machine
from agentcompass.coordinator.asking.requests import Asked, ask
from agentcompass.coordinator.planning.plan import Machine, Planned, plan
from agentcompass.coordinator.planning.start import (
    EMBEDDED,
    SealedRun,
    check_place,
    refuse_place,
    start,
)
from agentcompass.coordinator.ports import Queue
from agentcompass.coordinator.report import complete
from agentcompass.coordinator.serving import refuse_strangers
from agentcompass.coordinator.snapshot import Work, all_work, look_at
from agentcompass.errors import UsageError
from agentcompass.store.root import open_root

DEFAULT_RESULTS = Path("results")


@click.command("run")
@identity_options
@config_option
@click.option(
    "--results-dir",
    metavar="DIR",
    help="Results folder; shared with the workers if they are elsewhere. [default: results]",
)
@click.option("--run-name", metavar="NAME", help="A level (or several) above the run directory.")
@click.option("--run-id", metavar="ID", help="Name of the run directory; must not exist.")
@reuse_options
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print what would run, and why, or what would be refused; reserve nothing.",
)
@policy_options
@broker_option
@click.option("--detach", is_flag=True, help="Dispatch and leave; needs a broker.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines: started, finished.")
@click.option("--verbose", is_flag=True, help="Show what local workers log.")
def command(
    *,
    params: tuple[str, ...],
    config: Path | None,
    dry_run: bool,
    detach: bool,
    as_json: bool,
    verbose: bool,
    **flags: object,
) -> int:
    """Evaluate: benchmark x harness x model x environment, every task tried k times.

    Without a broker a private one is started with local workers; both end with this command.
    Ctrl-C cancels the run and keeps every result; `agentcompass resume RUN` goes on.

    `resume` completes a run in its own directory. `--reuse` starts a new run that takes over the
    results of an earlier one, for more tasks, other settings or failures to be tried again; the
    earlier run is never changed.
    """
    asked = ask(fields_of(flags), file=config, params=params, environ=os.environ, base=Path.cwd())
    level = "INFO" if verbose else "WARNING"
    wanted = Wanted(dry_run, detach, as_json, level)
    return start_and_attend(asked, wanted)


@dataclass(frozen=True, slots=True)
class Wanted:
    """How a new run is to be started."""

    is_dry: bool
    detach: bool
    as_json: bool
    log_level: str


def start_and_attend(asked: Asked, wanted: Wanted) -> int:
    """Start a new run and see it through; or only say what it would be."""
    as_json = wanted.as_json
    queue = _queue(asked, detach=wanted.detach)
    if queue is not None:
        refuse_strangers(queue, asked.request.runtime.queue, _results_dir(asked))
    if wanted.is_dry:
        refuse_place(_results_dir(asked), asked.request)
        return _print_plan(asked, as_json=as_json)
    run = _start(asked, as_json=as_json)
    work = _work(run)
    if not work:
        complete(run.address.run_dir)
        return conclude(run.address.run_dir, as_json=as_json)
    going = Going(
        run=run,
        leg=1,
        work=work,
        runtime=asked.request.runtime,
        secrets=asked.secrets,
    )
    manner = Manner(queue, as_json, wanted.detach, wanted.log_level)
    return carry_out([going], manner)


def _queue(asked: Asked, *, detach: bool) -> Queue | None:
    """Return the user's broker, reached; or make sure that a private one can start."""
    if asked.broker is not None:
        return open_queue(asked.broker)
    if detach:
        raise UsageError(
            "--detach leaves the run to workers elsewhere, so it needs a broker",
            hint="give --broker redis://HOST:PORT, or leave --detach out",
        )
    require_server()
    return None


def _start(asked: Asked, *, as_json: bool) -> SealedRun:
    with _planned(asked) as planned:
        looking = Looking(asked, _results_dir(asked), as_json)
        chosen = looking.find(planned)
        looking.refuse_missing_agents(chosen)

        def tell(run_dir: Path) -> None:
            announce(run_dir, as_json=as_json)
            looking.tell(chosen)

        return start(
            open_root(_results_dir(asked)),
            replace(planned, reuse=chosen.reuse),
            now=now,
            announce=tell,
            broker=asked.broker or EMBEDDED,
        )


def _print_plan(asked: Asked, *, as_json: bool) -> int:
    with _planned(asked) as planned:
        looking = Looking(asked, _results_dir(asked), as_json)
        chosen = looking.find(planned)
        looking.tell(chosen)
        print_plan(chosen, planned, as_json=as_json)
        looking.refuse_missing_agents(chosen)
    return 0


def _planned(asked: Asked) -> Planned:
    check_place(asked.request)
    return plan(asked.request, machine=this_machine() if asked.broker is None else Machine())


def _results_dir(asked: Asked) -> Path:
    return (asked.results_dir or DEFAULT_RESULTS).absolute()


def _work(run: SealedRun) -> Work:
    """Return what is to be executed; with reuse that may be little, or nothing."""
    run_dir = run.address.run_dir
    is_new = run.info.reused_from is None
    return all_work(run_dir, run.info) if is_new else look_at(run_dir, run.info).work
