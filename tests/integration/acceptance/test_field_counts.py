"""Field reports A01, A03, A04, A22, C10, Q06, Q07: every number says what it covers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pytest

from agentcompass.metrics.per_task.reducers import reducer
from tests.integration.acceptance.plugins import __name__ as plugins
from tests.support.cluster import PATIENCE_S, report_of
from tests.support.laboratory import Laboratory, Wanted

pytestmark = pytest.mark.integration

HEADLINE: Final = "correct.native@1"


def named(count: int) -> Sequence[str]:
    return [f"t{number}" for number in range(count)]


def test_a01_an_error_stays_in_the_denominator(laboratory: Laboratory) -> None:
    wanted = Wanted(tasks=named(10), agent={"t8": "wrong"}, evaluator={"t9": "raise"})

    run = laboratory.run("a01", wanted)

    assert run.said.code == 1
    assert run.counts() == {
        "total": 10, "evaluated": 9, "error": 1, "unavailable": 1, "invalidated": 0,
    }  # fmt: skip
    assert run.series[HEADLINE]["value"] == pytest.approx(8 / 9)
    text = laboratory.cluster.call("report", str(run.directory)).out
    for shown in (text, (run.directory / "summary.md").read_text()):
        (said,) = [line for line in shown.splitlines() if "0.8889" in line and "official, " in line]
        assert "over 9 of 10 tasks" in said


def test_a03_a_surviving_subset_is_never_the_score(laboratory: Laboratory) -> None:
    agent = {"*": "fatal", "t7": "ok"}

    run = laboratory.run("a03", Wanted(tasks=named(20), agent=agent))

    assert run.said.code == 1
    assert report_of(run.directory)["evaluation_failed"] is True
    assert [series["value"] for series in run.series.values()] == [None, None]
    headline = run.series[HEADLINE]
    assert (headline["reference_value"], headline["counts"]["invalidated"]) == (1.0, 19)
    text = laboratory.cluster.call("report", str(run.directory)).out
    assert "No official value" in text
    assert "1 of 20" in text


def test_a04_pass_at_k_of_fewer_than_k_is_no_value(laboratory: Laboratory) -> None:
    wanted = Wanted(
        tasks=("a", "b"), k=4, agent={"a": "wrong"}, evaluator={"a:4": "no_observation"}
    )

    run = laboratory.run("a04", wanted)

    series = run.series["correct.pass@4"]
    assert (series["value"], series["counts"]["unavailable"]) == (1.0, 1)
    assert series["counts"]["evaluated"] == 1
    assert run.series["correct.avg@4"]["counts"]["unavailable"] == 1
    assert reducer("pass").reduce((False, False, False, None), 4) is None


@pytest.fixture
def three_workers(laboratory: Laboratory) -> Iterator[None]:
    workers = [laboratory.cluster.worker(pool, concurrency=1) for pool in ("prefork", "threads")]
    yield
    for worker in workers:
        worker.terminate()
        worker.wait(timeout=PATIENCE_S)


@pytest.mark.usefixtures("three_workers")
def test_a22_a_summary_tells_each_task_or_why_not_however_many_workers(
    laboratory: Laboratory,
) -> None:
    wanted = Wanted(tasks=named(3), agent={"t1": "wrong"}, evaluator={"t2": "raise"})

    one = laboratory.run_with("a22-one", wanted, "--workers", "1")
    three = laboratory.run("a22-three", wanted)

    assert (one.said.code, three.said.code) == (1, 1)
    assert report_of(one.directory) == report_of(three.directory)
    for run in (one, three):
        right, wrong, none = run.task_rows()
        assert ("1.0000" in right, "0.0000" in wrong) == (True, True)
        assert "unavailable" in none
        assert "evaluate_failed" in none


def test_c10_tasks_that_cannot_be_prepared_fail_alone(laboratory: Laboratory) -> None:
    bad = ("gpu", "image", "unprepared")
    wanted = Wanted(
        tasks=(*bad, *named(7)), benchmark=f"{plugins}:Needy", environment="host_process"
    )

    run = laboratory.run("c10", wanted)

    counts = run.counts()
    assert (counts["total"], counts["evaluated"], counts["invalidated"]) == (10, 7, 3)
    assert {task_id: run.codes()[task_id] for task_id in bad} == {
        task_id: ["setup_failed"] for task_id in bad
    }
    errors = {task_id: run.results()[task_id, 1]["error"] for task_id in bad}
    assert ("GPU" in errors["gpu"], "no/such:image" in errors["image"]) == (True, True)
    assert "the data set lacks a column" in errors["unprepared"]
    assert (run.executed(), run.executed("gpu")) == (7, 0)


def test_q06_a_resume_with_nothing_to_do_and_with_one_attempt_both_end(
    laboratory: Laboratory,
) -> None:
    run = laboratory.run("q06", Wanted(tasks=named(2)))
    first = (run.directory / "metrics.json").read_bytes()
    (run.directory / "metrics.json").unlink()

    nothing = laboratory.cluster.call("resume", str(run.directory), *laboratory.broker)
    after_nothing = (run.directory / "metrics.json").read_bytes()
    one = laboratory.cluster.call("resume", str(run.directory), "--rerun", "t1", *laboratory.broker)

    assert (nothing.code, one.code) == (0, 0), f"{nothing}{one}"
    assert first == after_nothing == (run.directory / "metrics.json").read_bytes()
    assert (run.executed("t0"), run.executed("t1")) == (1, 2)


def test_q07_whatever_a_header_does_the_callback_runs(laboratory: Laboratory) -> None:
    agent = {"t1": "raise", "t4": "exit", "t7": "lambda"}
    no_verdict = dict.fromkeys(agent, "no_observation")

    run = laboratory.run("q07", Wanted(tasks=named(10), agent=agent, evaluator=no_verdict))

    counts = run.counts()
    assert run.said.code == 1
    assert (counts["total"], counts["evaluated"], counts["error"]) == (10, 7, 3)
    assert {t for t, codes in run.codes().items() if codes} == set(agent)
    assert laboratory.cluster.processes[0].poll() is None
