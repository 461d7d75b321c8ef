"""What a hostile week has in store: each act takes a world and dice of its own."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from redis.exceptions import RedisError

from tests.support.chaos_ledger import Ledger
from tests.support.chaos_world import (
    CLOCKS,
    Member,
    World,
    forget_everything,
    kill_only,
    kill_tree,
    restart_redis,
)
from tests.support.processes import children, command_lines, descendants, freeze, thaw
from workers.broker.keys import PARKED, PARKED_MESSAGES, UNACKED, UNACKED_INDEX
from workers.broker.lanes import lanes_of
from workers.settings import CONTROL_QUEUE

Act: TypeAlias = Callable[[World, random.Random], None]
BUSY_WITHIN_S: Final = 5.0
LEASE_S: Final = float(CLOCKS["AGENTCOMPASS_LEASE_S"])


def somebody_busy(world: World, dice: random.Random) -> Member:
    """Return a worker that executes something; after a while of idleness, anybody."""
    give_up_at = time.monotonic() + BUSY_WITHIN_S
    while time.monotonic() < give_up_at:
        executing = Ledger.read(world.ledger).open_pids()
        busy = [one for one in world.workers() if executing & {one.process.pid, *_all_of(one)}]
        if busy:
            return dice.choice(busy)
        time.sleep(0.1)
    return dice.choice(world.workers())


def pull_the_plug_of_a_worker(world: World, dice: random.Random) -> None:
    victim = somebody_busy(world, dice)
    kill_tree(world, victim, f"{victim.kind} worker and all of its tree killed")
    world.hire(victim.kind)


def kill_a_workers_main_process(world: World, dice: random.Random) -> None:
    victim = somebody_busy(world, dice)
    kill_only(world, victim, f"{victim.kind} worker killed, its agents' processes left alone")
    world.hire(victim.kind)


def kill_a_celery_process(world: World, dice: random.Random) -> None:
    """Its supervisor starts it again."""
    victim = somebody_busy(world, dice)
    own = children(victim.process.pid)
    if own:
        _kill(world, f"a Celery process of a {victim.kind} worker", dice.choice(own))


def kill_children(world: World, dice: random.Random) -> None:
    """Pool children, processes of lone attempts, commands of agents, their supervisors."""
    somebody_busy(world, dice)
    own = [pid for worker in world.workers() for pid in _below(worker)]
    for pid in dice.sample(own, min(2, len(own))):
        _kill(world, "a child", pid)


def hang_up_politely(world: World, dice: random.Random) -> None:
    """SIGTERM, as a rolling restart does; its successor comes before it has left."""
    victim = somebody_busy(world, dice)
    pids = [victim.process.pid, *_all_of(victim)]
    # It may begin something until it has heard, and hands that back when its grace is over.
    world.done(f"{victim.kind} worker told to stop", pids, until=math.inf)
    victim.process.terminate()
    world.members.remove(victim)
    world.hire(victim.kind)


def stop_the_world_of_a_worker(world: World, dice: random.Random) -> None:
    """A machine that stands still for longer than its leases last, and then goes on."""
    victim = somebody_busy(world, dice)
    pids = freeze(victim.process.pid)
    began = time.time()
    time.sleep(1.5 * LEASE_S)
    thaw(pids)
    world.done(f"{victim.kind} worker stood still", pids, until=began)


def restart_redis_with_its_data(world: World, dice: random.Random) -> None:
    restart_redis(world, dice.uniform(0.1, 3.0), empty=False)


def restart_redis_without_its_data(world: World, dice: random.Random) -> None:
    restart_redis(world, dice.uniform(0.1, 1.5), empty=True)


def flush(world: World, dice: random.Random) -> None:
    forget_everything(world)


def lose_messages(world: World, dice: random.Random) -> None:
    """Wherever they are: in a lane, delivered, parked; and callbacks that wait."""
    lost = 0
    for lane in lanes_of("default"):
        waiting: Any = world.redis.lrange(lane, 0, -1)
        for message in dice.sample(waiting, len(waiting) // 3):
            lost += int(str(world.redis.lrem(lane, 1, message)))
    for index, messages in ((UNACKED_INDEX, UNACKED), (PARKED, PARKED_MESSAGES)):
        names: Any = world.redis.hkeys(messages)
        for name in dice.sample(names, len(names) // 2):
            world.redis.hdel(messages, name)
            world.redis.zrem(index, name)
            lost += 1
    lost += int(str(world.redis.delete(CONTROL_QUEUE)))
    world.done(f"{lost} messages lost")


def triple_messages(world: World, dice: random.Random) -> None:
    """Half of the copies as another sender's, half as the broker's own restoring makes them."""
    count = 0
    for lane in lanes_of("default"):
        waiting: Any = world.redis.lrange(lane, 0, -1)
        delivered: Any = [json.dumps(json.loads(each)[0]) for each in world.redis.hvals(UNACKED)]
        for message in dice.sample(waiting, len(waiting) // 2) + delivered:
            for _ in range(2):
                copy = message if dice.random() < 0.5 else _with_new_tag(message)
                world.redis.lpush(lane, copy)
                count += 1
        if waiting or delivered:
            break  # the copies of delivered ones go to one lane
    world.done(f"{count} copies of messages sent")


def lose_a_coordinator(world: World, dice: random.Random) -> None:
    """SIGKILL for one of those that attend the run; another one comes."""
    victim = dice.choice(world.coordinators())
    kill_tree(world, victim, f"an attached {victim.kind} killed")
    world.hire(victim.kind)


ACTS: Final[tuple[Act, ...]] = (
    pull_the_plug_of_a_worker,
    kill_a_workers_main_process,
    kill_a_celery_process,
    kill_children,
    hang_up_politely,
    stop_the_world_of_a_worker,
    restart_redis_with_its_data,
    restart_redis_without_its_data,
    flush,
    lose_messages,
    triple_messages,
    lose_a_coordinator,
)
CHEAP: Final[tuple[Act, ...]] = (
    kill_children,
    kill_a_celery_process,
    lose_messages,
    triple_messages,
)


@dataclass(frozen=True, slots=True)
class Scene:
    """One act and when it is due: once this part of all attempts has results."""

    act: Act
    due: float
    seed: int

    def play(self, world: World) -> None:
        with suppress(RedisError):  # what the previous scene left
            self.act(world, random.Random(self.seed))


def week(seed: int, rounds: int = 1) -> list[Scene]:
    """Return the scenes of a seed: every act, the cheap ones twice, in an order of its own."""
    dice = random.Random(seed)
    acts = [*ACTS, *CHEAP] * rounds
    dice.shuffle(acts)
    dues = sorted(dice.uniform(0.03, 0.8) for _ in acts)
    return [Scene(act, due, dice.randrange(2**32)) for act, due in zip(acts, dues, strict=True)]


def _with_new_tag(message: bytes | str) -> str:
    content: dict[str, Any] = json.loads(message)
    content["properties"]["delivery_tag"] = str(uuid.uuid4())
    return json.dumps(content)


def _kill(world: World, name: str, pid: int) -> None:
    words = " ".join(command_lines().get(pid, ["gone"]))[:60]
    began, pids = time.time(), [pid, *descendants(pid)]
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    world.done(f"{name} killed ({words})", pids, until=began)


def _below(worker: Member) -> list[int]:
    return [pid for child in children(worker.process.pid) for pid in descendants(child)]


def _all_of(worker: Member) -> list[int]:
    return descendants(worker.process.pid)
