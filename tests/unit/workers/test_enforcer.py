from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisIsAway

from agentcompass.models.run_info import AttemptRef, ControlRecord
from agentcompass.runtime.ports import Execution, LeaseKey
from agentcompass.store import control, marks
from workers.keeping import processes, slips
from workers.keeping.enforcer import Enforcer, Shutdown
from workers.keeping.keeper import SlipKeeper
from workers.settings import Clocks

CLOCKS = Clocks(control_s=5.0, grace_s=60.0, stop_s=10.0)


class Nudges:
    """As much of Redis as the enforcer looks at."""

    def __init__(self) -> None:
        self.count = 0
        self.is_away = False

    def mget(self, names: list[str]) -> list[bytes]:
        if self.is_away:
            raise RedisIsAway
        assert names == ["ac:abababab:82f3e9c695dc:nudges"]
        return [str(self.count).encode()]


class Bench:
    """One execution of this process, or of a child that can be killed."""

    def __init__(self, tmp_path: Path) -> None:
        self.directory = tmp_path / "slips"
        self.directory.mkdir()
        self.run_dir = tmp_path / "run"
        self.attempt_dir = self.run_dir / "attempt"
        self.attempt_dir.mkdir(parents=True)
        (self.run_dir / "control").mkdir()
        self.nudges = Nudges()
        self.keeper = SlipKeeper(self.directory, "w")
        self.shutdown = Shutdown()
        client: Any = self.nudges
        self.enforcer = Enforcer(client, self.keeper, self.directory, CLOCKS, self.shutdown)

    def execution(self, pid: int | None = None) -> Execution:
        key = LeaseKey("ab" * 4, "r1", 0, 1)
        return Execution(
            key, "token", "task-1", 1, self.run_dir, self.attempt_dir, pid or os.getpid()
        )

    def record(self, action: Any, *attempts: AttemptRef) -> None:
        at = datetime.now(UTC)
        control.append(
            self.run_dir,
            lambda leg: ControlRecord(leg=leg, action=action, attempts=attempts, at=at),
        )


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def test_an_execution_of_an_open_leg_is_left_alone(bench: Bench) -> None:
    execution = bench.execution()

    with bench.keeper.watch(execution):
        bench.enforcer.tick(0.0)
        bench.record("pause")
        bench.enforcer.tick(100.0)  # a pause hands out nothing new; what runs may end

    assert execution.stop.reason is None


@pytest.mark.parametrize("attempts", [(), (AttemptRef(task_id="task-1", attempt=1),)])
def test_a_cancelled_execution_is_asked_to_stop(
    bench: Bench, attempts: tuple[AttemptRef, ...]
) -> None:
    execution = bench.execution()

    with bench.keeper.watch(execution):
        bench.enforcer.tick(0.0)
        bench.record("cancel", *attempts)
        bench.enforcer.tick(4.0)
        assert execution.stop.reason is None
        bench.enforcer.tick(5.0)

    assert execution.stop.reason == "cancelled"


def test_a_nudge_makes_it_look_at_once(bench: Bench) -> None:
    execution = bench.execution()

    with bench.keeper.watch(execution):
        bench.enforcer.tick(0.0)
        bench.record("cancel")
        bench.nudges.count += 1
        bench.enforcer.tick(0.2)

    assert execution.stop.reason == "cancelled"


