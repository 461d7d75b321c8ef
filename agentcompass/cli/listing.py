"""`agentcompass list`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import click
from pydantic import JsonValue

from agentcompass.cli.output import emit
from agentcompass.errors import UnknownComponent, UsageError
from agentcompass.metrics.per_task.reducers import REDUCERS
from agentcompass.metrics.per_task.strategies import STRATEGIES
from agentcompass.runtime import components
from agentcompass.runtime.parameters import Parameter, parameters_of

COMPONENTS: Final[dict[str, components.Kind]] = {
    "benchmarks": "benchmark",
    "harnesses": "harness",
    "environments": "environment",
    "analyzers": "analyzer",
    "recipes": "recipe",
}
OTHERS: Final[dict[str, Callable[[], Sequence[str]]]] = {
    "strategies": STRATEGIES.known,
    "reducers": REDUCERS.known,
}
KINDS: Final = (*COMPONENTS, *OTHERS)
SINGULAR: Final[dict[str, str]] = {
    "strategy": "strategies",
    "reducer": "reducers",
    **{str(kind): name for name, kind in COMPONENTS.items()},
}


class _Kind(click.Choice[str]):
    """Takes the singular, too."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert(SINGULAR.get(value, value), param, ctx)


@click.command("list")
@click.argument("kind", type=_Kind(KINDS), required=False)
@click.argument("name", metavar="[ID]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per plug-in.")
def command(kind: str | None, name: str | None, *, as_json: bool) -> int:
    """List benchmarks, harnesses, environments and other plug-ins.

    Without KIND everything is listed; with the ID of a plug-in, what it is and its parameters, which
    are given as --param benchmark.NAME=VALUE. Plug-ins that are not listed can be named as
    package.module:Class or path/file.py:Class.
    """
    if kind is not None and name is not None:
        _show(kind, name, as_json=as_json)
        return 0
    for each in [kind] if kind else KINDS:
        found = _known(each)
        if as_json:
            for item, about in found:
                emit({"kind": each, "id": item, "about": about, "params": _fields(each, item)})
        elif found:
            _print(each if kind is None else "", found)
    return 0


def _known(kind: str) -> Sequence[tuple[str, str]]:
    if kind in COMPONENTS:
        return components.known(COMPONENTS[kind])
    return [(name, "") for name in OTHERS[kind]()]


def _show(kind: str, name: str, *, as_json: bool) -> None:
    """Print one plug-in with its parameters.

    Raises:
        UnknownComponent: there is none of this id.
    """
    about = dict(_known(kind)).get(name, "")
    if kind not in COMPONENTS:
        if name not in OTHERS[kind]():
            raise UnknownComponent(kind, name, tuple(OTHERS[kind]()))
        found: Sequence[Parameter] = ()
    else:
        found = parameters_of(COMPONENTS[kind], name)
    if as_json:
        emit({"kind": kind, "id": name, "about": about, "params": [_field(each) for each in found]})
        return
    click.echo(f"{name}  {about}".rstrip())
    rows = [(f"  {COMPONENTS[kind]}.{each.name}", each.type, each.shown) for each in found]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
    for row, each in zip(rows, found, strict=True):
        cells = "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True))
        click.echo(f"{cells}  {each.about}".rstrip())


def _fields(kind: str, name: str) -> list[JsonValue] | None:
    """Return the parameters of a plug-in; null if it cannot be loaded here."""
    if kind not in COMPONENTS:
        return []
    try:
        return [_field(each) for each in parameters_of(COMPONENTS[kind], name)]
    except UsageError:
        return None


def _field(each: Parameter) -> JsonValue:
    field: dict[str, JsonValue] = {"name": each.name, "type": each.type, "required": each.required}
    if not each.required:
        field["default"] = each.default
    return {**field, "about": each.about}


def _print(title: str, found: Sequence[tuple[str, str]]) -> None:
    if title:
        click.echo(f"{title}:")
    width = max(len(item) for item, _ in found)
    for item, about in found:
        click.echo(f"{'  ' if title else ''}{item:<{width}}  {about}".rstrip())
