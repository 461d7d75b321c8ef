"""A hostile week in a minute, from its seed to what is wrong afterwards."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.support import chaos_plugins
from tests.support.chaos_acts import Scene, week
from tests.support.chaos_deeds import Deed
from tests.support.chaos_ledger import Ledger
from tests.support.chaos_reader import Reader
from tests.support.chaos_world import CLOCKS, World
from tests.support.cluster import Cluster
from tests.support.processes import marked_with

K: Final = 3
SCENE_S: Final = 15.0
"""A scene that waits for progress for longer than this is played all the same."""
END_S: Final = 150.0
DRAINED_S: Final = 90.0
"""More than the minute after which a message whose wake-up got lost looks for itself."""
PLUGINS: Final = chaos_plugins.__name__
PARTS: Final = ("benchmark", "harness")


@dataclass
class Outcome:
    """What a week left behind."""

    seed: int
    wrong: list[str]
    deeds: list[Deed]
    executions: int
    seconds: float
    played: int = 0
    ended: list[tuple[str, int]] = field(default_factory=list)
    where: Path = Path()


@dataclass(frozen=True, slots=True)
class Plan:
    """The run that is to live through it."""

    seed: int
    attempts: int = 300
    strategy: str = "avg"
    rounds: int = 1
    """How often everything happens."""

    def flags(self, cluster: Cluster, *, label: str, pace: float) -> list[str]:
        """Return the flags of `agentcompass run`."""
        both = {"seed": self.seed, "pace": pace, "ledger": str(_ledger(cluster)), "label": label}
        params = {f"{part}.{name}": value for part in PARTS for name, value in both.items()}
        params["benchmark.tasks"] = self.attempts // K
        given = [f"{name}={json.dumps(value)}" for name, value in params.items()]
        return [
            *("--benchmark", f"{PLUGINS}:ChaosBenchmark", "--harness", f"{PLUGINS}:ChaosHarness"),
            *("--model", "m", "-k", str(K), "--strategy", self.strategy),
            *("--results-dir", str(cluster.results)),
            *(word for text in given for word in ("--param", text)),
        ]


@dataclass(frozen=True, slots=True)
class Calm:
    """What the same run leaves in a kind world."""

    metrics: bytes
    executed: frozenset[tuple[str, int]]


def live_through(directory: Path, plan: Plan) -> Outcome:
    """Let one run live through the week of its seed; return what is wrong with it then."""
    began = time.monotonic()
    label = f"chaos-{uuid.uuid4().hex}"
    calm = undisturbed(directory / "calm", plan)
    with Cluster(_made(directory / "hostile"), CLOCKS) as cluster:
        world = World(cluster, label)
        _begin(world, plan)
        with Reader(world.run_dir) as reader:
            played = _suffer(world, plan)
            is_over = _await_the_end(world)
        wrong = [f"not read as it should be: {text}" for text in reader.broken]
        wrong += [] if reader.read else ["nothing was read meanwhile"]
        wrong += _judged(world, calm) if is_over else _stuck(world)
        ledger = Ledger.read(_ledger(cluster))
        run_dir = world.run_dir
    left = marked_with([label, *ledger.tokens])
    wrong += [f"still runs: {line}" for line in left]
    return Outcome(
        plan.seed, wrong, world.deeds, len(ledger.agents), time.monotonic() - began, played,
        world.ended, run_dir,
    )  # fmt: skip


def undisturbed(directory: Path, plan: Plan) -> Calm:
    """Do the same run in a kind world, at a faster pace."""
    with Cluster(_made(directory), CLOCKS) as cluster:
        flags = plan.flags(cluster, label="calm", pace=0.0)
        said = cluster.call("run", *flags, "--pool", "threads", "--workers", "8")
        metrics = cluster.the_run() / "metrics.json"
        assert metrics.exists(), said
        ledger = Ledger.read(_ledger(cluster))
        assert len(ledger.agents) == len(ledger.attempts), "the calm run was not calm"
        return Calm(metrics.read_bytes(), frozenset(ledger.attempts))


def _ledger(cluster: Cluster) -> Path:
    return cluster.directory / "ledger.jsonl"


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True)
    return directory


def _suffer(world: World, plan: Plan) -> int:
    """Return how many scenes were played before the run was complete."""
    played = 0
    for scene in week(plan.seed, plan.rounds):
        _await_cue(world, scene, plan.attempts)
        if world.results() >= plan.attempts:
            break
        scene.play(world)
        played += 1
        world.supervise()
    return played


def _begin(world: World, plan: Plan) -> None:
    """Kill the coordinator at every stage of its start, then let four of them at it at once."""
    world.cluster.broker.start()
    broker = ("--broker", world.cluster.broker.url)
    flags = plan.flags(world.cluster, label=world.label, pace=1.0)
    _dies(world, "planning", "run", *flags, *broker)
    world.hire("prefork"), world.hire("threads")
    for when in ("before", f"during:{plan.attempts // 4}", "after"):
        _dies(world, when, "resume", str(world.run_dir), *broker)
    for _ in range(2):
        world.hire("resume"), world.hire("watch")


def _dies(world: World, when: str, *arguments: str) -> None:
    process = world.command("tests.support.chaos_coordinator", when, *arguments)
    code = process.wait(timeout=60)
    assert code == -9, f"{when}: {code}\n{world.cluster.log_text()}"
    world.done(f"coordinator killed, {when}", [process.pid])


def _await_cue(world: World, scene: Scene, attempts: int) -> None:
    give_up_at = time.monotonic() + SCENE_S
    while time.monotonic() < give_up_at:
        if world.results() >= scene.due * attempts:
            return
        world.supervise()
        time.sleep(0.1)


def _await_the_end(world: World) -> bool:
    give_up_at = time.monotonic() + END_S
    while world.coordinators():
        if time.monotonic() > give_up_at:
            return False
        world.supervise()
        time.sleep(0.1)
    return True


def _judged(world: World, calm: Calm) -> Iterator[str]:
    run_dir = world.run_dir
    if (run_dir / "metrics.json").read_bytes() != calm.metrics:
        yield "metrics.json is not that of the undisturbed run"
    checked = world.cluster.call("check", str(run_dir), "--deep")
    if checked.code != 0:
        yield f"check: {checked}"
    yield from world.confused
    yield from _drained(world)
    before = len(Ledger.read(world.ledger).agents)
    again = world.cluster.call("resume", str(run_dir), "--broker", world.cluster.broker.url)
    if again.code not in {0, 1} or "nothing to do" not in again.err:
        yield f"a last resume: {again}"
    codes = world.dismiss_workers()
    if any(codes):
        yield f"workers ended with {codes}"
    ledger = Ledger.read(world.ledger)
    if len(ledger.agents) != before:
        yield "the last resume executed something"
    yield from ledger.problems(world.deeds, calm.executed)


def _stuck(world: World) -> Iterator[str]:
    yield f"it did not end within {END_S:g} s: {world.results()} results, held {_held(world)}"
    yield f"Redis: {world.cluster.broker.process and world.cluster.broker.process.poll()}"


def _drained(world: World) -> Iterator[str]:
    """Whatever copies are still on their way come to nothing, soon."""
    give_up_at = time.monotonic() + DRAINED_S
    while left := _held(world):
        if time.monotonic() > give_up_at:
            yield f"the broker still holds {left}"
            return
        time.sleep(0.2)


def _held(world: World) -> list[str]:
    if not world.cluster.broker.answers():
        return ["nothing: Redis is away"]
    names = ("unacked", "ac:parked", *(f"default.lane{number}" for number in range(8)), "control")
    found = [name for name in names if world.redis.exists(name)]
    return found + [
        str(name) for name in world.redis.keys("ac:*:lease:*") if b"waiters" not in name
    ]
