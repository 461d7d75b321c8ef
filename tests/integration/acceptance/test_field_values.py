"""Field reports P09, P10, A20: whatever a plug-in reports, the run is written, read and reported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.integration.acceptance.plugins import __name__ as plugins
from tests.support.laboratory import Evaluated, Laboratory, Wanted, strict_json
from tests.support.tree import paths_in

pytestmark = pytest.mark.integration

NUMBERS: Final = {"float64": 0.5, "int64": 2, "decimal": 0.25, "large": 1e30}
REFUSED: Final = ("nan", "inf", "minus_inf", "datetime", "path", "set", "enum", "bytes", "text")


def check_every_file_is_strict_json(run_dir: Path) -> None:
    for path in paths_in(run_dir, "**/*.json"):
        strict_json(path.read_bytes())
    for line in (run_dir / "tasks.jsonl").read_bytes().splitlines():
        strict_json(line)


def metrics_of(run: Evaluated, task_id: str) -> Any:
    return run.results()[task_id, 1]["metrics"]


@pytest.fixture(scope="module")
def observed(laboratory: Laboratory) -> Evaluated:
    """One task for each kind of value that people observe."""
    pytest.importorskip("numpy")
    tasks = (*NUMBERS, *REFUSED, "lambda", "bool")
    return laboratory.run("odd", Wanted(tasks=tasks, benchmark=f"{plugins}:OddObservations"))


def test_p09_non_finite_numbers_anywhere_leave_strict_json_and_a_good_run(
    laboratory: Laboratory,
) -> None:
    run = laboratory.run("p09", Wanted(harness=f"{plugins}:OddAgent"))

    assert run.said.code == 0, run.said
    check_every_file_is_strict_json(run.directory)
    result = run.results()["t0", 1]
    odd = {"scalar": None, "list": [None, None, 1], "dict": {"deep": {"value": None}}}
    assert result["meta"]["benchmark"]["odd"] == odd
    assert result["meta"]["harness"]["telemetry"] == odd
    assert result["trajectory"]["steps"][0]["observation"] == {"seen": [None, {"x": None}]}


def test_p09_a_non_finite_observation_is_none_and_says_so(observed: Evaluated) -> None:
    for task_id in ("nan", "inf", "minus_inf"):
        result = observed.results()[task_id, 1]
        assert result["metrics"] == {"correct": True}
        (issue,) = result["issues"]
        assert (issue["code"], issue["severity"]) == ("invalid_observation", "error")
        assert "quality" in issue["message"]
    check_every_file_is_strict_json(observed.directory)


def test_p09_a_fresh_process_reads_it_all(observed: Evaluated) -> None:
    script = "import sys; from agentcompass.cli.main import main; sys.exit(main(sys.argv[1:]))"
    argv = [sys.executable, "-c", script, "report", str(observed.directory), "--json"]
    done = subprocess.run(argv, capture_output=True, check=False)

    assert strict_json(done.stdout)["report"] == strict_json(
        (observed.directory / "metrics.json").read_bytes()
    )
    assert done.returncode == observed.said.code == 1


def test_p10_number_like_observations_count_and_others_are_named(observed: Evaluated) -> None:
    found = {task_id: metrics_of(observed, task_id) for task_id in NUMBERS}
    assert {task_id: metrics["quality"] for task_id, metrics in found.items()} == NUMBERS
    assert metrics_of(observed, "bool") == {"correct": True, "quality": 1}
    for task_id in REFUSED:
        assert metrics_of(observed, task_id) == {"correct": True}
        assert "quality" in observed.results()[task_id, 1]["error"]


def test_p10_what_cannot_be_written_costs_its_own_attempt_only(observed: Evaluated) -> None:
    result = observed.results()["lambda", 1]
    messages = " ".join(issue["message"] for issue in result["issues"])
    assert "quality" in messages
    assert "extra.verdict.raw[0]" in messages
    assert result["final_answer"] == "lambda"
    counts = observed.counts()
    assert counts["total"] == counts["evaluated"] == len(observed.results())
    assert counts["error"] == len(REFUSED) + 1


def test_p10_the_agents_finished_work_is_kept_for_the_evaluation(observed: Evaluated) -> None:
    (directory,) = paths_in(observed.directory, "details/*/lambda--*/attempt-1")
    snapshot = strict_json((directory / "checkpoint.json").read_bytes())["evaluation"]

    assert snapshot["run_completed"] is True
    assert snapshot["run_result"]["final_answer"] == "lambda"


def test_a20_an_agent_that_did_nothing_is_marked_by_itself(laboratory: Laboratory) -> None:
    tasks = [f"t{number}" for number in range(5)]

    run = laboratory.run("a20", Wanted(tasks=tasks, agent={"t2": "empty"}))

    counts = run.counts()
    assert (counts["total"], counts["evaluated"]) == (5, 5)
    assert metrics_of(run, "t2") == {"correct": False}
    assert run.series["correct.native@1"]["value"] == 0.8
    assert run.said.code in {0, 1}
