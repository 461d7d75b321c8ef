"""The part of a summary that shows series, categories and the tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from agentcompass.metrics.extras import bounds, category_uncertainty, partial_note, uncertainty
from agentcompass.metrics.formula.hierarchy import ROOT, unescape
from agentcompass.metrics.rules.counts import Valued, printed
from agentcompass.metrics.text import words
from agentcompass.metrics.text.tables import Align, Section, Table
from agentcompass.models.metric import CategoryValue, MetricReport, MetricSeries
from agentcompass.models.task import UNCATEGORIZED

MAX_ROWS: Final = 100
_WHAT_COUNTS_MEAN: Final = (
    "Evaluated: the task has a value. Unavailable: an observation or an attempt is missing. "
    "Invalidated: an attempt failed fatally, so no series uses the task. These three add up to the "
    "total. Error: some attempt has an error; overlaps with all of them. Lowest to highest: every task "
    "without a value counted as the lowest possible one (a failure), and as the highest (a success)."
)


def series_section(report: MetricReport) -> Section:
    """Return the table of all series."""
    has_own_formula = any(series.aggregation != report.aggregation for series in report.series)
    header = (
        "Metric", "Value", "", "95 % interval", "Lowest to highest", "Evaluated", "Unavailable",
        "Invalidated", "Total", "Error", *(("Formula",) if has_own_formula else ()),
    )  # fmt: skip
    right: list[Align] = ["right"] * 7
    table = Table(
        header=header,
        rows=[_series_row(report, series)[: len(header)] for series in report.series],
        align=("left", "right", "left", *right, "left")[: len(header)],
        footer=_WHAT_COUNTS_MEAN,
    )
    return Section("Metrics", [table])


def category_sections(report: MetricReport, *, most_series: int) -> Iterator[Section]:
    """Yield the categories of the first series, and the tree of the headline."""
    names = list(report.headline.categories)
    if names and names != [UNCATEGORIZED]:
        yield Section("Categories", [_category_table(report, names, most_series)])
    if report.headline.hierarchy:
        yield Section("Hierarchy", [_tree_table(report)])


def lowest_to_highest(series: MetricSeries) -> str:
    """Return both readings of the tasks without a value."""
    found = bounds(series)
    if found is None or found.lower is None:
        return words.NOTHING
    lower = words.number(found.lower, series.display)
    return f"{lower} to {words.number(found.upper, series.display)}"


def kind_of_value(report: MetricReport, part: Valued) -> str:
    """Return whether the printed number is official; nothing in a partial report is."""
    if part.value is not None:
        return "partial" if partial_note(report) is not None else "official"
    return "reference" if part.reference_value is not None else "no value"


def _series_row(report: MetricReport, series: MetricSeries) -> Sequence[str]:
    counts = series.counts
    return (
        words.series_name(series),
        words.number(printed(series), series.display),
        kind_of_value(report, series),
        words.interval(uncertainty(series), series.display),
        lowest_to_highest(series),
        str(counts.evaluated),
        str(counts.unavailable),
        str(counts.invalidated),
        str(counts.total),
        str(counts.error),
        series.aggregation,
    )


def _category_table(report: MetricReport, names: Sequence[str], most: int) -> Table:
    headline, shown = report.headline, report.series[:most]
    errors = category_uncertainty(headline) or {}
    rows = [
        (
            name,
            words.interval(errors.get(name), headline.display),
            _weight(headline.categories[name]),
            *(_cell(series.categories, name, series) for series in shown),
        )
        for name in names[:MAX_ROWS]
    ]
    right: list[Align] = ["right"] * (len(shown) + 2)
    kind = "Reference values" if report.evaluation_failed else "Values"
    if partial_note(report) is not None:
        kind = f"Partial {kind.lower()}"
    notes = [
        f"{kind} with the tasks that they cover; interval and weight are the headline's.",
        and_more(len(names) - len(rows), "categories", "metrics.json"),
        and_more(len(report.series) - len(shown), "series", "metrics.json"),
    ]
    return Table(
        header=("Category", "95 % interval", "Weight", *map(words.series_name, shown)),
        rows=rows,
        align=("left", *right),
        codes=frozenset({0}),
        footer=" ".join(note for note in notes if note),
    )


def _cell(parts: Mapping[str, CategoryValue], name: str, series: MetricSeries) -> str:
    part = parts.get(name)
    if part is None:
        return words.NOTHING
    return f"{words.number(printed(part), series.display)} ({words.covered(part.counts)})"


def _tree_table(report: MetricReport) -> Table:
    paths = list(_below(ROOT, sorted(report.headline.hierarchy)))
    return Table(
        header=("Node", "Value", "", "Weight", "Evaluated", "Total", "Error"),
        rows=[_node_row(report, path) for path in paths[:MAX_ROWS]],
        align=("left", "right", "left", "right", "right", "right", "right"),
        footer=and_more(len(paths) - MAX_ROWS, "nodes", "metrics.json"),
    )


def _below(path: str, paths: Sequence[str]) -> Iterator[str]:
    """Yield a node and all below it, depth first; a file may hold its keys in any order."""
    yield path
    for other in paths:
        if other.rpartition("/")[0] == path:
            yield from _below(other, paths)


def _node_row(report: MetricReport, path: str) -> Sequence[str]:
    series = report.headline
    part = series.hierarchy[path]
    depth = path.count("/")
    name = ROOT if path == ROOT else unescape(path.rpartition("/")[2])
    return (
        "· " * depth + name,
        words.number(printed(part), series.display),
        kind_of_value(report, part),
        _weight(part),
        str(part.counts.evaluated),
        str(part.counts.total),
        str(part.counts.error),
    )


def _weight(part: CategoryValue) -> str:
    weight = part.aggregation_weight
    return words.NOTHING if weight is None else f"{weight:.4g}"


def and_more(count: int, nouns: str, where: str) -> str:
    """Return the line under a table that was cut, "" if it was not."""
    return f"And {count} more {nouns}, see {where}." if count > 0 else ""
