"""`agentcompass status`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
from pydantic import JsonValue

from agentcompass.cli.console import duration
from agentcompass.cli.output import emit, plain
from agentcompass.cli.wiring import now
from agentcompass.coordinator.status import Status, status
from agentcompass.metrics.rules.counts import printed
from agentcompass.metrics.text import words
from agentcompass.models.metric import MetricReport
from agentcompass.store import launches, layout


@click.command("status")
@click.argument(
    "run_dirs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per run.")
def command(run_dirs: tuple[Path, ...], *, as_json: bool) -> int:
    """Show how far runs are, from their directories alone.

    RUN is a run directory, or a launch: RESULTS/.launches/ID.json, which stands for all its runs. The
    value is provisional until a run is complete, and stands beside what it covers. Exits with 0 if
    all runs are complete, 3 if one is not.
    """
    codes = [0]
    for path in run_dirs:
        show = _launch if launches.is_launch(path) else _run
        codes.append(0 if show(path, as_json=as_json) else 3)
    return max(codes)


def _run(run_dir: Path, *, as_json: bool) -> bool:
    """Show a run, and return whether it is complete."""
    found = status(run_dir, now())
    _show(found, as_json=as_json)
    return found.is_complete


def _launch(path: Path, *, as_json: bool) -> bool:
    """Show the runs of a launch, whose record nobody keeps up to date who has left it.

    Returns:
        Whether all its requests have runs that are complete.
    """
    root, record = launches.load(path)
    places = {each.name: root.path / each.run for each in record.requests}
    found = {
        name: status(place, now())
        for name, place in places.items()
        if (place / layout.RUN_INFO).exists()
    }
    if not as_json:
        over = sum(each.is_complete for each in found.values())
        click.echo(f"launch {record.launch_id} ({record.name}): {over} of {len(places)} runs over")
    for name, place in places.items():
        if name in found:
            _show(found[name], as_json=as_json)
        elif as_json:
            emit({"run_id": place.name, "path": str(place), "state": "pending"})
        else:
            click.echo(f"{name}  pending: it has no run yet")
    return len(found) == len(places) and all(each.is_complete for each in found.values())


def _show(found: Status, *, as_json: bool) -> None:
    if as_json:
        emit(_fields(found))
    else:
        click.echo("\n".join(_lines(found)))


def _fields(found: Status) -> dict[str, JsonValue]:
    headline = found.report.headline if found.report else None
    return {
        "run_id": found.run_id,
        "path": str(found.path),
        "state": found.state,
        "reason": found.reason,
        "leg": found.leg,
        "tasks": found.tasks,
        "attempts_done": found.done,
        "attempts_total": found.total,
        "tasks_with_errors": found.failed_tasks,
        "eta_s": found.eta_s,
        "provisional": not found.is_over,
        "attended": found.is_attended,
        "series_id": headline.series_id if headline else None,
        "value": headline.value if headline else None,
        "reference_value": headline.reference_value if headline else None,
        "evaluated": headline.counts.evaluated if headline else 0,
        "total": headline.counts.total if headline else 0,
        "malformed": [f"{path}: {reason}" for path, reason in found.malformed],
        "report": plain(found.report),
    }


def _lines(found: Status) -> Iterator[str]:
    why = f": {found.reason}" if found.reason else ""
    yield f"{found.run_id}  {found.state}{why}"
    yield f"  path:      {found.path}"
    if found.is_attended is False:
        yield "  attention: its coordinator is gone, and its workers with it; resume the run"
    leg = f", leg {found.leg}" if found.leg > 1 else ""
    eta = f", about {duration(found.eta_s)} left" if found.eta_s is not None else ""
    yield f"  attempts:  {found.done}/{found.total} over{leg}{eta}"
    yield f"  tasks:     {found.tasks}, {found.failed_tasks} with errors"
    if found.report is not None:
        yield f"  value:     {_value(found.report, is_over=found.is_over)}"
    for path, reason in found.malformed:
        yield f"  malformed: {path}: {reason}"


def _value(report: MetricReport, *, is_over: bool) -> str:
    headline, counts = report.headline, report.headline.counts
    number = words.number(printed(headline), headline.display)
    kind = "" if headline.reference_value is None else " (reference value)"
    note = "" if is_over else ", provisional"
    return (
        f"{headline.series_id} {number}{kind} over {counts.evaluated} of {counts.total} tasks, "
        f"{counts.error} with an error{note}"
    )
