"""Field reports A14, A15, A17, A20, A26, U06: from the execution of attempts to the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import JsonValue

from agentcompass.metrics.failures import failure_table
from agentcompass.metrics.text.summary import render_terminal
from agentcompass.metrics.usage import Total
from agentcompass.models.base import JsonObject
from agentcompass.models.plan import Deadlines, RetryPolicy
from agentcompass.models.request import ComponentSpec
from agentcompass.models.task import TaskSpec
from agentcompass.store import attempts
from tests.builders import an_outcome
from tests.support.delivering import Lab, a_lab
from tests.support.measured import covers, ended, finalized
from tests.support.paid import TOKENS
from tests.support.store_runs import begin, decide, publish

SHORT = Deadlines(setup_timeout_s=5, run_timeout_s=5, collect_timeout_s=5, evaluate_timeout_s=0.3)


def tasks(count: int) -> list[TaskSpec]:
    return [TaskSpec(task_id=f"t{n}", question="?", ground_truth=f"t{n}") for n in range(count)]


def executed(lab: Lab) -> Lab:
    for task_id in lab.offsets:
        lab.deliver(task_id)
    return lab


def test_a14_nan_is_no_observation_and_poisons_no_mean(tmp_path: Path) -> None:
    scores = {"*": "score:1", "t9": "score:nan"}
    lab = executed(a_lab(tmp_path, task_specs=tasks(10), evaluator=scores))

    report = finalized(lab.run_dir).report

    quality = report.series[1]
    assert (quality.series_id, quality.value) == ("quality.native@1", 1.0)
    assert covers(quality.counts) == (10, 9, 1, 0, 1)
    assert lab.codes("t9") == ["error evaluate invalid_observation"]
    json.loads((lab.run_dir / "metrics.json").read_bytes(), parse_constant=pytest.fail)


def test_a15_one_bad_case_fails_alone_in_a_worker_that_does_them_all(tmp_path: Path) -> None:
    together = executed(a_lab(tmp_path, task_specs=tasks(10), evaluator={"t3": "raise"}))
    report = finalized(together.run_dir).report
    alone = {}
    for spec in tasks(10):
        folder = tmp_path / spec.task_id
        folder.mkdir()
        lab = a_lab(folder, task_specs=[spec], evaluator={"t3": "raise"})
        alone[spec.task_id] = lab.executed(spec.task_id).metrics

    assert {each: together.result(each).metrics for each in alone} == alone
    assert covers(report.headline.counts) == (10, 9, 1, 0, 1)
    assert [each for each in alone if together.codes(each)] == ["t3"]


def test_a17_every_surface_shows_one_number_and_one_coverage(tmp_path: Path) -> None:
    lab = executed(a_lab(tmp_path, evaluator={"t1": "raise"}))
    done = finalized(lab.run_dir)

    metrics = json.loads((lab.run_dir / "metrics.json").read_bytes())
    assert metrics == json.loads(done.report.model_dump_json())
    for text in (
        (lab.run_dir / "summary.md").read_text(encoding="utf-8"),
        render_terminal(done.report, done.context),
    ):
        assert "1.0000 (official, over 1 of 2 tasks)" in text
        assert "0.5000 to 1.0000 over all 2 tasks" in text


def test_a20_an_agent_that_leaves_nothing_costs_nobody_else(tmp_path: Path) -> None:
    lab = executed(a_lab(tmp_path, task_specs=tasks(5), agent={"t2": "empty"}))

    report = finalized(lab.run_dir).report

    assert covers(report.headline.counts) == (5, 5, 0, 0, 0)
    assert report.headline.value == 0.8


def test_a26_a_verdict_after_a_time_out_counts_and_so_does_the_error(tmp_path: Path) -> None:
    scores = {"t0": "score:0.8", "t1": "score:0.4"}
    lab = executed(a_lab(tmp_path, agent={"t0": "partial"}, evaluator=scores))

    quality = finalized(lab.run_dir).report.series[1]

    assert quality.value == pytest.approx(0.6)
    assert covers(quality.counts) == (2, 2, 0, 0, 1)


def test_a26_a_grader_that_hangs_is_no_zero_and_the_agents_work_is_kept(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, evaluator={"t0": "hang"}, deadlines=SHORT)
    lab.deliver("t0")
    other = ended("t1", 1, an_outcome(correct=True))  # nobody's grader is in a hurry
    publish(lab.run_dir, begin(lab.run_dir, "t1", token=other.token), other)

    report = finalized(lab.run_dir).report

    assert (report.headline.value, covers(report.headline.counts)) == (1.0, (2, 1, 1, 0, 1))
    table = failure_table(report)
    assert table is not None
    assert [(each.code, each.culprit) for each in table.causes] == [
        ("evaluation_timeout", "evaluator")
    ]
    kept = attempts.load_checkpoint(lab.attempt_dir("t0"))
    assert kept is not None
    assert kept.evaluation is not None
    assert kept.evaluation.run_completed


class TestU06:
    def lab(self, tmp_path: Path) -> Lab:
        """One attempt that needed two retries, and one that another run paid for."""
        script: JsonValue = {"t0": "busy|busy|ok"}
        params: JsonObject = {"ledger": str(tmp_path / "ledger"), "script": script}
        agent = ComponentSpec(id="tests.support.paid:PaidAgent", params=params)
        retry = RetryPolicy(max_retries=2)
        lab = a_lab(tmp_path, retry=retry, plan_update={"harness": agent})
        lab.deliver("t0")
        taken = ended("t1", 1, an_outcome(correct=True), usage={"prompt_tokens": TOKENS})
        view = begin(lab.run_dir, "t1", token=taken.token)
        publish(lab.run_dir, view, taken.model_copy(update={"reused_from": "run-0"}))
        return lab

    def test_what_was_incurred_accepted_and_wasted_is_told_apart(self, tmp_path: Path) -> None:
        lab = self.lab(tmp_path)

        usage = finalized(lab.run_dir).context.highlights.usage

        assert usage is not None
        assert usage.incurred.input_tokens == Total(value=300, known=3, of=3)
        assert usage.accepted.input_tokens == Total(value=200, known=2, of=2)
        assert usage.wasted.input_tokens == Total(value=200, known=2, of=2)
        assert (lab.result("t0").retry_count, lab.ran("agent")) == (2, 3)

    def test_an_unknown_price_is_no_zero_anywhere(self, tmp_path: Path) -> None:
        lab = self.lab(tmp_path)
        done = finalized(lab.run_dir)

        usage = done.context.highlights.usage
        assert usage is not None
        assert usage.incurred.cost_usd == Total(value=None, known=0, of=3)
        rows = (lab.run_dir / "summary.md").read_text(encoding="utf-8").splitlines()
        (row,) = [row for row in rows if "incurred by this run" in row]
        assert row == "| incurred by this run | 3 | 300 | – | – |"

    def test_what_a_rerun_replaced_was_paid_as_well(self, tmp_path: Path) -> None:
        lab = self.lab(tmp_path)
        decide(lab.run_dir, "rerun", ("t0", 1))
        lab.deliver("t0", leg=2)
        assert attempts.is_published(lab.run_dir, "t0", 1, 2)

        usage = finalized(lab.run_dir).context.highlights.usage

        assert usage is not None
        assert (usage.incurred.input_tokens.value, usage.wasted.input_tokens.value) == (400, 300)
