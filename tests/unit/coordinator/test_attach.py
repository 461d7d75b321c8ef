"""How an attached coordinator leaves: what is on disk afterwards, and what it waited for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from agentcompass.coordinator.planning.start import SealedRun
from agentcompass.coordinator.ports import Queue
from agentcompass.coordinator.watching.attach import Attached, attend
from agentcompass.errors import RecordCorrupt
from agentcompass.store import control, sealed
from tests.support.coordinated import World
from tests.support.store_runs import a_run, execute, write_report
from tests.unit.coordinator.conftest import RunMaker


@dataclass
class FakeSession:
    queue: Queue
    is_embedded: bool = True
    broken: str = ""
    stopped: list[str] = field(default_factory=list)

    def stop_workers(self) -> None:
        self.stopped.append("workers")

    def problem(self) -> str:
        return self.broken


@dataclass
class FakeStop:
    world: World
    is_interrupt: bool = False
    is_urgent: bool = False

    def is_asked(self) -> bool:
        return self.world.is_asked


@dataclass
class Scene:
    run: SealedRun
    world: World = field(default_factory=World)
    is_interrupt: bool = False
    is_urgent: bool = False
    is_embedded: bool = True
    broken: str = ""
    partial: list[Path] = field(default_factory=list)

    def play(self, asked_at_s: float | None = None) -> str:
        """Attend the run; somebody asks us to leave at that moment."""
        world = self.world
        self.session = FakeSession(world.queue, self.is_embedded, self.broken)
        if asked_at_s is not None:
            world.clock.plans.append((asked_at_s, lambda: setattr(world, "is_asked", True)))
        stop = FakeStop(world, self.is_interrupt, self.is_urgent)
        attached = Attached(self.session, world.tools(), stop, self.partial.append)
        return attend([self.run], attached)[self.run.address.run_dir]

    @property
    def state(self) -> str:
        return sealed.load(self.run.address.run_dir).status


def test_a_run_that_ends_by_itself_leaves_nothing_to_do(make_run: RunMaker) -> None:
    scene = Scene(make_run("a"))
    execute(scene.run.address.run_dir, "a")
    write_report(scene.run.address.run_dir)

    assert scene.play() == "finished"
    assert (scene.partial, scene.session.stopped) == ([], [])


class TestCtrlC:
    def test_it_cancels_and_waits_until_nothing_executes(self, make_run: RunMaker) -> None:
        scene = Scene(make_run("a"), is_interrupt=True)
        scene.world.queue.leased.add((0, 1))
        scene.world.clock.plans.append((8, scene.world.queue.leased.clear))

        scene.play(asked_at_s=3)

        assert scene.state == "cancelled"
        assert 8 <= scene.world.clock.at_s < 9
        assert scene.world.queue.nudged == [scene.run.address.ref]
        assert scene.partial == [scene.run.address.run_dir]

    def test_what_never_stops_is_not_waited_for_for_ever(self, make_run: RunMaker) -> None:
        scene = Scene(make_run("a"), is_interrupt=True)
        scene.world.queue.leased.add((0, 1))

        scene.play(asked_at_s=3)

        assert 33 <= scene.world.clock.at_s < 35
        assert scene.state == "cancelled"

    def test_a_second_one_does_not_wait(self, make_run: RunMaker) -> None:
        scene = Scene(make_run("a"), is_interrupt=True, is_urgent=True)
        scene.world.queue.leased.add((0, 1))

        scene.play(asked_at_s=3)

        assert scene.world.clock.at_s < 4
        assert scene.partial == [scene.run.address.run_dir]

    def test_without_a_broker_the_record_is_enough(self, make_run: RunMaker) -> None:
        scene = Scene(make_run("a"), is_interrupt=True)
        scene.world.queue.is_reachable = False

        scene.play(asked_at_s=3)

        assert scene.state == "cancelled"


class TestSigterm:
    def test_an_embedded_run_is_interrupted_and_its_workers_are_stopped(
        self, make_run: RunMaker
    ) -> None:
        scene = Scene(make_run("a"))

        scene.play(asked_at_s=3)

        assert scene.state == "interrupted"
        assert scene.session.stopped == ["workers"]
        assert scene.partial == [scene.run.address.run_dir]

    def test_a_run_with_its_own_broker_goes_on_without_us(self, make_run: RunMaker) -> None:
        scene = Scene(make_run("a"), is_embedded=False)

        assert scene.play(asked_at_s=3) == "left"
        assert scene.state == "running"
        assert control.control_records(scene.run.address.run_dir) == []
        assert "the run goes on without this coordinator" in scene.world.observer.lines


def test_local_workers_that_end_by_themselves_interrupt_the_run(make_run: RunMaker) -> None:
    scene = Scene(make_run("a"), broken="the local workers ended with exit code 1")

    scene.play(asked_at_s=1)

    info = sealed.load(scene.run.address.run_dir)
    assert (info.status, info.error) == ("interrupted", "the local workers ended with exit code 1")


def test_a_run_that_was_cancelled_from_elsewhere_gets_its_partial_report(
    make_run: RunMaker,
) -> None:
    from agentcompass.coordinator.control import cancel

    scene = Scene(make_run("a"))
    at = scene.world.clock.now()
    cancel(scene.run.address.run_dir, reason="", by="me", at=at)

    assert scene.play() == "stopped"
    assert scene.partial == [scene.run.address.run_dir]


def test_a_partial_report_that_cannot_be_made_costs_no_other_run_its_own(
    make_run: RunMaker, tmp_path: Path
) -> None:
    first = make_run("a")
    again = tmp_path / "again"
    again.mkdir()
    info_dir = a_run(again, "a")
    info = sealed.load_sealed(info_dir)
    second = SealedRun(replace(first.address, run_dir=info_dir), info)
    world, asked = World(), list[Path]()

    def write(run_dir: Path) -> None:
        asked.append(run_dir)
        if len(asked) == 1:
            raise RecordCorrupt([(run_dir / "result.json", "torn")])

    world.clock.plans.append((1, lambda: setattr(world, "is_asked", True)))
    attend(
        [first, second], Attached(FakeSession(world.queue), world.tools(), FakeStop(world), write)
    )

    assert asked == [first.address.run_dir, second.address.run_dir]
    assert [line for line in world.observer.lines if "no partial report" in line]
