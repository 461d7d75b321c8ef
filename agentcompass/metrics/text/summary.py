"""`summary.md` and the report on the terminal: the same content of the same validated report.

Coverage comes first, each number stands beside its counts, and nothing here computes: what is not
in the report or in the context is not shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from agentcompass.metrics.extras import partial_note, uncertainty
from agentcompass.metrics.failures import failure_table
from agentcompass.metrics.highlights import MAX_LINES, Extreme, Highlights
from agentcompass.metrics.rules.counts import printed
from agentcompass.metrics.text import words
from agentcompass.metrics.text.series_part import (
    and_more,
    category_sections,
    kind_of_value,
    lowest_to_highest,
    series_section,
)
from agentcompass.metrics.text.tables import Paragraph, Section, Table, as_markdown, as_text
from agentcompass.metrics.text.task_part import Room, task_sections
from agentcompass.metrics.usage import SpendTotal, UsageTotals
from agentcompass.models.base import Frozen
from agentcompass.models.metric import MetricReport

_TERMINAL: Final = Room(tasks=20, series=3, has_all_tasks=False)
_FILE: Final = Room(tasks=MAX_LINES, series=8, has_all_tasks=True)


class SummaryContext(Frozen):
    """What a summary says about a run beyond its numbers; whatever is unknown is left out."""

    run_id: str
    status: str = ""
    benchmark: str = ""
    harness: str = ""
    environment: str = ""
    model: str = ""
    notes: tuple[str, ...] = ()
    """Further lines: where results were reused from, what differs, a denominator that was guessed."""
    highlights: Highlights = Highlights()


def render_summary(report: MetricReport, context: SummaryContext) -> str:
    """Return `summary.md`."""
    return as_markdown(_title(context), _sections(report, context, _FILE))


def render_terminal(report: MetricReport, context: SummaryContext) -> str:
    """Return the report for a terminal; long lists are cut shorter than in the file."""
    return as_text(_title(context), _sections(report, context, _TERMINAL))


def _title(context: SummaryContext) -> str:
    return f"{context.benchmark or 'Evaluation'}: run {context.run_id}"


def _sections(report: MetricReport, context: SummaryContext, room: Room) -> Iterator[Section]:
    yield Section(
        "", [Paragraph(list(_verdict(report))), Paragraph(list(_identity(report, context)))]
    )
    yield series_section(report)
    yield from category_sections(report, most_series=room.series)
    yield from _failure_section(report)
    yield from task_sections(report, context.highlights, room)
    yield from _spending_sections(context.highlights)
    if context.notes:
        yield Section("Notes", [Paragraph([("", note) for note in context.notes])])


def _verdict(report: MetricReport) -> Iterator[tuple[str, str]]:
    headline, counts = report.headline, report.headline.counts
    yield (
        "Coverage:",
        f"{words.covered(counts)} tasks evaluated, {counts.unavailable} unavailable, "
        f"{counts.invalidated} invalidated; {counts.error} with an error",
    )
    note = partial_note(report)
    if note is not None:
        yield (
            "Partial:",
            f"the run is {note.status}, {words.plural(note.missing, 'attempt')} without a result; "
            "no value here is final",
        )
    if report.evaluation_failed:
        yield (
            "No official value:",
            f"{words.plural(counts.invalidated, 'task')} invalidated; a reference value covers the "
            "valid tasks only",
        )
    value = words.number(printed(headline), headline.display)
    yield (
        f"{words.series_name(headline)}:",
        f"{value} ({kind_of_value(report, headline)}, over {words.covered(counts)} tasks)",
    )
    error = uncertainty(headline)
    if error is not None and error.ci95 is not None:
        yield "95 % interval:", words.interval(error, headline.display)
    if counts.evaluated < counts.total and lowest_to_highest(headline) != words.NOTHING:
        yield (
            "Lowest to highest:",
            f"{lowest_to_highest(headline)} over all {counts.total} tasks, those without a value "
            "counted as the lowest possible one, and as the highest",
        )


def _identity(report: MetricReport, context: SummaryContext) -> Iterator[tuple[str, str]]:
    for name, value in (
        ("Model", context.model),
        ("Harness", context.harness),
        ("Environment", context.environment),
        ("State", context.status),
    ):
        if value:
            yield f"{name}:", value
    yield (
        "Attempts:",
        f"k={report.k}, strategy {report.strategy}; aggregation {report.aggregation}",
    )


def _failure_section(report: MetricReport) -> Iterator[Section]:
    found = failure_table(report)
    if found is None:
        return
    rows = [
        (
            cause.code,
            cause.phase or words.NOTHING,
            cause.severity or words.NOTHING,
            cause.culprit or words.NOTHING,
            str(cause.tasks),
            str(cause.attempts),
            ", ".join(cause.examples) + (", …" if cause.tasks > len(cause.examples) else ""),
        )
        for cause in found.causes
    ]
    table = Table(
        header=("Cause", "Phase", "Severity", "Whose", "Tasks", "Attempts", "For instance"),
        rows=rows,
        align=("left", "left", "left", "left", "right", "right", "left"),
        codes=frozenset({0, 6}),
        footer=and_more(found.omitted, "causes", "the tasks themselves"),
    )
    yield Section("Failures by cause", [table])


def _spending_sections(found: Highlights) -> Iterator[Section]:
    if found.usage is not None:
        yield Section("Usage", [_usage_table(found.usage)])
    yield from _extremes("Slowest attempts", "Seconds", found.slowest, digits=1)
    yield from _extremes("Most expensive attempts", "US dollars", found.most_expensive, digits=4)


def _usage_table(usage: UsageTotals) -> Table:
    accounts: tuple[tuple[str, SpendTotal], ...] = (
        ("incurred by this run", usage.incurred),
        ("behind the accepted results", usage.accepted),
        ("wasted on what does not count", usage.wasted),
    )
    return Table(
        header=("", "Executions", "Input tokens", "Output tokens", "US dollars"),
        rows=[
            (
                name,
                str(account.cost_usd.of),
                words.total(account.input_tokens, digits=0),
                words.total(account.output_tokens, digits=0),
                words.total(account.cost_usd, digits=4),
            )
            for name, account in accounts
        ],
        align=("left", "right", "right", "right", "right"),
    )


def _extremes(
    title: str, unit: str, attempts: tuple[Extreme, ...], *, digits: int
) -> Iterator[Section]:
    if attempts:
        table = Table(
            header=("Task", "Attempt", unit),
            rows=[
                (each.task_id, str(each.attempt), f"{each.amount:,.{digits}f}") for each in attempts
            ],
            align=("left", "right", "right"),
            codes=frozenset({0}),
        )
        yield Section(title, [table])
