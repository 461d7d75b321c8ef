"""The embedded broker and its workers come with a coordinator and go with it, whatever ends it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import RedisError

from agentcompass.coordinator.ports import RunAddress
from agentcompass.errors import UsageError
from agentcompass.store.root import ResultsRoot
from tests.support.processes import command_lines
from tests.support.tree import paths_in
from tests.support.worker_lab import QUICK, ROOT_ID, ledger, pending, until
from workers.broker.client import connect
from workers.dispatch import RedisQueue
from workers.embedded import EmbeddedBroker, open_broker, open_brokers

pytestmark = pytest.mark.integration


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "base"


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    made = tmp_path / "results" / "run-1"
    (made / "control").mkdir(parents=True)
    (made / "ledger").touch()
    return made


class Coordinator:
    def __init__(self, run_dir: Path, base: Path) -> None:
        argv = [sys.executable, "-m", "tests.support.stub_coordinator"]
        paths = [str(run_dir), str(base), str(run_dir.parent)]
        env = os.environ | QUICK
        self.process = subprocess.Popen([*argv, *paths], stdout=subprocess.PIPE, env=env)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().decode().strip()
        self.run = RunAddress(ResultsRoot(run_dir.parent, ROOT_ID), run_dir.name, run_dir)

    def dispatch(self) -> None:
        with closing(RedisQueue(self.url)) as queue:
            queue.dispatch(self.run, 1, pending(2), 2)
            queue.finalize(self.run, 1)

    def processes(self) -> list[int]:
        """All of our own that came of it."""
        mark = str(self.run.run_dir.parents[1])
        found = command_lines().items()
        return [pid for pid, words in found if mark in " ".join(words) and pid != os.getpid()]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def coordinator(run_dir: Path, base: Path) -> Iterator[Coordinator]:
    script = {"count": 2, "0": {"seconds": 600, "do": "child"}, "1": {}}
    (run_dir / "script.json").write_text(json.dumps(script))
    made = Coordinator(run_dir, base)
    yield made
    made.close()
    until(lambda: not made.processes())


def answers(broker: EmbeddedBroker) -> bool:
    client = Redis.from_url(broker.url)
    try:
        return bool(client.ping())
    except RedisError:
        return False
    finally:
        client.close()


def test_it_serves_attempts_and_finalizers(coordinator: Coordinator) -> None:
    coordinator.dispatch()

    until(lambda: ledger(coordinator.run, "end 1") and ledger(coordinator.run, "finalize 1"))


def test_nothing_remains_of_a_coordinator_that_was_killed(
    coordinator: Coordinator, base: Path
) -> None:
    coordinator.dispatch()
    until(lambda: ledger(coordinator.run, "child"))
    child = int(ledger(coordinator.run, "child")[0].split()[1])

    coordinator.process.send_signal(signal.SIGKILL)

    until(lambda: not coordinator.processes())
    until(lambda: not Path(f"/proc/{child}").exists())
    until(lambda: not paths_in(base, "*-*"))
    until(lambda: not (coordinator.run.run_dir / ".broker").exists())


def test_nothing_remains_of_a_coordinator_that_was_told_to_stop(
    coordinator: Coordinator, base: Path
) -> None:
    coordinator.process.terminate()

    assert coordinator.process.wait(40) == 0
    assert coordinator.processes() == []
    assert paths_in(base, "*-*") == []


def test_a_worker_process_that_dies_is_started_again(coordinator: Coordinator) -> None:
    is_victim = re.compile(r"stub_worker.*attempts", re.DOTALL)

    def victims() -> list[int]:
        own, commands = coordinator.processes(), command_lines()
        return [pid for pid in own if is_victim.search(" ".join(commands.get(pid, ())))]

    until(victims)
    os.kill(min(victims()), signal.SIGKILL)
    coordinator.dispatch()

    until(lambda: ledger(coordinator.run, "end 1"))


def test_the_password_is_in_no_argument_and_in_no_file_that_others_read(
    run_dir: Path, base: Path
) -> None:
    with open_broker(run_dir, base=base) as broker:
        password = broker.url.split(":")[2].split("@")[0]

        assert not any(password in " ".join(words) for words in command_lines().values())
        assert password not in (run_dir / ".broker").read_text()
        assert {path.stat().st_mode & 0o077 for path in paths_in(base, "broker-*")} == {0}
        with (
            pytest.raises(RedisError),
            closing(connect(broker.url.replace(password, ""))) as anyone,
        ):
            anyone.ping()


def test_a_second_coordinator_joins_and_keeps_the_broker_alive(run_dir: Path, base: Path) -> None:
    first = open_broker(run_dir, base=base)
    second = open_broker(run_dir, base=base)
    assert (first.is_joined, second.is_joined) == (False, True)
    assert first.url == second.url

    first.close()
    time.sleep(1)
    assert answers(second)

    second.close()
    until(lambda: not answers(second))
    until(lambda: not (run_dir / ".broker").exists())


def test_a_coordinator_on_another_host_is_refused_by_name(
    run_dir: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_broker(run_dir, base=base):
        here = socket.gethostname()
        monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")

        with pytest.raises(UsageError, match=here):
            open_broker(run_dir, base=base)


def test_a_killed_server_comes_back_with_its_memory(run_dir: Path, base: Path) -> None:
    with open_broker(run_dir, base=base) as broker:
        client = Redis.from_url(broker.url)
        client.set("remembered", "yes")
        time.sleep(1.2)  # appendfsync everysec
        os.kill(client.info("server")["process_id"], signal.SIGKILL)
        client.close()

        until(lambda: answers(broker))

        again = Redis.from_url(broker.url)
        assert again.get("remembered") == b"yes"
        again.close()


def test_a_broker_whose_nanny_was_killed_is_gone_and_the_next_one_starts(
    run_dir: Path, base: Path
) -> None:
    first = open_broker(run_dir, base=base)
    nanny = first._nanny
    assert nanny is not None

    nanny.kill()
    until(lambda: not answers(first))
    with open_broker(run_dir, base=base) as second:
        assert not second.is_joined
        assert len(paths_in(base, "broker-*")) == 1
    first.close()


@pytest.fixture
def run_dirs(run_dir: Path) -> list[Path]:
    others = [run_dir.with_name(name) for name in ("run-2", "run-3")]
    for other in others:
        other.mkdir()
    return [run_dir, *others]


def test_one_broker_serves_several_runs_and_whoever_resumes_one_of_them_joins_it(
    run_dirs: list[Path], base: Path
) -> None:
    (served,) = open_brokers(run_dirs, base=base)
    second = open_broker(run_dirs[1], base=base)

    assert served.run_dirs == run_dirs
    assert (second.is_joined, second.url) == (True, served.broker.url)
    assert len({(run_dir / ".broker").read_text() for run_dir in run_dirs}) == 1

    served.broker.close()
    second.close()
    until(lambda: not any((run_dir / ".broker").exists() for run_dir in run_dirs))


def test_of_several_runs_those_that_have_a_broker_keep_it(run_dirs: list[Path], base: Path) -> None:
    with open_broker(run_dirs[1], base=base) as first:
        own, joined = open_brokers(run_dirs, base=base)
        (again,) = open_brokers(run_dirs[::2], base=base)

        assert (joined.broker.url, joined.run_dirs) == (first.url, [run_dirs[1]])
        assert own.run_dirs == again.run_dirs == run_dirs[::2]
        assert own.broker.url == again.broker.url != first.url
        for each in (own, joined, again):
            each.broker.close()


def test_two_who_open_the_same_runs_at_once_do_not_wait_for_one_another(
    run_dirs: list[Path], base: Path
) -> None:
    with ThreadPoolExecutor() as pool:
        opened = list(
            pool.map(lambda runs: open_brokers(runs, base=base), [run_dirs, run_dirs[::-1]])
        )

    of_run = [{run: each.broker.url for each in one for run in each.run_dirs} for one in opened]
    assert of_run[0] == of_run[1]
    for each in [each for one in opened for each in one]:
        each.broker.close()
