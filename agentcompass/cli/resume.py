"""`agentcompass resume`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from agentcompass.cli.attached import Going, Manner, carry_out
from agentcompass.cli.launch import launch_among, resume_launch
from agentcompass.cli.output import emit
from agentcompass.cli.request_options import (
    broker_option,
    config_option,
    fields_of,
    frozen_options,
    policy_options,
)
from agentcompass.cli.run_events import announce, conclude
from agentcompass.cli.sessions import require_server
from agentcompass.cli.wiring import by, now, open_queue, this_machine
from agentcompass.coordinator.asking.literals import referenced_by, refuse_missing
from agentcompass.coordinator.asking.requests import Gathered, gather
from agentcompass.coordinator.planning.plan import Machine, Planned, plan
from agentcompass.coordinator.planning.start import EMBEDDED, root_of
from agentcompass.coordinator.ports import Queue
from agentcompass.coordinator.refusal import code_of
from agentcompass.coordinator.report import complete
from agentcompass.coordinator.resuming.resume import Resumable, Wish, examine, go_on
from agentcompass.coordinator.serving import refuse_strangers
from agentcompass.errors import AgentCompassError, UsageError
from agentcompass.models.request import Request


@click.command("resume")
@click.argument(
    "run_dirs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--rerun",
    metavar="WHAT",
    multiple=True,
    help="Also run again: errored (an ERROR or FATAL issue) or unscored (no verdict), from the "
    "evaluation on where an agent ran cleanly; failed (wrong, or a score of 0) or the id of a task, "
    "agents included. Repeatable.",
)
@click.option(
    "--quarantine", is_flag=True, help="Put malformed records aside and run their attempts again."
)
@click.option("--reason", default="", help="Why; recorded in the run.")
@click.option("--dry-run", is_flag=True, help="Print what would run, and why; change nothing.")
@click.option("--results-dir", metavar="DIR", help="Where a launch is that is named by its id.")
@policy_options
@config_option
@frozen_options
@broker_option
@click.option("--detach", is_flag=True, help="Dispatch and leave; needs a broker.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines: started, finished.")
@click.option("--verbose", is_flag=True, help="Show what local workers log.")
def command(  # noqa: PLR0913 - one argument per option
    *,
    run_dirs: tuple[Path, ...],
    rerun: tuple[str, ...],
    quarantine: bool,
    reason: str,
    dry_run: bool,
    params: tuple[str, ...],
    config: Path | None,
    broker: str | None,
    detach: bool,
    as_json: bool,
    verbose: bool,
    **flags: object,
) -> int:
    """Go on with runs, whatever stopped them; any number of times, in any state.

    RUN is a run directory, or a launch: RESULTS/.launches/ID.json, or its id with --results-dir.
    Runs exactly the attempts without a result. How they are executed may change (workers, pool,
    time-outs, retries, error policy); what is evaluated may not, and is refused by name: for that,
    `agentcompass run --reuse` starts a new run that takes over what this one has paid for.
    """
    found = gather(
        fields_of({**flags, "broker": broker}),
        file=config,
        params=params,
        environ=os.environ,
        base=Path.cwd(),
    )
    wish = Wish(rerun, quarantine, found.separated.content, reason)
    queue = _queue(found.broker, detach=detach)
    level = "INFO" if verbose else "WARNING"
    manner = Manner(queue, as_json, detach, level)
    launch = launch_among(run_dirs, found.results_dir)
    if launch is not None:
        return resume_launch(launch, found, wish, manner, is_dry=dry_run)
    return _Many(found, wish, manner, is_dry=dry_run).resume(run_dirs)


class _Many:
    """Resumes runs one after the other; what refuses one of several does not stop the others."""

    def __init__(self, found: Gathered, wish: Wish, manner: Manner, *, is_dry: bool) -> None:
        self._found = found
        self._wish = wish
        self._manner = manner
        self._is_dry = is_dry
        self._waiting: list[Going] = []

    def resume(self, run_dirs: Sequence[Path]) -> int:
        codes = [0]
        for run_dir in run_dirs:
            try:
                codes.append(self._one(run_dir))
            except AgentCompassError as error:
                if len(run_dirs) == 1 and not self._manner.as_json:
                    raise
                codes.append(self._refused(run_dir, error))
        if self._waiting:
            codes.append(carry_out(self._waiting, self._manner))
        return max(codes)

    def _refused(self, run_dir: Path, error: AgentCompassError) -> int:
        click.echo(f"{run_dir} is not resumed: {error}", err=True)
        if self._manner.as_json:
            emit(
                {
                    "event": "refused",
                    "path": str(run_dir),
                    "code": code_of(error),
                    "message": str(error),
                }
            )
        return error.exit_code

    def _one(self, run_dir: Path) -> int:
        """Resume a run, or with a broker only prepare it: such runs are attended together."""
        ready = examine(run_dir, self._wish, plan=self._plan, now=now)
        if ready.has_work:
            self._refuse_what_cannot_run(ready)
        if self._is_dry:
            _print_plan(ready, as_json=self._manner.as_json)
            return 0
        if not self._manner.as_json:
            for rerun in ready.reruns:
                click.echo(f"again: {rerun.described}", err=True)
        broker = self._found.broker or EMBEDDED
        resumed = go_on(ready, reason=self._wish.reason, by=by(), at=now(), broker=broker)
        run = resumed.run
        announce(run.address.run_dir, as_json=self._manner.as_json)
        if not resumed.seen.left:
            return self._nothing_to_do(run.address.run_dir, ready)
        going = Going(
            run=run,
            leg=resumed.leg,
            work=resumed.seen.work,
            runtime=resumed.seen.runtime,
            secrets=self._found.separated.values,
        )
        if self._manner.queue is None:
            return carry_out([going], self._manner)
        self._waiting.append(going)
        return 0

    def _plan(self, request: Request) -> Planned:
        machine = this_machine() if self._manner.queue is None else Machine()
        return plan(request, machine=machine)

    def _refuse_what_cannot_run(self, ready: Resumable) -> None:
        if self._manner.queue is None:
            known = {**os.environ, **self._found.separated.values}
            refuse_missing(referenced_by(ready.seen.info.request), known)
            require_server()
        else:
            refuse_strangers(self._manner.queue, ready.queue, root_of(ready.run_dir).path)

    def _nothing_to_do(self, run_dir: Path, ready: Resumable) -> int:
        unchanged = "; no setting was changed" if ready.policy else ""
        click.echo(f"nothing to do: every attempt is over{unchanged}", err=True)
        complete(run_dir)
        return conclude(run_dir, as_json=self._manner.as_json)


def _queue(broker: str | None, *, detach: bool) -> Queue | None:
    if broker is None and detach:
        raise UsageError(
            "--detach leaves the run to workers elsewhere, so it needs a broker",
            hint="give --broker redis://HOST:PORT, or leave --detach out",
        )
    return open_queue(broker) if broker is not None else None


def _print_plan(ready: Resumable, *, as_json: bool) -> None:
    seen = ready.seen
    if as_json:
        emit(
            {
                "event": "plan",
                "run_id": seen.info.run_id,
                "path": str(ready.run_dir),
                "attempts_done": seen.done,
                "attempts_left": seen.left,
                "rerun": {rerun.task_id: rerun.reason for rerun in ready.reruns},
                "evaluated_again": {each.task_id: [*each.evaluated] for each in ready.reruns},
                "run_again": {each.task_id: [*each.executed] for each in ready.reruns},
                "quarantine": [str(each.path) for each in ready.malformed],
            }
        )
        return
    click.echo(f"{ready.run_dir}: {seen.done}/{seen.total} over, {seen.left} to run")
    for rerun in ready.reruns:
        click.echo(f"  again: {rerun.described}")
    for each in ready.malformed:
        click.echo(f"  quarantine: {each.path}: {each.reason}")
