"""`analysis_summary.md`: what analyzers say, whatever shape it has, as tables.

An analyzer's summary is open content: numbers become one table, groups of numbers another, and
what is nested deeper stands as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from agentcompass.metrics.text import words
from agentcompass.metrics.text.tables import Align, Paragraph, Section, Table, as_markdown, as_text
from agentcompass.models.analysis import AnalysisSummary, AnalyzerSummary


def render_analysis(summary: AnalysisSummary) -> str:
    """Return `analysis_summary.md`."""
    return as_markdown(*_document(summary))


def render_analysis_terminal(summary: AnalysisSummary) -> str:
    """Return the same for a terminal."""
    return as_text(*_document(summary))


def _document(summary: AnalysisSummary) -> tuple[str, Sequence[Section]]:
    whole = summary.attempts + summary.missing
    covered = f"{summary.attempts} of {words.plural(whole, 'attempt')} have a result"
    sections = [Section("", [Paragraph([("Coverage:", covered)])])]
    for name, each in summary.analyzers.items():
        sections.append(Section(name, list(_blocks(each, summary.attempts))))
    return f"Analysis: run {summary.run_id}", sections


def _blocks(each: AnalyzerSummary, of: int) -> Iterator[Paragraph | Table]:
    lines = [("Looked at:", f"{each.attempts} of {words.plural(of, 'attempt')}")]
    if each.failed:
        lines.append(("Failed at:", words.plural(each.failed, "attempt")))
    if each.error:
        lines.append(("No summary:", each.error))
    yield Paragraph(lines)
    yield from _tables(each.summary or {}, "")


def _tables(content: Mapping[str, JsonValue], title: str) -> Iterator[Table]:
    """Yield plain values first, then groups of them with the same columns, then deeper groups."""
    plain = {name: value for name, value in content.items() if not isinstance(value, dict)}
    groups = {name: value for name, value in content.items() if isinstance(value, dict)}
    flat = {name: group for name, group in groups.items() if group and not _has_groups(group)}
    if plain:
        rows = [(name, _cell(value)) for name, value in plain.items()]
        yield Table((title, ""), rows, ("left", "right"), frozenset({0}))
    for columns in dict.fromkeys(tuple(group) for group in flat.values()):
        same = {name: group for name, group in flat.items() if tuple(group) == columns}
        right: Align = "right"
        align: list[Align] = ["left", *[right] * len(columns)]
        rows_of = [
            (name, *(_cell(group[column]) for column in columns)) for name, group in same.items()
        ]
        yield Table((title, *columns), rows_of, align, frozenset({0}))
    for name, group in groups.items():
        if name not in flat:
            yield from _tables(group, name)


def _has_groups(group: Mapping[str, JsonValue]) -> bool:
    return any(isinstance(value, dict) for value in group.values())


def _cell(value: JsonValue) -> str:
    if value is None:
        return words.NOTHING
    if isinstance(value, float) and not value.is_integer():
        return words.number(value)
    if isinstance(value, float):
        return str(int(value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
