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


@click.command("status")
@click.argument(
    "run_dirs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per run.")
def command(run_dirs: tuple[Path, ...], *, as_json: bool) -> int:
    """Show how far runs are, from their directories alone.

    The value is provisional until a run is complete, and stands beside what it covers. Exits with
    0 if all runs are complete, 3 if one is not.
    """
    found = [status(run_dir, now()) for run_dir in run_dirs]
    for each in found:
        if as_json:
            emit(_fields(each))
        else:
            click.echo("\n".join(_lines(each)))
    return 0 if all(each.is_complete for each in found) else 3


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
