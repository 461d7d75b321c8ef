"""The rules of what we add under `extra`."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from agentcompass.metrics.seal import sealed
from agentcompass.metrics.validate import Expected
from agentcompass.models.metric import MetricReport, MetricSeries
from agentcompass.models.request import AttemptPlan
from tests.builders import a_contract
from tests.support.metrics import (
    ERROR,
    RIGHT,
    WRONG,
    broken,
    problems_of,
    report_of,
    rich_report,
    with_note,
)

REPORT = report_of((RIGHT, RIGHT), (RIGHT, WRONG), (WRONG, ERROR))


def note_of(series: MetricSeries, **fields: JsonValue) -> JsonValue:
    note = series.extra["uncertainty"]
    assert isinstance(note, dict)
    return {**note, **fields}


class TestUncertainty:
    report, expected = rich_report("category_mean")
    micro, micro_expected = rich_report()

    @pytest.mark.parametrize(
        ("fields", "problem"),
        [
            ({"n": 3}, "uncertainty: n is 3"),
            ({"stderr": 0.5}, "does not follow"),
            ({"ci95": [0.0, 1.0]}, "does not follow"),
            ({"ci95": None}, "does not follow"),
            ({"ci95": [0.9, 1.0]}, "is not between 0.9 and 1.0"),
            ({"method": "guess"}, "method is 'guess'"),
            ({"stderr": -1.0}, "extra.uncertainty.stderr"),
        ],
    )
    @pytest.mark.parametrize("which", ["micro", "mean"])
    def test_each_number_follows_from_the_others(
        self, which: str, fields: dict[str, JsonValue], problem: str
    ) -> None:
        report, expected = (
            (self.micro, self.micro_expected) if which == "micro" else (self.report, self.expected)
        )

        found = problems_of(
            with_note(report, "uncertainty", note_of(report.headline, **fields)), expected
        )

        assert any(problem in each for each in found)

    def test_every_category_needs_one(self) -> None:
        found = problems_of(with_note(self.report, "category_uncertainty", {}), self.expected)

        assert "correct.avg@4: category_uncertainty is not one of each category" in found

    def test_without_a_value_there_is_nothing_to_be_uncertain_about(self) -> None:
        report = report_of(ERROR, ERROR)
        note: JsonValue = {"stderr": 0.1, "ci95": None, "method": "wilson", "n": 0}

        found = problems_of(with_note(report, "uncertainty", note))

        assert any("there is no value to be uncertain about" in each for each in found)

    def test_one_task_has_no_standard_error(self) -> None:
        contract = a_contract("scalar")
        outcome = RIGHT.model_copy(update={"metrics": {"score": 1.0}})
        report = report_of(outcome, contract=contract)
        note: JsonValue = {"stderr": 0.1, "ci95": [0.0, 2.0], "method": "clustered_t", "n": 1}

        found = problems_of(
            with_note(report, "uncertainty", note), Expected(contract, AttemptPlan())
        )

        assert any("one task has no standard error" in each for each in found)


class TestFailures:
    report = report_of(RIGHT, ERROR, None)

    def with_cause(self, position: int, **fields: JsonValue) -> MetricReport:
        table = self.report.extra["failures"]
        assert isinstance(table, dict)
        causes = table["causes"]
        assert isinstance(causes, list)
        cause = causes[position]
        assert isinstance(cause, dict)
        changed = [*causes[:position], {**cause, **fields}, *causes[position + 1 :]]
        return self.report.model_copy(update={"extra": {"failures": {**table, "causes": changed}}})

    @pytest.mark.parametrize(
        ("position", "fields", "problem"),
        [
            (0, {"attempts": 2}, "2 attempts in 1 tasks with k=1"),
            (0, {"tasks": 4, "attempts": 4}, "4 tasks of 3"),
            (1, {"tasks": 2, "attempts": 2, "examples": ["a", "b"]}, "2 tasks of 1"),
            (0, {"examples": []}, "0 examples of 1 tasks"),
            (1, {"tasks": 3, "attempts": 3}, "the causes are not in order"),
            (0, {"code": "evaluate_failed", "phase": "evaluate"}, "a cause stands there twice"),
            (1, {"phase": None}, "has no phase"),
            (1, {"severity": None}, "has no severity"),
            (0, {"culprit": "me"}, "extra.failures.causes.0.culprit"),
        ],
    )
    def test_a_cause_agrees_with_the_counts(
        self, position: int, fields: dict[str, JsonValue], problem: str
    ) -> None:
        found = problems_of(self.with_cause(position, **fields))

        assert any(problem in each for each in found)

    def test_a_list_that_was_not_cut_omits_nothing(self) -> None:
        table = self.report.extra["failures"]
        assert isinstance(table, dict)
        report = self.report.model_copy(update={"extra": {"failures": {**table, "omitted": 3}}})

        found = problems_of(report)

        assert "extra.failures: 3 omitted from a list that was not cut" in found


class TestSeal:
    def test_a_sealed_report_is_sound_and_stays_so_when_it_is_read_back(self) -> None:
        report = sealed(REPORT)

        again = MetricReport.model_validate_json(report.model_dump_json())

        assert problems_of(again) == ()
        assert sealed(again) == report

    def test_whatever_was_changed_after_the_seal_is_noticed(self) -> None:
        display = REPORT.headline.display.model_copy(update={"description": "not ours"})

        found = problems_of(broken(broken(sealed(REPORT), display=display), 1, display=display))

        assert found == ("extra.sha256: the report was changed after it was sealed",)
