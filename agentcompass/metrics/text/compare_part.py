"""Comparisons for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from agentcompass.metrics.compare import Comparison
from agentcompass.metrics.text import words
from agentcompass.metrics.text.series_part import and_more
from agentcompass.metrics.text.tables import Paragraph, Section, Table, as_markdown, as_text
from agentcompass.models.base import Frozen

_MOST: Final = 50


class ComparedRun(Frozen):
    """One of the runs, as it is shown."""

    name: str
    path: str
    state: str
    benchmark: str
    harness: str
    environment: str
    model: str
    k: int
    strategy: str
    tasks: int
    with_value: int
    """Tasks with a value in the series that is compared."""
    missing_attempts: int
    """Attempts without a result: if there are any, the run is partial."""


def comparison_text(
    found: Sequence[Comparison], runs: Sequence[ComparedRun] = (), warnings: Sequence[str] = ()
) -> str:
    """Return plain text for a terminal."""
    return as_text(_title(found), _sections(found, runs, warnings))


def comparison_markdown(
    found: Sequence[Comparison], runs: Sequence[ComparedRun] = (), warnings: Sequence[str] = ()
) -> str:
    """Return Markdown."""
    return as_markdown(_title(found), _sections(found, runs, warnings))


def _title(found: Sequence[Comparison]) -> str:
    return f"{found[0].series_id} against {found[0].first}"


def _sections(
    found: Sequence[Comparison], runs: Sequence[ComparedRun], warnings: Sequence[str]
) -> Iterator[Section]:
    if warnings:
        yield Section("", [Paragraph([("Beware:", warning) for warning in warnings])])
    if runs:
        yield Section("Runs", [_runs_table(runs)])
    for each in found:
        blocks: list[Paragraph | Table] = [Paragraph(list(_numbers(each)))]
        if each.changed:
            blocks.append(_changed(each))
        unpaired = list(_unpaired(each))
        if unpaired:
            blocks.append(Paragraph(unpaired))
        yield Section(each.second, blocks)


def _runs_table(runs: Sequence[ComparedRun]) -> Table:
    return Table(
        header=("Run", "State", "Model", "Harness", "Environment", "With a value", "Tasks"),
        rows=[
            (
                *(run.name, run.state, run.model, run.harness, run.environment),
                *(str(run.with_value), str(run.tasks)),
            )
            for run in runs
        ],
        align=("left", "left", "left", "left", "left", "right", "right"),
        codes=frozenset({0}),
    )


def _numbers(each: Comparison) -> Iterator[tuple[str, str]]:
    means = f"{words.number(each.first_mean)} to {words.number(each.second_mean)}"
    yield "Paired:", f"{words.plural(each.paired, 'task')} with a value in both runs, {means}"
    if each.difference is None:
        return
    low_high = (
        f", 95 % interval {words.signed(each.ci95[0])} to {words.signed(each.ci95[1])}"
        if each.ci95 is not None
        else ""
    )
    yield "Difference:", f"{words.signed(each.difference)}{low_high} ({each.interval_method})"
    yield "Changes:", f"{each.wins} higher, {each.losses} lower, {each.ties} equal"
    adjusted = (
        "" if each.p_holm is None else f", {each.p_holm:.4g} adjusted for several runs (Holm)"
    )
    p_value = words.NOTHING if each.p_value is None else f"{each.p_value:.4g}"
    yield "Two-sided p:", f"{p_value}{adjusted} ({each.test})"


def _changed(each: Comparison) -> Table:
    shown = each.changed[:_MOST]
    return Table(
        header=("Changed task", each.first, each.second, ""),
        rows=[
            (
                pair.task_id,
                words.number(pair.first),
                words.number(pair.second),
                "higher" if pair.state == "win" else "lower",
            )
            for pair in shown
        ],
        align=("left", "right", "right", "left"),
        codes=frozenset({0}),
        footer=and_more(len(each.changed) - len(shown), "tasks", "--json"),
    )


def _unpaired(each: Comparison) -> Iterator[tuple[str, str]]:
    for start, ids in (
        ("Without a value in one of them:", each.without_value),
        (f"Only in {each.first}:", each.only_in_first),
        (f"Only in {each.second}:", each.only_in_second),
    ):
        if ids:
            more = and_more(len(ids) - _MOST, "tasks", "--json")
            yield start, f"{len(ids)}: {', '.join(ids[:_MOST])}{'. ' if more else ''}{more}"
