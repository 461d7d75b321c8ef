from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentcompass.errors import UsageError
from agentcompass.runtime.ports import Execution, LeaseKey, StopReason
from workers.keeping import processes, slips
from workers.keeping.daemons import Repeating
from workers.keeping.instance import (
    close_instance,
    dead_instances,
    open_instance,
    private_directory,
)
from workers.keeping.keeper import SlipKeeper
from workers.keeping.locks import try_lock
from workers.keeping.reaper import bury, reap

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def an_execution(token: str = "t" * 8, *, pid: int | None = None) -> Execution:
    key = LeaseKey("ab" * 4, "run-1", 731, 2)
    return Execution(
        key, token, "task-1", 3, Path("/run"), Path("/run/attempt"), pid or os.getpid()
    )


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    env = {processes.LABEL: "labelled-token", "PATH": os.environ["PATH"]}
    process = subprocess.Popen(["sleep", "60"], env=env)
    until_it_runs(process)
    yield process
    process.kill()
    process.wait()


def until_it_runs(process: subprocess.Popen[bytes]) -> None:
    while b"sleep" not in Path(f"/proc/{process.pid}/cmdline").read_bytes():
        time.sleep(0.005)


def test_a_slip_tells_what_runs_and_vanishes_with_it(tmp_path: Path) -> None:
    keeper = SlipKeeper(tmp_path, "worker@host")

    with keeper.watch(an_execution()):
        [(slip, deadline)] = slips.read_all(tmp_path)
        assert (slip.task_id, slip.attempt, slip.leg, slip.pid) == ("task-1", 2, 3, os.getpid())
        assert slip.lease.endswith(":lease:731:2")
        assert deadline is None
    assert list(slips.read_all(tmp_path)) == []


def test_one_file_serves_one_execution_of_a_process_after_the_other(tmp_path: Path) -> None:
    keeper = SlipKeeper(tmp_path, "worker@host")

    with keeper.watch(an_execution("a-long-first-token")) as watch:
        watch.until(7.5, "run_timeout")
    with keeper.watch(an_execution("second")):
        [(slip, deadline)] = slips.read_all(tmp_path)

    assert (slip.token, deadline) == ("second", None)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_deadline_is_written_over_at_every_phase(tmp_path: Path) -> None:
    with SlipKeeper(tmp_path, "w").watch(an_execution()) as watch:
        watch.until(123_456.75, "collect_timeout")
        watch.until(7.5, "run_timeout")

        [(_, deadline)] = slips.read_all(tmp_path)
    assert deadline == slips.Deadline(7.5, "run_timeout")


def test_a_half_written_slip_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "half").write_bytes(b'{"token": "ha')
    (tmp_path / "other").write_bytes(b"{}\n- -\n")

    assert list(slips.read_all(tmp_path)) == []
    assert list(slips.read_all(tmp_path / "absent")) == []


def test_leaving_a_watch_does_not_raise_when_the_worker_is_gone(tmp_path: Path) -> None:
    directory = tmp_path / "slips"
    directory.mkdir()
    with SlipKeeper(directory, "w").watch(an_execution()):
        directory.rename(tmp_path / "elsewhere")


@pytest.mark.parametrize("reason", ["cancelled", "lease_lost", "handed_back"])
def test_a_request_to_stop_reaches_the_execution_that_it_names(
    tmp_path: Path, reason: StopReason
) -> None:
    keeper = SlipKeeper(tmp_path, "w")
    one, other = an_execution("one"), an_execution("other")

    with keeper.watch(one), keeper.watch(other):
        slips.leave_stop(tmp_path, "one", reason)
        keeper.read_stops()
        assert (one.stop.reason, other.stop.reason) == (reason, None)
        assert len(list(slips.read_all(tmp_path))) == 2
    assert list(slips.read_all(tmp_path)) == []
    assert keeper.request_stop("one", reason) is False


def test_a_reason_that_nobody_knows_is_no_request(tmp_path: Path) -> None:
    (tmp_path / "one.stop").write_text("because")

    assert slips.read_stop(tmp_path, "one") is None
    assert slips.read_stop(tmp_path, "none") is None


@linux_only
def test_a_number_that_belongs_to_another_process_now_is_not_killed(
    sleeper: subprocess.Popen[bytes],
) -> None:
    began = processes.started(sleeper.pid)
    assert began is not None

    assert processes.kill(sleeper.pid, began + 1) is False
    assert processes.kill(1, processes.started(1)) is False
    assert processes.is_running(sleeper.pid, began)
    assert processes.kill(sleeper.pid, began) is True
    until_it_is_over(sleeper.pid, began)
    assert processes.kill(sleeper.pid, began) is False


def until_it_is_over(pid: int, began: int) -> None:
    while processes.is_running(pid, began):
        time.sleep(0.005)


