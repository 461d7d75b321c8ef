"""What an attempt asks for before it goes on, and gives back afterwards."""

from __future__ import annotations

from pathlib import Path

from agentcompass.models.limits import Limits, ModelLimits
from agentcompass.models.request import ExecutionSettings
from agentcompass.models.run_info import PolicyChange
from agentcompass.runtime.deliver import Done, Park, Stale
from agentcompass.runtime.ports import NotYet
from agentcompass.store import control
from tests.support.delivering import a_lab
from tests.support.store_runs import decide
from tests.support.turnstile import FakeLimits

ONE_ENVIRONMENT = {"limits": Limits(concurrent_environments=1)}
ONE_ATTEMPT = {"task_concurrency": 1}
CALLS = {"limits": Limits(model=ModelLimits(concurrent_calls=2))}


def test_a_run_without_limits_asks_nobody(tmp_path: Path) -> None:
    limits = FakeLimits()
    lab = a_lab(tmp_path, limits=limits)

    lab.executed()

    assert limits.did == []


class TestEnvironments:
    def test_one_has_a_slot_from_before_it_starts_until_after_it_is_closed(
        self, tmp_path: Path
    ) -> None:
        limits = FakeLimits()
        lab = a_lab(tmp_path, limits=limits, settings=ONE_ENVIRONMENT)

        lab.executed()

        assert limits.did == [("enter", "environment", 1), ("leave", "environment", 1, None)]

    def test_the_fresh_one_of_an_evaluation_comes_after_the_agents(self, tmp_path: Path) -> None:
        limits = FakeLimits()
        lab = a_lab(tmp_path, mode="fresh", limits=limits, settings=ONE_ENVIRONMENT)

        lab.executed()

        assert [what[0] for what in limits.did] == ["enter", "leave"] * 2

    def test_one_that_does_not_start_gives_its_slot_back(self, tmp_path: Path) -> None:
        limits = FakeLimits()
        lab = a_lab(
            tmp_path, environment={"start": "raise"}, limits=limits, settings=ONE_ENVIRONMENT
        )

        lab.executed()

        assert limits.did[-1][:2] == ("leave", "environment")

    def test_the_keeper_does_not_end_what_waits_for_its_turn(self, tmp_path: Path) -> None:
        limits = FakeLimits([NotYet(0.01)])
        lab = a_lab(tmp_path, limits=limits, settings=ONE_ENVIRONMENT)

        lab.executed()

        in_setup = [at_s for at_s, why in lab.keeper.deadlines if why == "setup_timeout"]
        assert in_setup[1] == float("inf")
        assert in_setup[0] < in_setup[2] < float("inf")

    def test_a_stop_while_it_waits_ends_the_attempt_without_a_result(self, tmp_path: Path) -> None:
        limits = FakeLimits([NotYet(3_600.0)])
        lab = a_lab(tmp_path, limits=limits, settings=ONE_ENVIRONMENT)
        lab.keeper.stop_at = "setup_timeout"

        assert isinstance(lab.deliver(), Stale)
        assert lab.ran("agent") == 0


class TestCalls:
    def test_the_agent_gets_a_gate_and_the_telemetry_says_how_long_it_waited(
        self, tmp_path: Path
    ) -> None:
        limits = FakeLimits()
        lab = a_lab(tmp_path, limits=limits, settings=CALLS)

        result = lab.executed()

        assert result.meta.harness["telemetry"]["slot_wait_s"] == 0.0  # type: ignore[index,call-overload]

    def test_without_a_limit_the_telemetry_is_the_harnesss_own(self, tmp_path: Path) -> None:
        result = a_lab(tmp_path, limits=FakeLimits()).executed()

        assert "slot_wait_s" not in str(result.meta.harness)


class TestAttemptsOfARun:
    def test_one_is_counted_while_it_executes(self, tmp_path: Path) -> None:
        limits = FakeLimits()
        lab = a_lab(tmp_path, limits=limits, settings=ONE_ATTEMPT)

        lab.executed()

        assert limits.did == [("begin", 1), ("end", 1)]

    def test_one_too_many_parks_without_a_mark_and_without_its_lease(self, tmp_path: Path) -> None:
        limits = FakeLimits(is_full=True)
        lab = a_lab(tmp_path, limits=limits, settings=ONE_ATTEMPT)

        parked = lab.deliver()

        assert parked == Park(60.0, "run_is_full", 1)
        assert lab.leases.held == {}
        assert lab.ran("agent") == 0
        assert not list(lab.run_dir.glob("details/running/*"))

    def test_one_that_is_over_already_does_not_wait_for_a_place(self, tmp_path: Path) -> None:
        limits = FakeLimits()
        lab = a_lab(tmp_path, limits=limits, settings=ONE_ATTEMPT)
        lab.executed()
        limits.is_full = True

        assert lab.deliver() == Done("was_published")

    def test_whatever_becomes_of_a_message_the_next_one_is_woken(self, tmp_path: Path) -> None:
        limits = FakeLimits()
        lab = a_lab(tmp_path, limits=limits, settings=ONE_ATTEMPT)
        lab.leases.held[lab.key()] = "somebody"

        assert isinstance(lab.deliver(), Park)
        assert limits.did == [("end", 1)]

    def test_so_does_a_message_of_a_closed_leg(self, tmp_path: Path) -> None:
        limits = FakeLimits()
        lab = a_lab(tmp_path, limits=limits, settings=ONE_ATTEMPT)
        decide(lab.run_dir, "pause")

        assert isinstance(lab.deliver(), Stale)
        assert limits.did == [("end", 1)]

    def test_if_nobody_counts_the_attempt_executes(self, tmp_path: Path) -> None:
        lab = a_lab(tmp_path, limits=FakeLimits(is_reachable=False), settings=ONE_ATTEMPT)

        lab.executed()

        assert lab.ran("agent") == 1

    def test_a_resume_may_change_how_many(self, tmp_path: Path) -> None:
        limits = FakeLimits()
        lab = a_lab(tmp_path, limits=limits, settings=ONE_ATTEMPT)
        _resume_with(lab.run_dir, task_concurrency=7)

        lab.deliver(leg=2)

        assert limits.did == [("begin", 7), ("end", 7)]


def _resume_with(run_dir: Path, **settings: object) -> None:
    policy = PolicyChange(execution=ExecutionSettings.model_validate(settings))
    record = decide(run_dir, "pause").model_copy(
        update={"leg": 2, "action": "resume", "policy": policy}
    )
    control.append(run_dir, lambda _: record)
