"""`report` by another formula, `compare`, `export`: what users type and what they get."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import cast

import pytest
from pydantic import JsonValue

from tests.support.formulas import MODULE
from tests.support.measured import a_measured_run, finalized
from tests.support.metrics import ERROR, RIGHT, WRONG
from tests.unit.cli.conftest import Shell

STUB = "tests.support.stubs:StubAnalyzer"
CATEGORIES = {"a": "x", "b": "x", "c": "y"}
TREE = '{"type": "weighted", "weights": {"x": 3, "y": 1}, "children": ["x", "y"]}'


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """A run of three tasks in two categories, finished."""
    outcomes = {"a": (RIGHT,), "b": (RIGHT,), "c": (WRONG,)}
    run_dir = a_measured_run(tmp_path, outcomes, categories=CATEGORIES, run_id="first")
    finalized(run_dir)
    return run_dir


@pytest.fixture
def second(tmp_path: Path) -> Path:
    """The same tasks with other ends."""
    outcomes = {"a": (RIGHT,), "b": (WRONG,), "c": (ERROR,)}
    return a_measured_run(tmp_path, outcomes, categories=CATEGORIES, run_id="second")


class TestAnalyzers:
    def test_report_lets_them_look_at_a_finished_run(self, shell: Shell, first: Path) -> None:
        assert shell("report", str(first), "--analyzer", "tokens", "--analyzer", STUB) == 0

        assert "stub" in "\n".join(shell.lines)
        assert (first / "analysis_summary.md").exists()

    def test_their_words_are_part_of_the_object_that_programs_read(
        self, shell: Shell, first: Path
    ) -> None:
        setting = "analyzer.repetition.loop_length=5"
        shell("report", str(first), "--analyzer", "repetition", "--param", setting, "--json")

        (said,) = shell.objects()
        written = json.loads((first / "analysis_summary.json").read_bytes())
        assert said["analysis"] == written
        assert written["analyzers"]["repetition"]["params"] == {"loop_length": 5}

    @pytest.mark.parametrize(
        ("options", "why"),
        [
            (("--analyzer", "tokenz"), "did you mean 'tokens'"),
            (("--analyzer", "tokens", "--param", "analyzer.tokens.x=1"), "refused"),
            (("--param", "benchmark.x=1"), "takes no parameter"),
        ],
    )
    def test_wrong_use_is_refused(
        self, shell: Shell, first: Path, options: tuple[str, ...], why: str
    ) -> None:
        assert shell("report", str(first), *options) == 2
        assert why in shell.err


class TestReport:
    @pytest.mark.parametrize(
        ("options", "value"),
        [
            ((), 2 / 3),
            (("--aggregation", "category_mean"), 0.5),
            (("--category-hierarchy", TREE), 0.75),
            (("--aggregation", "category_hierarchy", "--category-hierarchy", TREE), 0.75),
        ],
    )
    def test_the_formula_that_was_asked_for_is_used_and_recorded(
        self, shell: Shell, first: Path, options: tuple[str, ...], value: float
    ) -> None:
        assert shell("report", str(first), "--json", *options) == 0

        (said,) = shell.objects()
        metrics = json.loads((first / "metrics.json").read_bytes())
        assert said["report"] == metrics
        assert metrics["series"][0]["value"] == pytest.approx(value)
        info = json.loads((first / "run_info.json").read_bytes())
        assert info["metric_artifacts"]["report"]["aggregation"] == metrics["aggregation"]
        assert (info["metric_artifacts"]["source"] == "report") == bool(options)

    def test_a_formula_that_does_not_fit_is_refused(self, shell: Shell, first: Path) -> None:
        assert shell("report", str(first), "--aggregation", "category_hierarchy") == 2
        assert "--category-hierarchy" in shell.err

    def test_every_command_shows_the_report_that_is_there(self, shell: Shell, first: Path) -> None:
        shell("report", str(first), "--aggregation", "category_mean")
        text = shell.lines

        shell("status", str(first), "--json")

        assert "Correct (native@1): 0.5000 (official, over 3 of 3 tasks)" in text
        assert shell.objects()[0]["value"] == 0.5

    def test_a_benchmark_in_a_file_has_to_be_trusted(self, shell: Shell, tmp_path: Path) -> None:
        (tmp_path / "mine").mkdir()
        file = tmp_path / "mine" / "bench.py"
        file.write_text(f"from {MODULE} import Silent\n")
        run_dir = a_measured_run(
            tmp_path, {"a": (RIGHT,)}, benchmark=f"{file}:Silent", custom_aggregation=True
        )

        assert shell("report", str(run_dir)) == 2
        assert "--trust" in shell.err
        assert shell("report", str(run_dir), "--trust", str(file.parent)) == 0


class TestCompare:
    def test_people_get_coverage_numbers_and_every_change(
        self, shell: Shell, first: Path, second: Path
    ) -> None:
        assert shell("compare", str(first), str(second)) == 0

        text = "\n".join(shell.lines)
        assert "Paired: 2 tasks with a value in both runs, 1.0000 to 0.5000" in text
        assert "0 higher, 1 lower, 1 equal" in text
        assert "Without a value in one of them: 1: c" in text
        assert any(line.split() == ["b", "1.0000", "0.0000", "lower"] for line in shell.lines)

    def test_programs_get_one_object(self, shell: Shell, first: Path, second: Path) -> None:
        assert shell("compare", str(first), str(second), "--json") == 0

        (said,) = shell.objects()
        assert said["warnings"] == []
        found = cast("list[dict[str, JsonValue]]", said["comparisons"])[0]
        assert (found["paired"], found["losses"], found["difference"]) == (2, 1, -0.5)
        runs = cast("list[dict[str, JsonValue]]", said["runs"])
        assert [run["name"] for run in runs] == ["first", "second"]

    def test_tables_get_a_row_for_each_pair(self, shell: Shell, first: Path, second: Path) -> None:
        assert shell("compare", str(first), str(second), "--csv") == 0

        rows = [(row["task_id"], row["state"]) for row in csv.DictReader(shell.lines)]
        assert rows == [("a", "tie"), ("b", "loss"), ("c", "no value")]

    def test_markdown_can_be_pasted(self, shell: Shell, first: Path, second: Path) -> None:
        assert shell("compare", str(first), str(second), "--markdown") == 0
        assert shell.lines[0] == "# correct.native@1 against first"

    def test_other_task_sets_are_refused_unless_it_is_said(
        self, shell: Shell, first: Path, tmp_path: Path
    ) -> None:
        other = a_measured_run(tmp_path, {"a": (WRONG,), "z": (WRONG,)}, run_id="other")

        assert shell("compare", str(first), str(other)) == 2
        assert "the task sets differ" in shell.err
        assert "2 only in first: b, c; 1 only in other: z" in shell.err
        assert shell("compare", str(first), str(other), "--intersection", "--csv") == 0
        assert "beware: compared with other on the common tasks only" in shell.err

    def test_one_run_is_not_enough(self, shell: Shell, first: Path) -> None:
        assert shell("compare", str(first)) == 2
        assert "nothing to be compared with" in shell.err


class TestExport:
    def test_rows_go_to_standard_output(self, shell: Shell, first: Path) -> None:
        assert shell("export", str(first), "--format", "csv") == 0

        rows = list(csv.DictReader(shell.lines))
        assert [(row["task_id"], row["metric_correct"]) for row in rows] == [
            *(("a", "true"), ("b", "true"), ("c", "false")),
        ]

    def test_a_file_says_its_format_by_its_name(
        self, shell: Shell, first: Path, tmp_path: Path
    ) -> None:
        target = tmp_path / "tasks.jsonl"

        assert shell("export", str(first), "--what", "tasks", "-o", str(target)) == 0

        assert shell.lines == []
        found = [json.loads(line) for line in target.read_text().splitlines()]
        assert [row["correct.native@1"] for row in found] == [1.0, 1.0, 0.0]

    def test_without_any_format_the_known_ones_are_listed(self, shell: Shell, first: Path) -> None:
        assert shell("export", str(first)) == 2
        assert "csv, jsonl, parquet" in shell.err

    def test_parquet_is_not_for_a_terminal(
        self, shell: Shell, first: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pytest.importorskip("pyarrow")
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)

        assert shell("export", str(first), "--format", "parquet") == 2
        assert "-o" in shell.err
