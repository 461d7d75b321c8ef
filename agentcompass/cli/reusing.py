"""What `run` takes over from an earlier run: found, and said, before anything is reserved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
from pydantic import JsonValue

from agentcompass.cli.output import emit
from agentcompass.cli.probing import probe_with
from agentcompass.coordinator.asking.requests import Asked
from agentcompass.coordinator.planning.plan import Planned
from agentcompass.coordinator.refusal import code_of
from agentcompass.coordinator.reuse.choose import Chosen, Where, choose
from agentcompass.coordinator.reuse.decide import TaskChoice
from agentcompass.coordinator.reuse.differences import said
from agentcompass.coordinator.reuse.examine import Reuse
from agentcompass.coordinator.reuse.missing import missing_lines, refuse_missing_agents
from agentcompass.errors import AgentCompassError
from agentcompass.models.request import ReuseSettings
from agentcompass.store.names import namespace_of
from agentcompass.store.reuse.materialize import Deed

_SHOWN: Final = 8
_DEEDS: Final[tuple[Deed, ...]] = ("take", "skip", "evaluate", "run")


@dataclass(frozen=True, slots=True)
class Looking:
    """Looks for the source of one request."""

    asked: Asked
    results_dir: Path
    as_json: bool
    request_name: str | None = None
    """Of a named request of a launch."""

    def find(self, planned: Planned) -> Chosen:
        """Return what is taken over, after saying it to people; nothing if it was not asked for.

        Raises:
            Refusal, RecordCorrupt, UsageError: see `choose`.
        """
        request = self.asked.request
        if request.reuse is None:
            return Chosen()
        probe = probe_with(self.asked.broker)
        where = Where(self.results_dir, namespace_of(request, self.request_name), Path.cwd(), probe)
        try:
            chosen = choose(where, planned.new)
        except AgentCompassError as error:
            if self.as_json:
                emit({"event": "refused", "code": code_of(error), "message": str(error)})
            raise
        for line in _lines(chosen, request.reuse):
            click.echo(line, err=True)
        return chosen

    def refuse_missing_agents(self, chosen: Chosen) -> None:
        """Refuse to run agents where only evaluations were asked for; each of them was said."""
        settings = self.asked.request.reuse
        if chosen.reuse is None or settings is None:
            return
        try:
            refuse_missing_agents(chosen.reuse, settings)
        except AgentCompassError as error:
            if self.as_json:
                emit({"event": "refused", "code": code_of(error), "message": str(error)})
            raise

    def tell(self, chosen: Chosen) -> None:
        """Say it to programs; the line comes after the one that says where the run is."""
        if self.as_json and self.asked.request.reuse is not None:
            emit({"event": "reuse", **_fields(chosen)})


def print_plan(chosen: Chosen, planned: Planned, *, as_json: bool) -> None:
    """Print for every task what would become of it, and why."""
    k = planned.request.execution.attempts.k
    if chosen.reuse is not None:
        choices: Iterator[TaskChoice] = iter(chosen.reuse.choices)
    else:
        every: list[Deed] = ["run"] * k
        choices = (
            TaskChoice(spec.task_id, tuple(every), "not_in_source", "nothing is reused")
            for spec in planned.tasks
        )
    for choice in choices:
        if as_json:
            emit(_planned(choice))
        else:
            click.echo(f"{choice.task_id}: {_in_words(choice)}  ({choice.reason})")


def _lines(chosen: Chosen, settings: ReuseSettings) -> Iterator[str]:
    for passed in chosen.passed_over:
        yield f"passed over {passed.path.name}: {passed.reason}"
    if chosen.reuse is None:
        yield "reuse: no run to take over from; everything is run"
        return
    yield _summary(chosen.reuse)
    for warning in chosen.warnings:
        yield f"warning: {warning}"
    differences = chosen.reuse.differences
    for difference in differences[:_SHOWN]:
        yield f"warning: differs from the source: {said(difference)}"
    if len(differences) > _SHOWN:
        yield f"warning: and in {len(differences) - _SHOWN} more fields (reused_from in run_info.json)"
    if settings.require_same_tasks and chosen.reuse.source.info is None:
        yield "warning: the source recorded only category and truth of its tasks to compare by"
    yield from missing_lines(chosen.reuse)
    for path, reason in chosen.reuse.malformed:
        yield f"skipped: {path}: {reason}"


def _summary(reuse: Reuse) -> str:
    record = reuse.record
    left = sum(len(choice.numbers("run")) for choice in reuse.choices)
    verb = "evaluating" if record.kind == "evaluate" else "reusing"
    return (
        f"{verb} {record.run_id} ({record.path}): {record.attempts} attempts taken "
        f"({record.tasks} whole tasks), {record.evaluations} to evaluate, {left} to run"
    )


def _fields(chosen: Chosen) -> dict[str, JsonValue]:
    passed: list[JsonValue] = [
        {"path": str(each.path), "code": each.code, "reason": each.reason}
        for each in chosen.passed_over
    ]
    fields: dict[str, JsonValue] = {"source": None, "passed_over": passed}
    fields["warnings"] = list(chosen.warnings)
    if chosen.reuse is not None:
        record = chosen.reuse.record
        fields["source"] = {
            "run_id": record.run_id,
            "path": record.path,
            "kind": record.kind,
        }
        fields["missing"] = [
            {"task_id": task_id, "attempt": number, "reason": why}
            for task_id, number, why in chosen.reuse.missing
        ]
        fields["differences"] = list(record.differences)
        fields["tasks"] = record.tasks
        fields["attempts"] = record.attempts
        fields["evaluations"] = record.evaluations
        fields["skipped"] = [
            {"path": str(path), "reason": reason} for path, reason in chosen.reuse.malformed
        ]
    return fields


def _planned(choice: TaskChoice) -> dict[str, JsonValue]:
    deeds: dict[str, JsonValue] = {deed: list(choice.numbers(deed)) for deed in _DEEDS}
    return {
        "event": "plan",
        "task_id": choice.task_id,
        **deeds,
        "code": choice.code,
        "reason": choice.reason,
    }


def _in_words(choice: TaskChoice) -> str:
    parts = []
    for deed in _DEEDS:
        numbers = choice.numbers(deed)
        if numbers:
            which = "all" if len(numbers) == len(choice.deeds) else ",".join(map(str, numbers))
            parts.append(f"{deed} {which}")
    return "; ".join(parts)
