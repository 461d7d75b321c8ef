"""Exit codes 0 to 3, and that whatever was not done is said: in the report and by the code."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.integration.acceptance.plugins import __name__ as plugins
from tests.support.cluster import PATIENCE_S, Cluster, Said, until
from tests.support.laboratory import Laboratory, Wanted, strict_json
from tests.support.stubs import executions

pytestmark = pytest.mark.integration


def text_of(laboratory: Laboratory, run_dir: Path) -> Said:
    return laboratory.cluster.call("report", str(run_dir))


def test_0_all_is_well_and_warnings_and_wrong_answers_are_no_errors(
    laboratory: Laboratory,
) -> None:
    run = laboratory.run("exit-0", Wanted(agent={"t0": "wrong", "t1": "warning"}))

    assert run.said.code == 0, run.said
    assert text_of(laboratory, run.directory).code == 0


@pytest.mark.parametrize(
    ("agent", "evaluator", "told"),
    [
        ({"t1": "error"}, {}, "stub_failed"),
        ({"t1": "fatal"}, {}, "stub_failed"),
        ({}, {"t1": "raise"}, "evaluate_failed"),
        ({}, {"t1": "no_observation"}, "no observation"),
        ({}, {"t1": "bad_observation"}, "invalid_observation"),
    ],
    ids=["error", "fatal", "no verdict", "no observation", "bad observation"],
)
def test_1_what_went_wrong_is_a_line_of_the_report(
    laboratory: Laboratory,
    request: pytest.FixtureRequest,
    agent: dict[str, str],
    evaluator: dict[str, str],
    told: str,
) -> None:
    name = request.node.callspec.id.replace(" ", "-")

    run = laboratory.run(f"exit-1-{name}", Wanted(agent=agent, evaluator=evaluator))

    assert run.said.code == 1, run.said
    said = text_of(laboratory, run.directory)
    assert said.code == 1
    assert [line for line in said.out.splitlines() if told in line and "t1" in line], said


def test_1_an_invalid_task_is_a_line_of_the_report(laboratory: Laboratory) -> None:
    wanted = Wanted(tasks=("unprepared", "t0"), benchmark=f"{plugins}:Needy")

    run = laboratory.run("exit-1-invalid", wanted)

    assert run.said.code == 1
    said = text_of(laboratory, run.directory)
    assert [line for line in said.out.splitlines() if "unprepared" in line and "setup" in line]
    assert "No official value" in said.out


def test_2_an_unknown_parameter_is_refused_by_name(laboratory: Laboratory) -> None:
    run = laboratory.run("exit-2", Wanted(), "--param", "harness.speed=1")

    assert run.said.code == 2
    assert "harness.speed is unknown" in run.said.err
    assert not (laboratory.cluster.results / "exit-2").exists()


@pytest.fixture
def cancelled(cluster: Cluster) -> Path:
    """A run that Ctrl-C ended in its second attempt."""
    laboratory = Laboratory(cluster)
    wanted = Wanted(tasks=("t0", "t1", "t2"), agent={"t1": "hang"})
    process = cluster.start("run", *laboratory.flags("c", wanted), "--workers", "1", "--json")
    until(lambda: executions(laboratory.ledger("c"), "agent", "t1") == 1, "t1 is at work")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=PATIENCE_S) == 3
    return cluster.the_run()


def test_3_attempts_that_never_ran_are_lines_and_no_zeros(
    cluster: Cluster, cancelled: Path
) -> None:
    events = [json.loads(line) for line in log_lines(cluster) if line.startswith("{")]
    assert [(each["event"], each["state"]) for each in events] == [
        ("started", "running"),
        ("finished", "cancelled"),
    ]
    report: Any = events[-1]["report"]
    assert report["extra"]["partial"] == {"status": "cancelled", "missing": 2}
    assert f"agentcompass resume {cancelled}" in cluster.log_text()
    said = cluster.call("report", str(cancelled))
    assert said.code == 3
    for task_id in ("t1", "t2"):
        (line,) = [line for line in said.out.splitlines() if line.strip().startswith(task_id)]
        assert "attempt 1 has no result" in line
    status = cluster.call("status", str(cancelled), "--json")
    assert (status.code, strict_json(status.out.encode())["state"]) == (3, "cancelled")


def log_lines(cluster: Cluster) -> list[str]:
    return cluster.log_text().splitlines()


def test_1_a_damaged_run_has_findings(laboratory: Laboratory) -> None:
    run = laboratory.run("exit-check", Wanted())
    assert laboratory.cluster.call("check", str(run.directory)).code == 0

    run.result_files()[0].write_bytes(b'{"half": ')
    found = laboratory.cluster.call("check", str(run.directory))
    report = laboratory.cluster.call("report", str(run.directory))

    assert (found.code, report.code) == (1, 2)
    assert str(run.result_files()[0]) in found.out + report.err
    assert len(report.err.splitlines()) <= 5
