"""Which request evaluates a run again, and what becomes of each attempt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agentcompass.coordinator.evaluating import Wish, needs_agents, request_for
from agentcompass.coordinator.planning.start import start
from agentcompass.coordinator.refusal import Refusal
from agentcompass.coordinator.reuse.choose import Chosen, Where, choose
from agentcompass.coordinator.reuse.decide import Rules, TaskFacts, decide
from agentcompass.coordinator.reuse.missing import missing_lines, refuse_missing_agents
from agentcompass.errors import RunNotFound, UsageError
from agentcompass.models.base import JsonObject
from agentcompass.models.plan import EvaluationMode
from agentcompass.models.request import AttemptPlan, ExecutionSettings, ReuseSettings
from agentcompass.models.result import AttemptOutcome
from agentcompass.models.run_info import ControlRecord, PolicyChange
from agentcompass.store import attempts, control, sealed
from agentcompass.store.names import namespace_of
from agentcompass.store.root import open_root
from tests.builders import T0, a_contract, a_task, an_issue
from tests.support.reusing import new_request, nobody, planned, the_source
from tests.support.store_runs import a_reserved_run, a_run

RIGHT = AttemptOutcome(metrics={"correct": True})
FAILED = AttemptOutcome(metrics={}, issues=(an_issue(),))
SKIPPED = AttemptOutcome(metrics={}, skipped=True)


def rules(k: int, *, strategy: str = "avg", keep_missing: bool = False) -> Rules:
    return Rules(
        plan=AttemptPlan(k=k, strategy=strategy),
        contract=a_contract(),
        only_evaluate=True,
        keep_missing=keep_missing,
    )


class TestRequest:
    def test_it_is_the_sources_own_with_the_changes(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path, k=2)
        changes: JsonObject = {
            "benchmark": {"params": {"strict": True}},
            "execution": {"evaluate_timeout_s": 5.0},
        }

        request = request_for(run_dir, Wish(changes))

        assert request.benchmark.params == {"strict": True}
        assert request.execution.attempts.k == 2
        assert request.execution.evaluate_timeout_s == 5
        assert request.reuse is not None
        assert (request.reuse.only_evaluate, request.reuse.run_id) == (True, str(run_dir))
        assert request.output.run_id is None

    def test_a_policy_that_was_changed_since_is_in_force(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        changed = PolicyChange(execution=ExecutionSettings(evaluate_timeout_s=7))
        control.append(
            run_dir,
            lambda current: ControlRecord(
                leg=current + 1, action="resume", reason="", by="me", at=T0, policy=changed
            ),
        )

        assert request_for(run_dir, Wish({})).execution.evaluate_timeout_s == 7

    @pytest.mark.parametrize(
        ("changes", "field"),
        [
            ({"model": {"id": "other"}}, "model.id"),
            ({"harness": {"params": {"x": 1}}}, "harness.params.x"),
            ({"execution": {"attempts": {"k": 3}}}, "execution.attempts.k"),
            ({"execution": {"run_timeout_s": 9.0}}, "execution.run_timeout_s"),
        ],
    )
    def test_what_is_the_agents_business_cannot_change(
        self, tmp_path: Path, changes: JsonObject, field: str
    ) -> None:
        with pytest.raises(Refusal, match=f"evaluate cannot change {field}") as refused:
            request_for(a_run(tmp_path), Wish(changes))

        assert refused.value.code == "field_frozen"

    def test_where_agents_run_their_deadline_may_be_another(self, tmp_path: Path) -> None:
        changes: JsonObject = {"execution": {"run_timeout_s": 9.0}}

        request = request_for(a_run(tmp_path), Wish(changes, run_missing_agents=True))

        assert request.execution.run_timeout_s == 9
        assert needs_agents(request)

    def test_a_field_that_is_none_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"unknown field benchmark\.parms"):
            request_for(a_run(tmp_path), Wish({"benchmark": {"parms": {}}}))

    def test_there_has_to_be_a_planned_run(self, tmp_path: Path) -> None:
        with pytest.raises(RunNotFound):
            request_for(tmp_path, Wish({}))
        with pytest.raises(Exception, match="planned"):
            request_for(a_reserved_run(tmp_path), Wish({}))


class TestDecision:
    def test_what_the_agent_left_is_evaluated_whatever_the_verdict_was(self) -> None:
        facts = TaskFacts("t", outcomes={1: RIGHT, 2: FAILED}, snapshots={1: "", 2: "", 3: ""})

        choice = decide(facts, rules(3))

        assert choice.deeds == ("evaluate",) * 3
        assert (choice.code, choice.missing) == ("evaluated_again", ())

    def test_attempts_with_nothing_left_are_named_with_the_reason(self) -> None:
        facts = TaskFacts(
            "t", outcomes={1: FAILED, 2: FAILED}, snapshots={1: "the agent did not run cleanly"}
        )

        choice = decide(facts, rules(2))

        assert choice.deeds == ("run", "run")
        assert choice.missing == (
            (1, "the agent did not run cleanly"),
            (2, "there is no snapshot"),
        )

    def test_a_damaged_record_leaves_nothing_to_evaluate(self) -> None:
        facts = TaskFacts("t", malformed="x is torn", outcomes={1: RIGHT}, snapshots={1: ""})

        assert decide(facts, rules(1)).missing == ((1, "x is torn"),)

    def test_a_task_that_the_source_never_began_is_missing(self) -> None:
        choice = decide(TaskFacts("t", is_there=False), rules(1, keep_missing=True))

        assert choice.missing == ((1, "the source has nothing of it"),)

    def test_old_results_are_kept_one_by_one(self) -> None:
        facts = TaskFacts("t", outcomes={1: FAILED, 2: RIGHT}, snapshots={2: ""})

        choice = decide(facts, rules(2, keep_missing=True))

        assert (choice.deeds, choice.state, choice.missing) == (("take", "evaluate"), "running", ())

    def test_a_task_of_which_everything_is_kept_is_filed_at_once(self) -> None:
        choice = decide(TaskFacts("t", outcomes={1: FAILED}), rules(1, keep_missing=True))

        assert (choice.deeds, choice.state) == (("take",), "error")

    def test_an_attempt_that_the_strategy_did_not_need_may_be_needed_now(self) -> None:
        facts = TaskFacts("t", outcomes={1: RIGHT, 2: SKIPPED}, snapshots={1: ""})

        choice = decide(facts, rules(2, strategy="pass", keep_missing=True))

        assert choice.deeds == ("evaluate", "run")
        assert choice.missing == ((2, "the strategy did not need it"),)


class TestNewRun:
    def chosen(
        self, results_dir: Path, mode: EvaluationMode, *, run_missing_agents: bool = False
    ) -> tuple[Path, Chosen]:
        """Return a new run of two tasks of the source, each with one snapshot, and what it took."""
        source = the_source(results_dir)
        reuse = ReuseSettings(
            run_id=str(source), only_evaluate=True, run_missing_agents=run_missing_agents
        )
        request = new_request(reuse=reuse, run_id="again", benchmark="mended")
        specs = [a_task("whole"), a_task("errored")]
        with planned(request, specs, mode=mode) as plan:
            where = Where(results_dir, namespace_of(request), results_dir, nobody)
            found = choose(where, plan.new)
            whole = replace(plan, reuse=found.reuse)
            run = start(open_root(results_dir), whole, now=lambda: T0, announce=lambda _: None)
        return run.address.run_dir, found

    @pytest.mark.parametrize("mode", ["none", "fresh"])
    def test_snapshots_are_evaluated_in_the_mode_of_the_new_run(
        self, tmp_path: Path, mode: EvaluationMode
    ) -> None:
        run_dir, _ = self.chosen(tmp_path / "results", mode, run_missing_agents=True)

        for path in run_dir.glob("details/running/*/attempt-1"):
            checkpoint = attempts.load_checkpoint(path)
            assert checkpoint is not None
            assert checkpoint.evaluation is not None
            assert (checkpoint.evaluation.mode, checkpoint.evaluation.agent_from) == (
                *(mode, "source"),
            )
            assert (path / "retries/reused/result.json").exists()
        info = sealed.load(run_dir)
        assert info.reused_from is not None
        assert (info.reused_from.kind, info.reused_from.evaluations) == ("evaluate", 2)
        assert [each["field"] for each in info.reused_from.differences][:1] == ["benchmark.id"]

    def test_nothing_is_left_where_the_new_mode_needs_the_agents_environment(
        self, tmp_path: Path
    ) -> None:
        _, found = self.chosen(tmp_path / "results", "reuse")

        assert found.reuse is not None
        reasons = {why for _, number, why in found.reuse.missing if number == 1}
        assert reasons == {"its evaluation mode was none"}

    def test_attempts_with_nothing_left_are_refused_and_an_interrupted_planning_keeps_to_it(
        self, tmp_path: Path
    ) -> None:
        _, found = self.chosen(tmp_path / "results", "none")
        assert found.reuse is not None
        lines = list(missing_lines(found.reuse))

        assert lines[0] == "nothing to evaluate: whole attempt 2: there is no snapshot"
        with pytest.raises(Refusal, match="of 2 attempts nothing is left") as refused:
            refuse_missing_agents(found.reuse, ReuseSettings(only_evaluate=True))
        assert refused.value.code == "agents_missing"
        refuse_missing_agents(
            found.reuse, ReuseSettings(only_evaluate=True, run_missing_agents=True)
        )
        refuse_missing_agents(found.reuse, ReuseSettings())
