"""Everything real that the chaos test sets up, kills and sets up again."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from redis import Redis
from redis.exceptions import RedisError

from agentcompass.store.scan import scan
from tests.support.chaos_deeds import Deed
from tests.support.cluster import Cluster, until
from tests.support.processes import descendants, freeze

Pool = Literal["prefork", "threads"]
Role = Literal["resume", "watch"]

CLOCKS = {
    # A busy machine lets a process stand still for seconds by itself, and nobody did that.
    "AGENTCOMPASS_LEASE_S": "6",
    "AGENTCOMPASS_VISIBILITY_S": "6",
    "AGENTCOMPASS_TICK_S": "0.2",
    "AGENTCOMPASS_CONTROL_S": "0.5",
    "AGENTCOMPASS_GRACE_S": "1",
    "AGENTCOMPASS_STOP_S": "1",
}
LABEL = "CHAOS_LABEL"
SLOTS: Mapping[Pool, int] = {"prefork": 2, "threads": 4}


@dataclass(slots=True)
class Member:
    """A worker or a coordinator that is to be there until the end."""

    kind: Pool | Role
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def is_ready(self) -> bool:
        return self.process.poll() is not None or self.said.count(": ready") >= 2

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")


@dataclass
class World:
    """A cluster, who is to run in it, and what has happened to it."""

    cluster: Cluster
    label: str
    deeds: list[Deed] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)
    ended: list[tuple[str, int]] = field(default_factory=list)
    """(kind, exit code) of everyone who went by himself."""
    confused: list[str] = field(default_factory=list)
    """What coordinators said that ended by an error of theirs, which is code 1 as well."""
    frozen: bool = False
    """The run is over: whoever leaves now is not replaced."""

    def __post_init__(self) -> None:
        self.cluster.environment[LABEL] = self.label
        self._numbers = itertools.count()

    @property
    def redis(self) -> Redis:
        return self.cluster.broker.client

    @property
    def ledger(self) -> Path:
        return self.cluster.directory / "ledger.jsonl"

    @cached_property
    def run_dir(self) -> Path:
        return self.cluster.the_run()

    def done(self, name: str, pids: Iterable[int] = (), **more: object) -> None:
        deed = Deed(time.time(), name, frozenset(pids), **more)  # type: ignore[arg-type]
        self.deeds.append(deed)

    def results(self) -> int:
        return scan(self.run_dir).published

    def hire(self, kind: Pool | Role) -> Member:
        member = Member(kind, self._started(kind), self.cluster.logs[-1])
        self.members.append(member)
        return member

    def of(self, *kinds: Pool | Role) -> list[Member]:
        return [member for member in self.members if member.kind in kinds]

    def workers(self) -> list[Member]:
        return self.of("prefork", "threads")

    def coordinators(self) -> list[Member]:
        return self.of("resume", "watch")

    def supervise(self) -> None:
        """Start again whoever has ended, as a service manager or a patient user would."""
        for member in list(self.members):
            code = member.process.poll()
            if code is None:
                continue
            self.members.remove(member)
            self.ended.append((member.kind, code))
            if "Traceback" in member.said and member.kind in {"resume", "watch"}:
                self.confused.append(f"a {member.kind} ended with {code}: {member.said}")
            if not self.is_over(member, code):
                self.hire(member.kind)

    def is_over(self, member: Member, code: int) -> bool:
        return self.frozen or (member.kind in {"resume", "watch"} and code in {0, 1})

    def let_go(self, member: Member) -> None:
        """Nobody expects him any more."""
        self.members.remove(member)
        member.process.wait()

    def dismiss_workers(self) -> list[int]:
        """Let all workers end in peace; return their exit codes."""
        self.frozen = True
        for member in self.workers():
            until(lambda m=member: m.is_ready, "it hears")  # type: ignore[misc]
            member.process.terminate()
        return [member.process.wait(timeout=40) for member in self.workers()]

    def command(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a module of ours with its output in a log of its own."""
        directory = self.cluster.directory / f"place-{next(self._numbers)}"
        directory.mkdir()
        log = directory / "log"
        self.cluster.logs.append(log)
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                env=self.cluster.environment,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.cluster.processes.append(process)
        return process

    def _started(self, kind: Pool | Role) -> subprocess.Popen[bytes]:
        broker = ("--broker", self.cluster.broker.url)
        match kind:
            case "resume" | "watch":
                arguments: Sequence[str] = (kind, str(self.run_dir), *broker)
            case pool:
                name = f"{pool}-{next(self._numbers)}"
                arguments = (
                    "worker", *broker, "--results-dir", str(self.cluster.results), "--pool", pool,
                    "--concurrency", str(SLOTS[pool]), "--name", name,
                )  # fmt: skip
        return self.command("agentcompass.cli.main", *arguments)


def kill_tree(world: World, member: Member, name: str) -> None:
    """Pull the plug: the worker and everything that came of it, at one stroke."""
    began, pids = time.time(), freeze(member.process.pid)
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    world.done(name, pids, until=began)
    world.let_go(member)


def kill_only(world: World, member: Member, name: str) -> None:
    """SIGKILL to the worker's main process alone; who else dies, dies of the design."""
    began, pids = time.time(), [member.process.pid, *descendants(member.process.pid)]
    member.process.kill()
    world.done(name, pids, until=began)
    world.let_go(member)


def restart_redis(world: World, away_s: float, *, empty: bool) -> None:
    broker = world.cluster.broker
    began = time.time()
    broker.kill()
    if empty:
        shutil.rmtree(broker.directory)
    time.sleep(away_s)
    broker.start()
    name = f"redis away for {away_s:.1f} s" + (", came back empty" if empty else "")
    world.deeds.append(Deed(began, name, until=time.time(), forgets=True))


def forget_everything(world: World) -> None:
    began = time.time()
    with suppress(RedisError):
        world.redis.flushall()
    world.done("FLUSHALL", forgets=True, until=began)
