"""What is said about a run: that it is there, that it goes on without us, how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click
from pydantic import JsonValue

from agentcompass.cli.output import emit, plain
from agentcompass.coordinator.report import Reported, read

INCOMPLETE: Final = 3


def announce(run_dir: Path, *, as_json: bool, name: str = "") -> None:
    """Say where the run is, before anything of it is executed."""
    if as_json:
        emit(
            {
                "event": "started",
                **_named(name),
                "run_id": run_dir.name,
                "path": str(run_dir),
                "state": "running",
            }
        )
    else:
        click.echo(f"{name}: run directory: {run_dir}" if name else f"run directory: {run_dir}")


def detached(run_dir: Path, *, as_json: bool, name: str = "") -> None:
    """Say that a run goes on without us."""
    if as_json:
        emit(
            {
                "event": "detached",
                **_named(name),
                "run_id": run_dir.name,
                "path": str(run_dir),
                "state": "running",
            }
        )
    else:
        click.echo(f"the run goes on without us; look with: agentcompass status {run_dir}")


def conclude(run_dir: Path, *, as_json: bool, name: str = "") -> int:
    """Print how a run stands now, and return its exit code."""
    reported = read(run_dir)
    show(reported, as_json=as_json, name=name)
    if reported.exit_code == INCOMPLETE:
        why = f" ({reported.reason})" if reported.reason else ""
        click.echo(f"not complete{why}; go on with: agentcompass resume {run_dir}", err=True)
    return reported.exit_code


def show(reported: Reported, *, as_json: bool, name: str = "") -> None:
    """Print a report: for people, or as one JSON object."""
    if not as_json:
        click.echo(f"request: {name}\n" if name else "", nl=False)
        click.echo(reported.text)
        click.echo(f"run directory: {reported.run_dir}")
        return
    emit(
        {
            "event": "finished",
            **_named(name),
            "run_id": reported.run_id,
            "path": str(reported.run_dir),
            "state": reported.state,
            "exit_code": reported.exit_code,
            **({"reason": reported.reason} if reported.reason else {}),
            "report": plain(reported.report),
            **({"analysis": plain(reported.analysis)} if reported.analysis is not None else {}),
        }
    )


def _named(name: str) -> Mapping[str, JsonValue]:
    return {"request": name} if name else {}
