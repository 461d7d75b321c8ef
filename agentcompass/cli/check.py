"""`agentcompass check`."""

from __future__ import annotations

from pathlib import Path

import click

from agentcompass.cli.output import emit
from agentcompass.store.check import Violation, check_run


@click.command("check")
@click.argument("run_dir", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--deep", is_flag=True, help="Also verify the checksums of all artifacts.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per violation.")
def command(run_dir: Path, *, deep: bool, as_json: bool) -> int:
    """Verify that a run directory keeps its invariants.

    Reads everything and changes nothing; safe while the run is going on. Exits with 0 if all is
    well, 1 if something is not, 2 if there is no run of ours at RUN.
    """
    violations = check_run(run_dir, deep=deep)
    for violation in violations:
        if as_json:
            emit(
                {
                    "invariant": violation.invariant,
                    "path": str(violation.path),
                    "problem": violation.problem,
                }
            )
        else:
            click.echo(_as_text(violation))
    if not violations and not as_json:
        click.echo(f"{run_dir}: every invariant holds")
    return 1 if violations else 0


def _as_text(violation: Violation) -> str:
    return f"{violation.invariant}  {violation.path}: {violation.problem}"
