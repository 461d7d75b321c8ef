"""What a run has spent, from its results on disk, and when that is enough."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentcompass.coordinator.control import pause
from agentcompass.coordinator.planning.start import SealedRun
from agentcompass.coordinator.refusal import Refusal
from agentcompass.coordinator.snapshot import all_work, breadth_first
from agentcompass.coordinator.spending.account import Account
from agentcompass.coordinator.spending.bounds import Spent, wall_time_s, why_stop
from agentcompass.coordinator.watching.decide import WatchPolicy
from agentcompass.coordinator.watching.watch import watch
from agentcompass.models.base import JsonObject
from agentcompass.models.request import ExecutionSettings
from agentcompass.models.result import AttemptMeta, AttemptResult
from agentcompass.models.run_info import ControlAction, ControlRecord, PolicyChange
from agentcompass.store import attempts, control, filing, scan
from tests.builders import T0, a_result, an_issue
from tests.support.coordinated import World
from tests.support.store_runs import begin, decide, execute
from tests.unit.coordinator.conftest import RunMaker
from tests.unit.coordinator.test_resume import look


def settings(**fields: Any) -> ExecutionSettings:
    return ExecutionSettings.model_validate(fields)


def paid(result: AttemptResult, cost_usd: float = 1.0, tokens: int = 100) -> AttemptResult:
    telemetry: JsonObject = {
        "cost_usd": cost_usd,
        "usage": {"prompt_tokens": tokens, "completion_tokens": 0},
    }
    return result.model_copy(update={"meta": AttemptMeta(harness={"telemetry": telemetry})})


def spent(run: SealedRun, account: Account | None = None) -> Spent:
    run_dir = run.address.run_dir
    account = account or Account(run_dir, run.info)
    return account.spent(scan.scan(run_dir), T0)


class TestAccount:
    def test_it_adds_up_what_was_published(self, make_run: RunMaker) -> None:
        run = make_run("a", "b", "c")
        execute(run.address.run_dir, "a", 1, paid(a_result("a")))
        execute(run.address.run_dir, "b", 1, paid(a_result("b", issues=[an_issue()]), 2.0, 50))

        found = spent(run)

        assert (found.cost_usd, found.tokens, found.over, found.errors) == (3.0, 150, 2, 1)

    def test_each_result_is_read_once(
        self, make_run: RunMaker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = make_run("a", "b")
        account = Account(run.address.run_dir, run.info)
        execute(run.address.run_dir, "a", 1, paid(a_result("a")))
        spent(run, account)
        execute(run.address.run_dir, "b", 1, paid(a_result("b")))
        seen: list[int] = []
        real = Account._entry

        def counted(self: Account, task_dir: str, number: int) -> Any:
            seen.append(number)
            return real(self, task_dir, number)

        monkeypatch.setattr(Account, "_entry", counted)

        assert spent(run, account).cost_usd == 2.0
        assert len(seen) == 1

    def test_what_another_run_has_paid_for_is_not_spent(self, make_run: RunMaker) -> None:
        run = make_run("a")
        reused = paid(a_result("a", issues=[an_issue()])).model_copy(
            update={"reused_from": "earlier"}
        )
        execute(run.address.run_dir, "a", 1, reused)

        assert spent(run) == Spent()

    def test_of_an_evaluation_alone_only_the_verdict_is_this_runs_own(
        self, make_run: RunMaker
    ) -> None:
        run = make_run("a")
        evaluated = paid(a_result("a", issues=[an_issue()])).model_copy(
            update={"agent_from": "earlier"}
        )
        execute(run.address.run_dir, "a", 1, evaluated)

        found = spent(run)

        assert (found.cost_usd, found.over, found.errors) == (0.0, 1, 1)

    def test_discarded_tries_are_spent_too(self, make_run: RunMaker) -> None:
        run = make_run("a")
        view = begin(run.address.run_dir, "a", 1)
        attempts.keep_retry(view, 1, paid(a_result("a", issues=[an_issue()])), with_outputs=True)
        execute(run.address.run_dir, "a", 1, paid(a_result("a")))

        found = spent(run)

        assert (found.cost_usd, found.over, found.errors) == (2.0, 1, 0)

    def test_a_result_that_lost_its_place_stays_paid_and_is_no_error_any_more(
        self, make_run: RunMaker
    ) -> None:
        run = make_run("a")
        run_dir = run.address.run_dir
        account = Account(run_dir, run.info)
        execute(run_dir, "a", 1, paid(a_result("a", issues=[an_issue()])))
        assert spent(run, account).errors == 1
        record = decide(run_dir, "rerun", ("a", 1))
        filing.reopen(run_dir, "a", {1: record.leg})
        execute(run_dir, "a", 1, paid(a_result("a", leg=record.leg, token="u" * 16)))

        found = spent(run, account)

        assert (found.cost_usd, found.over, found.errors) == (2.0, 1, 0)

    def test_an_unknown_cost_is_in_no_sum_and_the_reason_says_how_many(
        self, make_run: RunMaker
    ) -> None:
        run = make_run("a", "b")
        execute(run.address.run_dir, "a", 1, a_result("a"))
        execute(run.address.run_dir, "b", 1, paid(a_result("b")))

        found = spent(run)

        assert (found.cost_usd, found.cost_unknown, found.tokens_unknown) == (1.0, 1, 1)
        assert why_stop(found, settings(budget={"cost_usd": 1})) == (
            "budget reached: 1 of 1 USD are spent, and what 1 attempts used is not known"
        )


SPENT = Spent(cost_usd=5.0, tokens=1_000, wall_time_s=60.0, over=40, errors=10)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, ""),
        ({"budget": {"cost_usd": 5.1, "tokens": 1_001, "wall_time_s": 61.0}}, ""),
        ({"budget": {"cost_usd": 5.0}}, "budget reached: 5 of 5 USD are spent"),
        ({"budget": {"tokens": 900}}, "budget reached: 1000 of 900 tokens are spent"),
        ({"budget": {"wall_time_s": 60.0}}, "budget reached: 60 of 60 s have passed"),
        ({"error_policy": {"max_errors": 11}}, ""),
        ({"error_policy": {"max_errors": 10}}, "10 attempts failed, max_errors is 10"),
        ({"error_policy": {"max_error_share": 0.26}}, ""),
        (
            {"error_policy": {"max_error_share": 0.25}},
            "10 of 40 attempts failed, max_error_share is 0.25",
        ),
        ({"error_policy": {"max_error_share": 0.25, "min_attempts": 41}}, ""),
    ],
)
def test_a_bound_is_reached_exactly_when_it_is_reached(
    fields: Mapping[str, Any], reason: str
) -> None:
    assert why_stop(SPENT, settings(**fields)) == reason


def test_no_error_is_not_too_large_a_share_of_nothing() -> None:
    policy = settings(error_policy={"max_error_share": 0.5, "min_attempts": 1})

    assert why_stop(Spent(), policy) == ""


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def a_record(action: ControlAction, seconds: float, leg: int = 1) -> ControlRecord:
    return ControlRecord(leg=leg, action=action, at=at(seconds))


class TestWallTime:
    def test_a_run_that_was_never_closed_goes_on_since_its_seal(self) -> None:
        assert wall_time_s(T0, [], {}, at(100)) == 100

    @pytest.mark.parametrize("action", ["pause", "cancel", "interrupt"])
    def test_while_it_was_closed_no_time_passes(self, action: ControlAction) -> None:
        records = [a_record(action, 10), a_record("resume", 1_000, leg=2)]

        assert wall_time_s(T0, records, {}, at(1_005)) == 15
        assert wall_time_s(T0, records[:1], {}, at(1_005)) == 10

    def test_a_leg_whose_coordinator_died_went_on_until_its_last_result(self) -> None:
        records = [a_record("resume", 1_000, leg=2)]

        assert wall_time_s(T0, records, {1: at(30)}, at(1_005)) == 35

    def test_clocks_that_disagree_give_no_negative_time(self) -> None:
        assert wall_time_s(at(50), [a_record("pause", 10)], {}, at(20)) == 0


def bounded(run: SealedRun, **fields: Any) -> None:
    policy = PolicyChange(execution=settings(**fields))
    resumed = ControlRecord(leg=2, action="resume", at=T0, policy=policy)
    control.append(run.address.run_dir, lambda _: resumed)


class TestWatching:
    def end_of(self, world: World, run: SealedRun) -> str:
        work = list(breadth_first(all_work(run.address.run_dir, run.info)))
        world.queue.dispatch(run.address, 2, work, len(work))
        return watch([run], world.tools(WatchPolicy(lease_s=30)))[run.address.run_dir]

    def test_a_spent_budget_pauses_the_run_with_its_reason(self, make_run: RunMaker) -> None:
        world, run = World(), make_run("a", "b")
        bounded(run, budget={"cost_usd": 1.0})
        execute(run.address.run_dir, "a", 1, paid(a_result("a", leg=2)))

        assert self.end_of(world, run) == "stopped"

        legs = control.legs(run.address.run_dir)
        assert (legs.state, legs.reason) == ("paused", "budget reached: 1 of 1 USD are spent")
        assert world.queue.nudged == [run.address.ref]

    def test_wall_time_is_noticed_without_any_result(self, make_run: RunMaker) -> None:
        world, run = World(), make_run("a")
        bounded(run, budget={"wall_time_s": 50.0})

        assert self.end_of(world, run) == "stopped"
        assert world.clock.at_s >= 50

    def test_a_run_that_is_complete_is_not_paused_for_what_it_cost(
        self, make_run: RunMaker
    ) -> None:
        world, run = World(), make_run("a")
        bounded(run, budget={"cost_usd": 1.0})
        execute(run.address.run_dir, "a", 1, paid(a_result("a", leg=2), 9.0))
        world.clock.plans.append((60, lambda: setattr(world, "is_asked", True)))

        self.end_of(world, run)

        assert control.legs(run.address.run_dir).state == "open"


class TestResume:
    def stopped(self, make_run: RunMaker) -> Path:
        run = make_run("a", "b")
        bounded(run, error_policy={"max_errors": 1})
        run_dir = run.address.run_dir
        execute(run_dir, "a", 1, paid(a_result("a", issues=[an_issue()], leg=2)))
        pause(run_dir, reason="1 attempts failed", by="me", at=T0)
        return run_dir

    def test_it_is_refused_while_the_bound_is_reached(self, make_run: RunMaker) -> None:
        run_dir = self.stopped(make_run)

        with pytest.raises(Refusal, match="max_errors is 1") as refused:
            look(run_dir)

        assert refused.value.code == "bound_reached"

    def test_with_a_raised_bound_it_goes_on(self, make_run: RunMaker) -> None:
        run_dir = self.stopped(make_run)

        ready = look(run_dir, changes={"execution": {"error_policy": {"max_errors": 2}}})

        assert ready.has_work

    def test_errors_that_are_run_again_do_not_count(self, make_run: RunMaker) -> None:
        assert look(self.stopped(make_run), rerun=["errored"]).has_work
