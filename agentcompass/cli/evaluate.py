"""`agentcompass evaluate`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from agentcompass.cli.request_options import broker_option, config_option, fields_of
from agentcompass.cli.run import Wanted, start_and_attend
from agentcompass.coordinator.asking.literals import referenced_by, refuse_literals, refuse_missing
from agentcompass.coordinator.asking.requests import Asked, gather
from agentcompass.coordinator.evaluating import Wish, needs_agents, request_for
from agentcompass.coordinator.planning.start import root_of
from agentcompass.models.request import ModelSpec, Request


@click.command("evaluate")
@click.argument("run_dir", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--benchmark", metavar="ID", help="Another evaluator of the same tasks.")
@click.option(
    "--param",
    "params",
    metavar="C.KEY=VALUE",
    multiple=True,
    help="Parameter of the benchmark, the evaluation environment or an analyzer. Repeatable.",
)
@click.option("--evaluation-environment", metavar="ID", help="For evaluation mode fresh.")
@click.option("--evaluate-timeout", type=float, metavar="S", help="Seconds for one evaluation.")
@click.option("--timeout-multiplier", type=float, metavar="X", help="Factor of all deadlines.")
@click.option("--analyzer", "analyzers", metavar="ID", multiple=True, help="As of `run`.")
@click.option("--task-id", "task_ids", metavar="ID", multiple=True, help="Only this; repeatable.")
@config_option
@click.option(
    "--run-missing-agents",
    is_flag=True,
    help="Run the agents of attempts of which nothing is left to evaluate.",
)
@click.option(
    "--keep-missing", is_flag=True, help="Take the old results of such attempts as they are."
)
@click.option("--results-dir", metavar="DIR", help="[default: where RUN is]")
@click.option("--run-name", metavar="NAME", help="A level (or several) above the run directory.")
@click.option("--run-id", metavar="ID", help="Name of the run directory; must not exist.")
@click.option("--dry-run", is_flag=True, help="Print what would be evaluated; reserve nothing.")
@click.option("--workers", type=int, help="Local attempts at once (without --broker).")
@click.option("--pool", metavar="POOL", help="prefork (isolation) or threads (many at once).")
@click.option("--queue", metavar="NAME", help="Lane of workers that take the attempts.")
@click.option("--max-retries", type=int, help="Retries of an evaluation.")
@broker_option
@click.option("--detach", is_flag=True, help="Dispatch and leave; needs a broker.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines: started, reuse, finished.")
@click.option("--verbose", is_flag=True, help="Show what local workers log.")
def command(  # noqa: PLR0913 - one argument per option
    *,
    run_dir: Path,
    params: tuple[str, ...],
    config: Path | None,
    run_missing_agents: bool,
    keep_missing: bool,
    dry_run: bool,
    detach: bool,
    as_json: bool,
    verbose: bool,
    **flags: object,
) -> int:
    """Evaluate a run again, in a new run and without its agents.

    Each attempt begins with what its agent left: answer, trajectory, artifacts with their checksums.
    The tasks are those that RUN froze. RUN itself is only read, and its verdicts stay beside the new
    ones in retries/reused/. Attempts of which nothing is left to evaluate are listed with the reason;
    unless a flag says what is to become of them, nothing is started.
    """
    found = gather(
        fields_of(flags), file=config, params=params, environ=os.environ, base=Path.cwd()
    )
    wish = Wish(found.separated.content, run_missing_agents, keep_missing)
    request = request_for(run_dir, wish)
    if found.broker:
        refuse_literals(found.separated, found.where)
    elif not dry_run:
        _refuse_missing_secrets(request, {**os.environ, **found.separated.values})
    results_dir = found.results_dir or root_of(run_dir).path
    asked = Asked(request, results_dir, found.broker, found.separated.values)
    return start_and_attend(
        asked, Wanted(dry_run, detach, as_json, "INFO" if verbose else "WARNING")
    )


def _refuse_missing_secrets(request: Request, known: dict[str, str]) -> None:
    """Refuse what a worker would miss; the model's own secrets only if agents may run."""
    used = request if needs_agents(request) else request.model_copy(update={"model": ModelSpec()})
    refuse_missing(referenced_by(used), known)
