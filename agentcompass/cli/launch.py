"""`agentcompass launch`, and `resume` for a launch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import click

from agentcompass.cli.attached import Manner
from agentcompass.cli.launched import Conductor, Planner
from agentcompass.cli.output import emit
from agentcompass.cli.request_options import broker_option, fields_of, policy_options
from agentcompass.cli.run import DEFAULT_RESULTS
from agentcompass.cli.sessions import require_server
from agentcompass.cli.wiring import now, open_queue
from agentcompass.coordinator.asking.literals import referenced_by, refuse_missing
from agentcompass.coordinator.asking.policy import policy_change
from agentcompass.coordinator.asking.requests import Gathered
from agentcompass.coordinator.deserving import KINDS
from agentcompass.coordinator.launching.checks import check, refuse_taken
from agentcompass.coordinator.launching.launch import Launch, publish
from agentcompass.coordinator.launching.suite import NamedRequest, read_suite
from agentcompass.coordinator.planning.plan import Planned
from agentcompass.coordinator.ports import Queue
from agentcompass.coordinator.refusal import code_of
from agentcompass.coordinator.resuming.resume import Wish, examine
from agentcompass.coordinator.serving import refuse_strangers
from agentcompass.errors import AgentCompassError, UsageError
from agentcompass.models.launch import LaunchedRequest
from agentcompass.store import launches
from agentcompass.store.names import namespace_of
from agentcompass.store.root import open_root


@click.command("launch")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--results-dir",
    metavar="DIR",
    help="Results folder; shared with the workers if they are elsewhere. [default: results]",
)
@click.option("--dry-run", is_flag=True, help="Check and plan everything; reserve nothing.")
@policy_options
@broker_option
@click.option("--detach", is_flag=True, help="Dispatch and leave; needs a broker.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines: started, finished.")
@click.option("--verbose", is_flag=True, help="Show what local workers log.")
def command(
    *, file: Path, dry_run: bool, detach: bool, as_json: bool, verbose: bool, **flags: object
) -> int:
    """Start many named requests of one file, and see them through together.

    FILE (YAML, TOML or JSON) holds `version: 1`, `name`, `defaults` and `requests`; flags win over it.
    All requests share the workers; one that fails does not stop the others. What became of each is in
    RESULTS/.launches/ID.json, and `agentcompass resume` of that file goes on with all of them.
    """
    suite = read_suite(file, fields_of(flags), environ=os.environ, base=Path.cwd())
    broker = suite.broker
    check(suite.requests, is_embedded=broker is None)
    results_dir = (suite.results_dir or DEFAULT_RESULTS).absolute()
    refuse_taken(results_dir, suite.requests)
    planner = Planner(results_dir, broker, as_json=as_json)
    manner = Manner(
        _queue(broker, detach=detach), as_json, detach, "INFO" if verbose else "WARNING"
    )
    if manner.queue is not None:
        for lane in sorted({each.request.runtime.queue for each in suite.requests}):
            refuse_strangers(manner.queue, lane, results_dir)
    if dry_run:
        return _print_plans(suite.requests, planner, as_json=as_json)
    root = open_root(results_dir)
    with ExitStack() as stack:
        # All sources of reuse are chosen here, before anything of this launch can be one.
        plans = {each.name: _planned(each, planner, stack) for each in suite.requests}
        launch = publish(root, suite.name, suite.requests, now())
        stack.enter_context(launches.carrying_out(root, launch.record.launch_id))
        conductor = stack.enter_context(Conductor(launch, planner, manner, broker, suite.secrets))
        for entry in launch.record.requests:
            planned = plans.pop(entry.name)
            if isinstance(planned, AgentCompassError):
                conductor.refuse(entry.name, planned)
            else:
                with planned:
                    conductor.start(entry, planned)
        return conductor.carry_on()


def launch_among(paths: Sequence[Path], results_dir: Path | None) -> Path | None:
    """Return the record of a launch, if that is what was named: by its file, or by its id.

    Raises:
        UsageError: other things were named, too.
    """
    for path in paths:
        record = path
        if results_dir is not None and not path.exists() and len(path.parts) == 1:
            record = launches.path_of(results_dir, path.name)
        if launches.is_launch(record) and record.is_file():
            if len(paths) > 1:
                raise UsageError(
                    "a launch is resumed alone",
                    where=str(record),
                    hint="name the launch, or runs by their directories, but not both",
                )
            return record
    return None


def resume_launch(path: Path, found: Gathered, wish: Wish, manner: Manner, *, is_dry: bool) -> int:
    """Go on with all requests of a launch, those that never started included."""
    root, record = launches.load(path)
    _refuse_for_all(record.requests, wish)
    secrets = found.separated.values
    planner = Planner(root.path, found.broker, as_json=manner.as_json)
    if is_dry:
        return _print_rest(Launch(root, record), wish, planner, as_json=manner.as_json)
    if manner.queue is None:
        _refuse_missing(record.requests, wish, {**os.environ, **secrets})
        require_server()
    with launches.carrying_out(root, record.launch_id), ExitStack() as stack:
        launch = Launch(*launches.load(path))
        launch.reopen()
        conductor = stack.enter_context(Conductor(launch, planner, manner, found.broker, secrets))
        for entry in launch.record.requests:
            conductor.resume(entry, wish)
        return conductor.carry_on()


def _queue(broker: str | None, *, detach: bool) -> Queue | None:
    if broker is not None:
        return open_queue(broker)
    if detach:
        raise UsageError(
            "--detach leaves the runs to workers elsewhere, so it needs a broker",
            hint="give --broker redis://HOST:PORT, or leave --detach out",
        )
    require_server()
    return None


def _planned(each: NamedRequest, planner: Planner, stack: ExitStack) -> Planned | AgentCompassError:
    try:
        return stack.enter_context(planner.plan(each.name, each.request))
    except AgentCompassError as error:
        return error


def _refuse_for_all(requests: Sequence[LaunchedRequest], wish: Wish) -> None:
    """Refuse what no run can do, before it becomes the outcome of each of them."""
    named = [each for each in wish.rerun if each not in KINDS]
    if named:
        raise UsageError(
            f"a launch has no task {named[0]!r}: its runs have tasks",
            where="--rerun",
            hint=f"resume the run of that task, or choose by {', '.join(KINDS)}",
        )
    for each in requests:
        policy_change(each.request, wish.changes)


def _refuse_missing(
    requests: Sequence[LaunchedRequest], wish: Wish, known: Mapping[str, str]
) -> None:
    over = () if wish.rerun or wish.quarantine else ("completed",)
    open_ones = [each for each in requests if each.state not in over]
    refuse_missing([name for each in open_ones for name in referenced_by(each.request)], known)


def _print_plans(requests: Sequence[NamedRequest], planner: Planner, *, as_json: bool) -> int:
    codes = [0]
    for each in requests:
        place = "/".join(namespace_of(each.request, each.name))
        try:
            with planner.plan(each.name, each.request) as planned:
                _print_plan(each.name, place, planned, as_json=as_json)
        except AgentCompassError as error:
            _print_failure(each.name, error, as_json=as_json)
            codes.append(1)
    return max(codes)


def _print_plan(name: str, place: str, planned: Planned, *, as_json: bool) -> None:
    reuse = planned.reuse
    choices = reuse.choices if reuse is not None else ()
    total = planned.attempt_count
    done = sum(len(choice.deeds) - len(choice.numbers("run")) for choice in choices)
    if as_json:
        emit(
            {
                "event": "plan",
                "request": name,
                "place": place,
                "tasks": len(planned.tasks),
                "attempts": total,
                "attempts_reused": done,
                "reused_from": reuse.source.run_id if reuse is not None else None,
            }
        )
        return
    taken = f", {done} reused from {reuse.source.run_id}" if reuse is not None else ""
    click.echo(f"{name}: {len(planned.tasks)} tasks, {total} attempts{taken}, in {place}")


def _print_failure(name: str, error: AgentCompassError, *, as_json: bool) -> None:
    if as_json:
        emit({"event": "refused", "request": name, "code": code_of(error), "message": str(error)})
    else:
        click.echo(f"{name}: would fail: {error}")


def _print_rest(launch: Launch, wish: Wish, planner: Planner, *, as_json: bool) -> int:
    codes = [0]
    for entry in launch.record.requests:
        try:
            _print_one(launch, entry, wish, planner, as_json=as_json)
        except AgentCompassError as error:
            _print_failure(entry.name, error, as_json=as_json)
            codes.append(1)
    return max(codes)


def _print_one(
    launch: Launch, entry: LaunchedRequest, wish: Wish, planner: Planner, *, as_json: bool
) -> None:
    if not launch.has_run(entry):
        with planner.plan(entry.name, entry.request) as planned:
            _print_plan(entry.name, entry.run.rpartition("/")[0], planned, as_json=as_json)
        return
    ready = examine(launch.run_dir(entry), wish, plan=planner.plan_only, now=now)
    if as_json:
        emit(
            {
                "event": "plan",
                "request": entry.name,
                "path": str(ready.run_dir),
                "attempts_done": ready.seen.done,
                "attempts_left": ready.seen.left,
                "rerun": {rerun.task_id: rerun.reason for rerun in ready.reruns},
                "evaluated_again": {each.task_id: [*each.evaluated] for each in ready.reruns},
                "run_again": {each.task_id: [*each.executed] for each in ready.reruns},
            }
        )
        return
    click.echo(f"{entry.name}: {ready.seen.done}/{ready.seen.total} over, {ready.seen.left} to run")
    for rerun in ready.reruns:
        click.echo(f"  again: {rerun.described}")
