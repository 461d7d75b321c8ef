"""The thin loop around the decisions, with a broker in memory and a clock that waits for nobody."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from itertools import pairwise
from pathlib import Path

import pytest

from agentcompass.coordinator.control import cancel, pause
from agentcompass.coordinator.planning.start import SealedRun
from agentcompass.coordinator.ports import LiveWorker
from agentcompass.coordinator.snapshot import Snapshot, all_work, breadth_first, look_at
from agentcompass.coordinator.watching.decide import WatchPolicy
from agentcompass.coordinator.watching.watch import watch
from agentcompass.errors import UsageError
from agentcompass.models.request import ExecutionSettings
from agentcompass.models.run_info import ControlRecord, PolicyChange, RunInfo
from agentcompass.store import control, sealed
from tests.builders import T0, a_result, an_issue
from tests.support.coordinated import World
from tests.support.store_runs import execute, write_report
from tests.unit.coordinator.conftest import RunMaker

POLICY = WatchPolicy(lease_s=30, look_every_s=60, finalize_after_s=10)


def dispatched(world: World, run: SealedRun) -> None:
    work = list(breadth_first(all_work(run.address.run_dir, run.info)))
    world.queue.dispatch(run.address, 1, work, len(work))


def finish(world: World, run: SealedRun, *ids: str) -> None:
    """Play the workers and the callback."""
    for task_id in ids:
        execute(run.address.run_dir, task_id)
    world.queue.lanes.clear()
    write_report(run.address.run_dir)


def end_of(world: World, run: SealedRun) -> str:
    return watch([run], world.tools(POLICY))[run.address.run_dir]


def test_it_ends_when_the_callback_has_made_the_report(make_run: RunMaker) -> None:
    world, run = World(), make_run("a", "b")
    dispatched(world, run)
    world.clock.plans.append((20, lambda: finish(world, run, "a", "b")))

    assert end_of(world, run) == "finished"
    assert world.queue.resent == []
    assert world.clock.at_s < 25
    assert (world.observer.seen[0].done, world.observer.seen[-1].done) == (0, 2)


@pytest.mark.parametrize(("slow", "is_rare"), [({3}, False), ({3, 4}, True), (range(999), True)])
def test_one_look_that_stood_still_is_not_the_price_of_the_next(
    make_run: RunMaker, monkeypatch: pytest.MonkeyPatch, *, slow: Collection[int], is_rare: bool
) -> None:
    world, run, looked_s = World(), make_run("a"), []
    dispatched(world, run)
    world.clock.plans.append((100, lambda: finish(world, run, "a")))

    def look(run_dir: Path, info: RunInfo) -> Snapshot:
        looked_s.append(world.clock.at_s)
        world.clock.at_s += 1.0 if len(looked_s) in slow else 0.0
        return look_at(run_dir, info)

    monkeypatch.setattr("agentcompass.coordinator.watching.watch.look_at", look)

    assert end_of(world, run) == "finished"
    gaps_s = [later - earlier for earlier, later in pairwise(looked_s)]
    assert (max(gaps_s) > 20) == is_rare


def test_a_lost_message_is_sent_again_with_the_ids_that_it_had(make_run: RunMaker) -> None:
    world, run = World(), make_run("a", "b")
    dispatched(world, run)
    lost = world.queue.lanes.pop(1).attempt
    world.clock.plans.append((200, lambda: finish(world, run, "a", "b")))

    assert end_of(world, run) == "finished"
    assert world.queue.resent == [(run.address.ref, 1, [lost])]


def test_a_broker_that_forgot_the_run_gets_everything_again_after_one_lease(
    make_run: RunMaker,
) -> None:
    world, run = World(), make_run("a", "b")
    dispatched(world, run)
    world.clock.plans.append((100, world.queue.forget_everything))
    world.clock.plans.append((400, lambda: finish(world, run, "a", "b")))

    end_of(world, run)

    assert [len(sent) for _, _, sent in world.queue.resent] == [2]


def test_an_unreachable_broker_is_told_once_and_nothing_is_sent(make_run: RunMaker) -> None:
    world, run = World(), make_run("a")
    dispatched(world, run)
    world.queue.is_reachable = False
    world.clock.plans.append((1_000, lambda: finish(world, run, "a")))

    assert end_of(world, run) == "finished"
    assert len([line for line in world.observer.lines if "does not answer" in line]) == 1
    assert world.queue.resent == []


def test_each_outage_is_told_and_its_end_too(make_run: RunMaker) -> None:
    world, run = World(), make_run("a")
    dispatched(world, run)

    def be(*, reachable: bool) -> None:
        world.queue.is_reachable = reachable

    for at_s in (0, 600):
        world.clock.plans.append((at_s, lambda: be(reachable=False)))
        world.clock.plans.append((at_s + 300, lambda: be(reachable=True)))
    world.clock.plans.append((1_500, lambda: finish(world, run, "a")))

    assert end_of(world, run) == "finished"
    told = [line for line in world.observer.lines if "broker" in line]
    assert [("again" in line) for line in told] == [False, True, False, True]
    assert world.queue.resent == []


def test_a_complete_run_whose_callback_was_lost_is_finalized(make_run: RunMaker) -> None:
    world, run = World(), make_run("a")
    execute(run.address.run_dir, "a")
    tools = world.tools(POLICY)

    def finalize(run_dir: object) -> None:
        world.finalized.append(run.address.run_dir)
        write_report(run.address.run_dir)

    object.__setattr__(tools, "finalize", finalize)

    assert watch([run], tools)[run.address.run_dir] == "finished"
    assert world.finalized == [run.address.run_dir]
    assert world.clock.at_s >= 10


def test_without_the_plugin_that_a_report_needs_a_worker_is_asked(make_run: RunMaker) -> None:
    world, run = World(), make_run("a")
    execute(run.address.run_dir, "a")
    tools = world.tools(POLICY)

    def cannot(run_dir: object) -> None:
        raise UsageError("no plug-in")

    object.__setattr__(tools, "finalize", cannot)
    world.clock.plans.append((40, lambda: write_report(run.address.run_dir)))

    watch([run], tools)

    assert world.queue.finalized[0] == (run.address.ref, 1)


def test_a_cancelled_run_is_left_when_nothing_executes_any_more(make_run: RunMaker) -> None:
    world, run = World(), make_run("a")
    dispatched(world, run)
    world.queue.leased.add((0, 1))
    cancel_at = (10, lambda: cancel(run.address.run_dir, reason="", by="me", at=T0))
    world.clock.plans += [cancel_at, (50, world.queue.leased.clear)]

    assert end_of(world, run) == "stopped"
    assert 50 <= world.clock.at_s < 55
    assert world.queue.resent == []


def test_a_pause_lets_what_executes_come_to_its_end(make_run: RunMaker) -> None:
    world, run = World(), make_run("a", "b")
    dispatched(world, run)
    world.queue.leased.add((0, 1))
    pause(run.address.run_dir, reason="", by="me", at=T0)
    world.clock.plans.append((500, world.queue.leased.clear))

    assert end_of(world, run) == "stopped"
    assert world.clock.at_s >= 500


def test_the_error_policy_pauses_the_run_and_says_so(make_run: RunMaker) -> None:
    world, run = World(), make_run("a", "b")
    dispatched(world, run)
    policy = PolicyChange(execution=ExecutionSettings(max_failed_tasks=1))
    resumed = ControlRecord(leg=2, action="resume", at=T0, policy=policy)
    control.append(run.address.run_dir, lambda _: resumed)
    execute(run.address.run_dir, "a", 1, a_result("a", issues=[an_issue()], leg=2))

    assert end_of(world, run) == "stopped"
    assert control.legs(run.address.run_dir).state == "paused"
    assert "paused: 1 tasks failed, max_failed_tasks is 1" in world.observer.lines
    assert world.queue.nudged == [run.address.ref]


def test_a_run_that_cannot_be_read_any_more_ends_alone(make_run: RunMaker) -> None:
    world, gone, good = World(), make_run("a"), make_run("a")
    shutil.rmtree(gone.address.run_dir / "control")
    execute(good.address.run_dir, "a")
    write_report(good.address.run_dir)

    ends = watch([gone, good], world.tools(POLICY))

    assert ends == {gone.address.run_dir: "failed", good.address.run_dir: "finished"}


def test_who_is_asked_to_leave_leaves_the_run_as_it_is(make_run: RunMaker) -> None:
    world, run = World(), make_run("a")
    dispatched(world, run)
    world.clock.plans.append((5, lambda: setattr(world, "is_asked", True)))

    assert end_of(world, run) == "left"
    assert sealed.load(run.address.run_dir).status == "running"


def test_lost_attempts_are_not_sent_to_workers_of_other_folders_only(make_run: RunMaker) -> None:
    world, run = World(), make_run("a")
    dispatched(world, run)
    world.queue.lanes.clear()
    world.queue.living = [LiveWorker("w@far", "0" * 8, "/mnt/theirs")]
    world.clock.plans.append((2_000, world.queue.living.clear))
    world.clock.plans.append((4_000, lambda: finish(world, run, "a")))

    assert end_of(world, run) == "finished"

    assert len(world.queue.resent) == 1
    assert sum("other folders" in line for line in world.observer.lines) == 1
