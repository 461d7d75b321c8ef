"""`agentcompass report`."""

from __future__ import annotations

from pathlib import Path

import click

from agentcompass.cli.run_events import show
from agentcompass.coordinator.asking.analyzers import asked_analyzers
from agentcompass.coordinator.reading.formula import asked_for
from agentcompass.coordinator.report import report
from agentcompass.metrics.formula.aggregate import AGGREGATIONS


@click.command("report")
@click.argument("run_dir", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--aggregation",
    type=click.Choice(AGGREGATIONS),
    help="Another cross-task formula than the run's own.",
)
@click.option(
    "--category-hierarchy",
    "hierarchy",
    metavar="FILE|JSON",
    help="The tree of --aggregation category_hierarchy, which it implies.",
)
@click.option(
    "--analyzer",
    "analyzers",
    metavar="ID",
    multiple=True,
    help="Let this one look at every attempt now, see `list analyzers`. Repeatable.",
)
@click.option(
    "--param",
    "params",
    metavar="analyzer.ID.KEY=VALUE",
    multiple=True,
    help="Parameter of such an analyzer. Repeatable.",
)
@click.option(
    "--trust",
    "trusted",
    metavar="DIR",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Folder whose Python files may be run: of a benchmark path/file.py:Class with its own "
    "aggregation, of an analyzer. Repeatable. [default: none]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(  # noqa: PLR0913 - one argument per option
    run_dir: Path,
    aggregation: str | None,
    hierarchy: str | None,
    *,
    analyzers: tuple[str, ...],
    params: tuple[str, ...],
    trusted: tuple[Path, ...],
    as_json: bool,
) -> int:
    """Compute a run's report again from its directory; nothing is executed.

    A run that is not over gets a partial report, which says so. Another formula is recorded in
    run_info.json, and stays until there are other results or `report` is called without it; so do
    other analyzers, in analysis_summary.json. Runs of other writers are read and never changed.
    """
    reported = report(
        run_dir,
        override=asked_for(aggregation, hierarchy),
        analyzers=asked_analyzers(analyzers, params),
        trusted_roots=tuple(folder.absolute() for folder in trusted),
    )
    show(reported, as_json=as_json)
    return reported.exit_code
