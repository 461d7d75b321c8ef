"""The part of a summary that shows tasks: all of them if they are few, else those to look at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from agentcompass.metrics.highlights import Highlights
from agentcompass.metrics.per_task.rows import CUT, MISSING, NOT_COUNTED, TaskLine
from agentcompass.metrics.text import words
from agentcompass.metrics.text.series_part import and_more
from agentcompass.metrics.text.tables import Align, Section, Table
from agentcompass.models.metric import MetricReport

_WHAT_ATTEMPTS_MEAN: Final = (
    f"Attempts in order: {MISSING} has no result, {NOT_COUNTED} came after the first success and does "
    f"not count, error and none left no observation, ! came with an error, {CUT} are cut."
)


@dataclass(frozen=True, slots=True)
class Room:
    """How much fits."""

    tasks: int
    """Lines of a list of tasks."""
    series: int
    """Series that are shown by category."""
    has_all_tasks: bool
    """Whether tasks are listed that nobody has to look at, and where each one stands."""


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    cells: Sequence[str]
    align: Align = "left"
    is_code: bool = False


def task_sections(report: MetricReport, found: Highlights, room: Room) -> Iterator[Section]:
    """Yield the lists of tasks."""
    if room.has_all_tasks and len(found.tasks) == report.headline.counts.total:
        yield _section(report, "Tasks", found.tasks, 0, room)
        return
    if found.unscored:
        yield _section(
            report, "Tasks without a value", found.unscored, found.unscored_omitted, room
        )
    if found.mixed:
        yield _section(
            report, "Tasks whose attempts differ", found.mixed, found.mixed_omitted, room
        )


def _section(
    report: MetricReport, title: str, lines: Sequence[TaskLine], omitted: int, room: Room
) -> Section:
    shown = lines[: room.tasks]
    columns = list(_columns(report, shown, has_places=room.has_all_tasks))
    more = and_more(omitted + len(lines) - len(shown), "tasks", "agentcompass export")
    footer = (_WHAT_ATTEMPTS_MEAN if report.k > 1 else "", more)
    table = Table(
        header=[column.title for column in columns],
        rows=list(zip(*(column.cells for column in columns), strict=True)),
        align=[column.align for column in columns],
        codes=frozenset(n for n, column in enumerate(columns) if column.is_code),
        footer=" ".join(part for part in footer if part),
    )
    return Section(title, [table])


def _columns(
    report: MetricReport, lines: Sequence[TaskLine], *, has_places: bool
) -> Iterator[_Column]:
    """Yield the columns that say something about one of these tasks."""
    headline = report.headline
    yield _Column("Task", [line.task_id for line in lines], is_code=True)
    yield _Column("State", [line.state for line in lines])
    if report.k > 1:
        cells = [", ".join(line.attempts) for line in lines]
        yield _Column(f"Attempts 1 to {report.k}", cells)
    if any(line.value is not None for line in lines):
        cells = [words.number(line.value, headline.display) for line in lines]
        yield _Column(words.series_name(headline), cells, align="right")
    if any(line.reason for line in lines):
        yield _Column("Reason", [line.reason for line in lines])
    if has_places and any(line.directory for line in lines):
        yield _Column("Directory", [line.directory for line in lines], is_code=True)
