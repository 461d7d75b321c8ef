"""What analyzers say, as tables: any shape of JSON, and nothing that was not said."""

from __future__ import annotations

from agentcompass.metrics.text.analysis_part import render_analysis, render_analysis_terminal
from agentcompass.models.analysis import AnalysisSummary, AnalyzerSummary
from agentcompass.models.base import JsonObject


def a_summary(content: JsonObject | None = None, **more: object) -> AnalysisSummary:
    fields = {"attempts": 3, "summary": content, **more}
    return AnalysisSummary(
        run_id="run-1",
        results_sha256="0" * 64,
        attempts=4,
        missing=1,
        analyzers={"mine": AnalyzerSummary.model_validate(fields)},
    )


def test_it_says_how_much_was_looked_at() -> None:
    text = render_analysis_terminal(a_summary({"n": 1}, failed=1))

    assert "4 of 5 attempts have a result" in text
    assert "Looked at: 3 of 4 attempts" in text
    assert "Failed at: 1 attempt" in text


def test_what_is_unknown_is_a_dash_and_whole_numbers_are_whole() -> None:
    text = render_analysis(a_summary({"a": None, "b": 3.0, "c": 0.25, "d": "word", "e": [1]}))

    for row in ("| `a` | – |", "| `b` | 3 |", "| `c` | 0.2500 |", "| `d` | word |"):
        assert row in text
    assert r"| `e` | \[1\] |" in text


def test_groups_of_the_same_shape_are_one_table() -> None:
    groups: JsonObject = {"x": {"n": 1, "p50": 2.0}, "y": {"n": 3, "p50": None}}

    text = render_analysis(a_summary({**groups, "z": {"other": 1}, "none": {}}))

    assert "|  | n | p50 |" in text
    assert "| `x` | 1 | 2 |" in text
    assert "| `y` | 3 | – |" in text
    assert "| `z` | 1 |" in text


def test_what_is_nested_deeper_goes_by_its_name() -> None:
    content: JsonObject = {"by_tool": {"bash": {"calls": 4, "attempts": 2}}}

    assert "| by_tool | calls | attempts |" in render_analysis(a_summary(content))


def test_an_analyzer_without_a_summary_says_why_and_one_without_words_says_nothing() -> None:
    failed = a_summary(error="ValueError: no", failed=2)

    assert "No summary: ValueError: no" in render_analysis_terminal(failed)
    assert failed.problems == (
        "Analyzer mine gave no summary: ValueError: no",
        "Analyzer mine failed at 2 attempts.",
    )
    assert a_summary().problems == ()