def test_it_looks_without_redis_and_survives_unreadable_records(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    execution = bench.execution()
    bench.nudges.is_away = True
    (bench.run_dir / "control" / "0001.json").write_bytes(b"{")

    with bench.keeper.watch(execution):
        bench.enforcer.tick(0.0)
        (bench.run_dir / "control" / "0001.json").unlink()
        bench.record("cancel")
        bench.enforcer.tick(5.0)

    assert "cannot be read" in caplog.text
    assert execution.stop.reason == "cancelled"


def test_at_shutdown_executions_are_handed_back_after_the_grace(bench: Bench) -> None:
    execution = bench.execution()

    with bench.keeper.watch(execution):
        bench.shutdown.began_s, bench.shutdown.grace_s = 100.0, 60.0
        bench.enforcer.tick(159.0)
        assert execution.stop.reason is None
        bench.enforcer.tick(160.0)

    assert execution.stop.reason == "handed_back"


def test_a_process_that_does_not_stop_is_killed_and_its_mark_closed(
    bench: Bench, child: subprocess.Popen[bytes]
) -> None:
    (bench.attempt_dir / "started-token.json").write_bytes(b"{}")
    bench.shutdown.began_s = 0.0

    with bench.keeper.watch(bench.execution(child.pid)):
        bench.enforcer.tick(0.0)
        bench.enforcer.tick(9.0)
        assert child.poll() is None
        bench.enforcer.tick(10.0)

    assert child.wait() == -9
    assert [path.name for path in bench.attempt_dir.iterdir()] == ["closed-token.handed_back.json"]


def test_the_reason_is_on_disk_before_a_late_process_is_killed(
    bench: Bench, child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, str]] = []

    def kill(pid: int, began: int | None) -> bool:
        seen.append(json.loads((bench.attempt_dir / "killed-token.json").read_bytes()))
        return True

    monkeypatch.setattr(processes, "kill", kill)
    with bench.keeper.watch(bench.execution(child.pid)) as watch:
        watch.until(50.0, "evaluation_timeout")
        bench.enforcer.tick(49.0)
        assert seen == []
        bench.enforcer.tick(50.0)
        bench.enforcer.tick(51.0)

    assert [note["reason"] for note in seen] == ["evaluation_timeout"]


def test_a_share_that_is_away_does_not_save_a_late_process(
    bench: Bench, child: subprocess.Popen[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    bench.attempt_dir.rmdir()
    bench.attempt_dir.write_bytes(b"not a directory")

    with bench.keeper.watch(bench.execution(child.pid)) as watch:
        watch.until(50.0, "run_timeout")
        bench.enforcer.tick(50.0)

    assert child.wait() == -9
    assert "cannot be written" in caplog.text


def test_a_process_that_has_gone_on_to_another_execution_meanwhile_is_spared(
    bench: Bench, child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A share that hangs lets the note take its time."""
    with bench.keeper.watch(bench.execution(child.pid)) as watch, ExitStack() as next_one:
        watch.until(50.0, "run_timeout")

        def end_and_go_on(*_: object) -> None:
            slips.remove(bench.directory, "token")
            following = replace(bench.execution(child.pid), token="following")
            next_one.enter_context(bench.keeper.watch(following))

        monkeypatch.setattr(marks, "leave_kill_note", end_and_go_on)
        bench.enforcer.tick(50.0)

        assert child.poll() is None
        assert [slip.token for slip, _ in slips.read_all(bench.directory)] == ["following"]


def test_it_never_kills_its_own_process(bench: Bench) -> None:
    bench.shutdown.began_s = 0.0

    with bench.keeper.watch(bench.execution()) as watch:
        watch.until(1.0, "run_timeout")
        for now_s in (0.0, 100.0, 200.0):
            bench.enforcer.tick(now_s)

    assert list(bench.attempt_dir.iterdir()) == []


def test_a_child_is_told_by_a_signal_and_a_note(
    bench: Bench, child: subprocess.Popen[bytes]
) -> None:
    with bench.keeper.watch(bench.execution()):
        [(slip, _)] = slips.read_all(bench.directory)
        began = processes.started(child.pid)
        elsewhere = slips.Slip(**{**as_fields(slip), "owner": child.pid, "owner_started": began})
        bench.enforcer.stop(elsewhere, "lease_lost")

        assert slips.read_stop(bench.directory, "token") == "lease_lost"
        assert child.wait() == -signal.SIGUSR2  # `sleep` has no handler for it


def as_fields(slip: slips.Slip) -> dict[str, Any]:
    return {name: getattr(slip, name) for name in slip.__slots__}