@linux_only
def test_only_what_carries_the_token_is_killed(sleeper: subprocess.Popen[bytes]) -> None:
    assert processes.kill_labelled([]) == 0
    assert processes.kill_labelled(["labelled"]) == 0
    assert sleeper.poll() is None

    assert processes.kill_labelled(["other", "labelled-token"]) == 1
    assert sleeper.wait() == -signal.SIGKILL


def test_an_instance_is_private_and_counts_as_living_while_its_lock_is_held(
    tmp_path: Path,
) -> None:
    base = tmp_path / "base"
    instance = open_instance(base, "worker-1@host")

    assert (base.stat().st_mode & 0o777, instance.path.stat().st_mode & 0o777) == (0o700, 0o700)
    assert "worker-1-host" in instance.path.name
    assert list(dead_instances(base)) == []
    close_instance(instance)
    assert [dead.path for dead in dead_instances(base)] == [instance.path]


def test_where_no_worker_ever_was_nobody_is_dead(tmp_path: Path) -> None:
    assert list(dead_instances(tmp_path / "absent")) == []


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)

    with pytest.raises(UsageError, match="somebody else"):
        private_directory(tmp_path / "link")


@linux_only
def test_the_reaper_ends_what_the_dead_left_and_lets_their_leases_go(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    dead, alive = open_instance(tmp_path, "dead"), open_instance(tmp_path, "alive")
    slips.OpenSlip(dead.slips, SlipKeeper(dead.slips, "w")._slip_of(an_execution("labelled-token")))
    close_instance(dead)
    released: list[tuple[str, str]] = []

    assert reap(tmp_path, lambda lease, token: released.append((lease, token))) == 1

    assert sleeper.wait() == -signal.SIGKILL
    assert [token for _, token in released] == ["labelled-token"]
    assert (dead.path.exists(), alive.path.exists()) == (False, True)
    bury(alive)
    assert not alive.path.exists()


def test_only_the_first_refusal_of_a_worker_is_heard(tmp_path: Path) -> None:
    instance = open_instance(tmp_path, "w")
    assert (instance.refused(), instance.is_closed()) == ("", False)

    instance.refuse("another folder")
    instance.refuse("something else")
    instance.close()

    assert (instance.refused(), instance.is_closed()) == ("another folder", True)
    bury(instance)


def test_working_areas_of_a_dead_execution_are_removed_and_no_others(tmp_path: Path) -> None:
    instance = open_instance(tmp_path, "w")
    for name in ("dead.agent", "dead.evaluation", "alive.agent"):
        (instance.work / name).mkdir()

    instance.clear_work_of("dead")

    assert [path.name for path in instance.work.iterdir()] == ["alive.agent"]
    bury(instance)


def test_a_lock_is_exclusive_or_shared(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first, second = try_lock(path, shared=True), try_lock(path, shared=True)
    assert first is not None
    assert second is not None

    assert try_lock(path) is None
    os.close(first)
    os.close(second)
    only = try_lock(path)
    assert only is not None
    assert try_lock(path, shared=True) is None
    os.close(only)


def test_a_tick_that_fails_is_repeated_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    ticks: list[float] = []

    def fail(now_s: float) -> None:
        ticks.append(now_s)
        raise OSError("the share is away")

    thread = Repeating("enforcer", 0.001, fail)
    thread.start()
    while len(ticks) < 3:
        time.sleep(0.001)
    thread.end(60.0)

    assert not thread.is_alive()
    assert caplog.text.count("enforcer failed") == 1


def test_the_last_tick_is_not_cut_off_and_not_waited_for_longer_than_allowed() -> None:
    began, may_end = threading.Event(), threading.Event()
    ended: list[float] = []

    def tick(now_s: float) -> None:
        began.set()
        may_end.wait()
        ended.append(now_s)

    thread = Repeating("heartbeat", 3_600.0, tick)
    thread.end(0.0)  # a worker that was never ready
    thread = Repeating("heartbeat", 3_600.0, tick)
    thread.start()
    began.wait()

    thread.end(0.01)
    still_in_it = thread.is_alive()
    may_end.set()
    thread.end(60.0)

    assert (still_in_it, thread.is_alive(), len(ended)) == (True, False, 1)


def test_what_a_worker_has_proven_is_never_found_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = open_instance(tmp_path, "w")
    instance.prove("a root")
    write, found = Path.write_text, []

    def read_in_between(path: Path, text: str) -> int:
        write(path, "")
        found.append(instance.proven_root())
        return write(path, text)

    monkeypatch.setattr(Path, "write_text", read_in_between)
    instance.prove("a root")

    assert found == ["a root"]
    assert instance.proven_root() == "a root"
    close_instance(instance)
