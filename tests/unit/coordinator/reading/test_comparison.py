"""Runs on disk, paired by task (field report U04)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentcompass.coordinator.reading.comparison import compare_runs
from agentcompass.errors import RecordCorrupt, RunNotSealed, UsageError
from agentcompass.metrics.compare import ComparisonRefused
from agentcompass.models.result import AttemptOutcome
from agentcompass.models.task import TaskSpec
from agentcompass.store import attempts
from tests.builders import a_request
from tests.support.golden_runs import their_result, their_run_info, their_task
from tests.support.measured import a_measured_run, a_planned_run
from tests.support.metrics import ERROR, RIGHT, WRONG
from tests.support.store_runs import a_reserved_run, execute

IDS = "abcdefghij"


def verdicts(text: str) -> dict[str, tuple[AttemptOutcome | None]]:
    """Return outcomes of tasks a, b, c, … from a word: 1 right, 0 wrong, e an error, - missing."""
    words = {"1": RIGHT, "0": WRONG, "e": ERROR, "-": None}
    return {IDS[number]: (words[each],) for number, each in enumerate(text)}


class TestU04:
    @pytest.mark.parametrize("missing", ["-", "e"])
    def test_flips_and_the_missing_task_are_listed_and_n_is_told(
        self, tmp_path: Path, missing: str
    ) -> None:
        first = a_measured_run(tmp_path, verdicts("1111100000"), run_id="A")
        second = a_measured_run(tmp_path, verdicts(f"001111000{missing}"), run_id="B")

        compared = compare_runs([first, second])

        (found,) = compared.found
        assert (found.paired, found.wins, found.losses, found.ties) == (9, 1, 2, 6)
        assert [pair.task_id for pair in found.changed] == ["a", "b", "f"]
        assert found.without_value == ("j",)
        assert found.difference == pytest.approx(-1 / 9)
        assert found.p_value == 1.0

    def test_a_task_that_one_run_never_had_is_named_and_has_to_be_asked_for(
        self, tmp_path: Path
    ) -> None:
        first = a_measured_run(tmp_path, verdicts("1111100000"), run_id="A")
        second = a_measured_run(tmp_path, verdicts("001111000"), run_id="B")

        with pytest.raises(ComparisonRefused, match=r"1 only in A: j[\s\S]*--intersection"):
            compare_runs([first, second])
        compared = compare_runs([first, second], on_intersection=True)

        assert compared.found[0].only_in_first == ("j",)
        assert compared.found[0].paired == 9
        assert compared.warnings == ("compared with B on the common tasks only",)

    @pytest.mark.parametrize(
        ("other", "reason"),
        [
            ({"benchmark": "other"}, "the benchmark differs: bench in A, other in B"),
            ({"strategy": "pass"}, "the attempt plan differs: k=1 avg in A, k=1 pass in B"),
        ],
    )
    def test_other_benchmarks_and_plans_are_refused(
        self, tmp_path: Path, other: dict[str, Any], reason: str
    ) -> None:
        first = a_measured_run(tmp_path, verdicts("1"), run_id="A")
        second = a_measured_run(tmp_path, verdicts("1"), run_id="B", **other)

        with pytest.raises(ComparisonRefused, match=reason):
            compare_runs([first, second])


class TestWarnings:
    def test_a_partial_run_is_named(self, tmp_path: Path) -> None:
        first = a_measured_run(tmp_path, verdicts("11"), run_id="A")
        second = a_measured_run(tmp_path, verdicts("1-"), run_id="B")

        compared = compare_runs([first, second])

        assert compared.warnings == ("B is partial: 1 attempt without a result",)
        assert [(run.tasks, run.with_value) for run in compared.runs] == [(2, 2), (2, 1)]

    def test_tasks_of_another_content_and_other_parameters_are_named(self, tmp_path: Path) -> None:
        runs = []
        for name, question in (("A", "2 + 2?"), ("B", "2 + 3?")):
            request = a_request()
            benchmark = request.benchmark.model_copy(update={"params": {"question": question}})
            request = request.model_copy(update={"benchmark": benchmark})
            specs = [TaskSpec(task_id="a", question=question), TaskSpec(task_id="b")]
            runs.append(a_planned_run(tmp_path, specs, request, name))
            for task_id in "ab":
                execute(runs[-1], task_id)

        assert compare_runs(runs).warnings == (
            "the benchmark has other parameters in B",
            "1 task of B with other contents under the same id",
        )


class TestRuns:
    def test_several_runs_are_each_compared_with_the_first(self, tmp_path: Path) -> None:
        runs = [a_measured_run(tmp_path, verdicts(w), run_id=w) for w in ("1100", "1110", "0000")]

        compared = compare_runs(runs)

        assert [(each.second, each.difference) for each in compared.found] == [
            ("1110", 0.25),
            ("0000", -0.5),
        ]
        assert all(each.p_holm is not None for each in compared.found)
        assert len(list(compared.pairs())) == 8

    def test_equal_run_ids_are_told_apart_by_their_paths(self, tmp_path: Path) -> None:
        runs = [a_measured_run(tmp_path / name, verdicts("1"), run_id="same") for name in "xy"]

        assert [run.name for run in compare_runs(runs).runs] == [str(run) for run in runs]

    def test_a_run_is_not_compared_with_itself(self, tmp_path: Path) -> None:
        run_dir = a_measured_run(tmp_path, verdicts("1"))

        with pytest.raises(UsageError, match="with itself"):
            compare_runs([run_dir, run_dir])

    def test_a_run_that_was_never_planned_is_refused(self, tmp_path: Path) -> None:
        run_dir = a_measured_run(tmp_path, verdicts("1"))

        with pytest.raises(RunNotSealed):
            compare_runs([run_dir, a_reserved_run(tmp_path)])

    def test_every_malformed_result_is_named(self, tmp_path: Path) -> None:
        first, second = (a_measured_run(tmp_path, verdicts("11"), run_id=name) for name in "AB")
        for task_id in "ab":
            path = attempts.result_of(second, task_id, 1)
            assert path is not None
            path.write_text("{")

        with pytest.raises(RecordCorrupt) as caught:
            compare_runs([first, second])

        assert len(caught.value.problems) == 2

    def test_runs_of_other_writers_can_be_compared(self, tmp_path: Path) -> None:
        ours = a_measured_run(tmp_path, verdicts("10"), benchmark="toy", run_id="A")
        theirs = tmp_path / "theirs"
        their_run_info(theirs, "a", "b")
        for task_id in "ab":
            their_task(theirs / "details" / "normal", task_id, their_result(correct=True))

        compared = compare_runs([ours, theirs])

        assert (compared.found[0].wins, compared.found[0].paired) == (1, 2)
        assert compared.runs[1].environment == "host_process"

    def test_another_series_can_be_chosen(self, tmp_path: Path) -> None:
        outcomes = {"a": (RIGHT, WRONG), "b": (WRONG, WRONG)}
        runs = [a_measured_run(tmp_path, outcomes, run_id=name) for name in "AB"]

        assert compare_runs(runs, series_id="correct.pass@2").found[0].first_mean == 0.5
        with pytest.raises(ComparisonRefused, match=r"it has correct\.avg@2, correct\.pass@2"):
            compare_runs(runs, series_id="correct.pass@3")
