"""`agentcompass list`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import click

from agentcompass.cli.output import emit
from agentcompass.metrics.per_task.reducers import REDUCERS
from agentcompass.metrics.per_task.strategies import STRATEGIES
from agentcompass.runtime import components

KINDS: Final[dict[str, Callable[[], Sequence[tuple[str, str]]]]] = {
    "benchmarks": lambda: components.known("benchmark"),
    "harnesses": lambda: components.known("harness"),
    "environments": lambda: components.known("environment"),
    "analyzers": lambda: components.known("analyzer"),
    "recipes": lambda: components.known("recipe"),
    "strategies": lambda: [(name, "") for name in STRATEGIES.known()],
    "reducers": lambda: [(name, "") for name in REDUCERS.known()],
}


@click.command("list")
@click.argument("kind", type=click.Choice(list(KINDS)), required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per plug-in.")
def command(kind: str | None, *, as_json: bool) -> int:
    """List benchmarks, harnesses, environments and other plug-ins.

    Without KIND everything is listed. Plug-ins that are not listed can be named as
    package.module:Class or path/file.py:Class.
    """
    for name in [kind] if kind else KINDS:
        found = KINDS[name]()
        if as_json:
            for item, about in found:
                emit({"kind": name, "id": item, "about": about})
        elif found:
            _print(name if kind is None else "", found)
    return 0


def _print(title: str, found: Sequence[tuple[str, str]]) -> None:
    if title:
        click.echo(f"{title}:")
    width = max(len(item) for item, _ in found)
    for item, about in found:
        click.echo(f"{'  ' if title else ''}{item:<{width}}  {about}".rstrip())
