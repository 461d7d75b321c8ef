"""Attempts and tasks as rows: every format has the same content, and missing is never zero."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

import pytest

from agentcompass.coordinator.reading.columns import Kind, attempt_columns, task_columns
from agentcompass.coordinator.reading.export import What, exported, format_of, save
from agentcompass.coordinator.reading.run import open_run
from agentcompass.errors import RecordCorrupt, UsageError
from agentcompass.models.metric import MetricContract, MetricSpec
from agentcompass.store import attempts
from tests.builders import an_issue, an_outcome
from tests.support.golden_runs import detail_file, their_result, their_run_info, their_task
from tests.support.measured import a_measured_run, ended
from tests.support.metrics import RIGHT, WRONG
from tests.support.store_runs import execute

CONTRACT = MetricContract(
    metrics=(
        MetricSpec(metric_id="correct", kind="binary_success", primary=True),
        MetricSpec(metric_id="steps", kind="scalar"),
    )
)
DOCUMENT = Path(__file__).parents[4] / "docs" / "metrics.md"


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """The run of field report U12, with a line feed in an id and known costs of one attempt."""
    failing = an_outcome(an_issue("warning"), an_issue("error", "evaluate", "evaluate_failed"))
    outcomes = {
        "T1": (None, RIGHT, RIGHT),
        "T2\n=1": (RIGHT, WRONG, None),
        "T3": (failing, RIGHT, RIGHT),
    }
    run_dir = a_measured_run(tmp_path, outcomes, metric_contract=CONTRACT, categories={"T1": "x"})
    paid = ended(
        "T1", 1, an_outcome(correct=True, steps=4), usage={"input_tokens": 7}, cost_usd=0.5
    )
    execute(run_dir, "T1", 1, paid)
    return run_dir


def rows(run_dir: Path, what: What) -> list[dict[str, Any]]:
    data = b"".join(exported(run_dir, what, "jsonl"))
    return [json.loads(line, parse_constant=pytest.fail) for line in data.splitlines()]


class TestAttempts:
    def test_every_planned_attempt_has_a_row_and_none_is_a_zero(self, run_dir: Path) -> None:
        found = rows(run_dir, "attempts")

        assert [(row["task_id"], row["attempt"], row["metric_correct"]) for row in found] == [
            *(("T1", 1, True), ("T1", 2, True), ("T1", 3, True)),
            *(("T2\n=1", 1, True), ("T2\n=1", 2, False), ("T2\n=1", 3, None)),
            *(("T3", 1, None), ("T3", 2, True), ("T3", 3, True)),
        ]
        assert [row["state"] for row in found[3:7]] == [
            *("observed", "observed", "missing", "no_observation"),
        ]

    def test_a_row_tells_what_is_known_and_null_for_the_rest(self, run_dir: Path) -> None:
        paid, *_, failed, _, _ = rows(run_dir, "attempts")

        assert (paid["metric_steps"], paid["input_tokens"], paid["cost_usd"]) == (4.0, 7, 0.5)
        assert (paid["output_tokens"], paid["duration_s"], paid["category"]) == (None, 90.0, "x")
        assert (paid["code"], paid["issues"], paid["reused_from"]) == (None, 0, None)
        worst = (failed["severity"], failed["phase"], failed["code"], failed["issues"])
        assert worst == ("error", "evaluate", "evaluate_failed", 2)
        assert (run_dir / paid["result_path"]).is_file()

    def test_a_missing_attempt_has_nothing_but_its_names(self, run_dir: Path) -> None:
        missing = rows(run_dir, "attempts")[5]

        known = {name for name, value in missing.items() if value is not None}
        assert known == {
            *("run_id", "run_state", "benchmark", "harness", "environment", "model"),
            *("task_id", "category", "k", "attempt", "state"),
        }


class TestTasks:
    def test_a_row_has_every_attempt_and_every_series(self, run_dir: Path) -> None:
        found = rows(run_dir, "tasks")

        assert [row["attempt_values"] for row in found] == [[1, 1, 1], [1, 0, None], [None, 1, 1]]
        assert [row["correct.avg@3"] for row in found] == [1.0, None, None]
        assert [row["correct.pass@3"] for row in found] == [1.0, 1.0, 1.0]
        assert [row["state"] for row in found] == ["evaluated", "unavailable", "unavailable"]
        assert found[1]["reason"] == "attempt 3 has no result"
        assert found[1]["result_paths"][2] is None
        assert (run_dir / found[0]["directory"]).is_dir()

    def test_a_sum_of_which_a_part_is_not_known_is_not_known(self, run_dir: Path) -> None:
        found = rows(run_dir, "tasks")

        assert [row["input_tokens"] for row in found] == [None, None, None]
        assert [row["duration_s"] for row in found] == [270.0, 180.0, 270.0]
        assert [row["retry_count"] for row in found] == [0, 0, 0]


class TestFormats:
    @pytest.mark.parametrize("what", ["attempts", "tasks"])
    def test_csv_holds_what_json_lines_hold(self, run_dir: Path, what: What) -> None:
        text = b"".join(exported(run_dir, what, "csv")).decode()

        found = list(csv.DictReader(io.StringIO(text)))

        expected = [{name: as_field(v) for name, v in row.items()} for row in rows(run_dir, what)]
        assert found == expected

    @pytest.mark.parametrize("what", ["attempts", "tasks"])
    def test_parquet_holds_it_with_types(self, run_dir: Path, what: What, tmp_path: Path) -> None:
        parquet = pytest.importorskip("pyarrow.parquet")
        save(tmp_path / "it.parquet", exported(run_dir, what, "parquet"))

        table = parquet.read_table(tmp_path / "it.parquet")

        found = [{name: as_json(v) for name, v in row.items()} for row in table.to_pylist()]
        assert found == rows(run_dir, what)

    def test_parquet_of_nothing_has_its_columns(self, tmp_path: Path) -> None:
        parquet = pytest.importorskip("pyarrow.parquet")
        their_run_info(tmp_path / "theirs")
        save(tmp_path / "it.parquet", exported(tmp_path / "theirs", "attempts", "parquet"))

        table = parquet.read_table(tmp_path / "it.parquet")

        assert table.num_rows == 0
        assert "metric_correct" in table.column_names

    def test_without_pyarrow_the_extra_is_named(
        self, run_dir: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "pyarrow", None)

        with pytest.raises(UsageError, match=r"pip install 'agentcompass-distributed\[parquet\]'"):
            exported(run_dir, "attempts", "parquet")

    def test_the_format_may_be_told_by_the_name_of_the_file(self) -> None:
        assert format_of(None, Path("a/b.JSONL")) == "jsonl"
        assert format_of("csv", Path("a/b.jsonl")) == "csv"
        for output in (None, Path("b"), Path("b.xlsx")):
            with pytest.raises(UsageError, match="in which format"):
                format_of(None, output)


def as_field(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return json.dumps(value)
    return "" if value is None else str(value)


def as_json(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime) else value


class TestSaving:
    def test_a_file_is_written_whole_or_not_at_all(self, run_dir: Path, tmp_path: Path) -> None:
        path = attempts.result_of(run_dir, "T3", 3)
        assert path is not None
        path.write_text("{")
        target = tmp_path / "it.csv"
        target.write_text("before")

        with pytest.raises(RecordCorrupt, match="attempt-3"):
            save(target, exported(run_dir, "attempts", "csv"))

        assert target.read_text() == "before"
        assert [each.name for each in tmp_path.glob(".tmp-*")] == []

    def test_a_folder_that_is_not_there_is_not_made(self, run_dir: Path, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="there is no folder"):
            save(tmp_path / "no" / "it.csv", exported(run_dir, "attempts", "csv"))


class TestOtherWriters:
    def test_their_runs_are_exported_with_what_they_hold(self, tmp_path: Path) -> None:
        their_run_info(tmp_path, "a", k=2, strategy="pass")
        their_task(tmp_path / "details" / "normal", "a", their_result(correct=True), k=2)

        first, second = rows(tmp_path, "attempts")

        assert (first["state"], first["metric_correct"], first["harness"]) == (
            *("observed", True, "toy_harness"),
        )
        assert (second["state"], second["status"], second["result_path"]) == (
            *("not_counted", "skipped", None),
        )

    def test_a_record_without_a_directory_has_no_path(self, tmp_path: Path) -> None:
        their_run_info(tmp_path, schema=None)
        detail_file(tmp_path, "a", "a", {"correct": True})

        (row,) = rows(tmp_path, "tasks")

        assert (row["directory"], row["result_paths"], row["state"]) == (None, [None], "evaluated")


def documented(title: str) -> Sequence[tuple[str, str]]:
    """Return (name, type) of every column in one table of the document."""
    section = DOCUMENT.read_text(encoding="utf-8").split(f"### {title}\n")[1].split("\n#")[0]
    found = re.findall(r"^\| (`[^|]+`) \| (\w+) \|", section, re.MULTILINE)
    return [(name, kind) for names, kind in found for name in re.findall(r"`([^`]+)`", names)]


def test_the_columns_are_those_of_the_document(run_dir: Path) -> None:
    run = open_run(run_dir)
    of_attempts = [(each.name, each.kind) for each in attempt_columns(run)]
    of_tasks = [(each.name, each.kind) for each in task_columns(["correct.avg@3"])]

    assert documented("Rows of attempts") == [*of_attempts[:-2], ("metric_<id>", "boolean")]
    assert documented("Rows of tasks") == [*of_tasks[:-1], ("<series id>", "number")]
    assert {kind for _, kind in of_attempts + of_tasks} <= set(get_args(Kind))
