"""A broker of one's own: workers started separately, coordinators that come and go."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentcompass.store import sealed
from agentcompass.store.check import check_run
from tests.integration.cli.conftest import Bench
from tests.support.cluster import PATIENCE_S, SOON_MISSED, series_of, until
from tests.support.tree import paths_in

pytestmark = pytest.mark.integration


@pytest.fixture
def bench(bench: Bench) -> Bench:
    bench.cluster.broker.start()
    return bench


def brokered(bench: Bench) -> tuple[str, str]:
    return "--broker", bench.cluster.broker.url


def may_end(bench: Bench) -> Path:
    return bench.cluster.directory / "may-end"


def held(bench: Bench) -> dict[str, str]:
    """Let the second task last until the test has done what it is about."""
    return {"t1": f"until:{may_end(bench)}"}


def hurry(bench: Bench) -> None:
    """Let everybody started from now on soon miss what is dead or lost."""
    bench.cluster.environment.update(SOON_MISSED)


def is_over(run_dir: Path) -> bool:
    return sealed.load(run_dir).status in {"completed", "failed"}


def test_two_workers_one_per_pool_in_other_directories_do_a_run(bench: Bench) -> None:
    for pool in ("prefork", "threads"):
        bench.cluster.worker(pool, concurrency=1)
    held = dict.fromkeys(("t0:1", "t1:1"), f"until:{may_end(bench)}")
    script = {**held, **{f"t{number}": "wrong" for number in range(2, 6)}}

    flags = bench.flags(10, "-k", "2", *brokered(bench), script=script)
    process = bench.cluster.start("run", *flags)
    until(lambda: bench.executed() == 2, "each of them is held by its first one")
    may_end(bench).touch()

    assert process.wait(PATIENCE_S) == 0, bench.cluster.log_text()
    run_dir = bench.cluster.the_run()
    assert series_of(run_dir)["correct.avg@2"]["value"] == 0.6
    assert bench.executed() == 20
    results = [json.loads(path.read_bytes()) for path in paths_in(run_dir, "**/result.json")]
    assert {each["worker"].partition("-")[0] for each in results} == {"prefork", "threads"}
    assert check_run(run_dir) == []


def test_a_detached_run_goes_on_alone_and_resume_finds_nothing_to_do(bench: Bench) -> None:
    said = bench.cluster.call("run", *bench.flags(4, "--detach", *brokered(bench)))
    assert said.code == 0, said
    run_dir = bench.cluster.the_run()
    assert bench.executed() == 0

    bench.cluster.worker()
    until(lambda: is_over(run_dir), "the callback has finalized")

    assert bench.cluster.call("resume", str(run_dir), *brokered(bench)).code == 0
    assert bench.executed() == 4


def lose_messages(bench: Bench, count: int) -> None:
    client = bench.cluster.broker.client
    (lane,) = [name for name in client.scan_iter("*") if client.type(name) == b"list"]
    for _ in range(count):
        assert client.rpop(lane)


def test_messages_that_got_lost_are_found_by_a_watchdog(bench: Bench) -> None:
    bench.cluster.call("run", *bench.flags(6, "--detach", *brokered(bench)))
    lose_messages(bench, 2)
    bench.cluster.worker(concurrency=1)
    hurry(bench)
    watchers = [
        bench.cluster.start("watch", str(bench.cluster.the_run()), *brokered(bench))
        for _ in range(2)
    ]

    assert [watcher.wait(PATIENCE_S) for watcher in watchers] == [0, 0]
    assert bench.executed() == 6
    assert "were lost" in bench.cluster.log_text()


def test_a_broker_that_lost_its_memory_is_told_everything_again(bench: Bench) -> None:
    hurry(bench)
    worker = bench.cluster.worker(concurrency=1)
    process = bench.cluster.start("run", *bench.flags(6, *brokered(bench), script=held(bench)))
    until(lambda: bench.executed("t1") == 1, "the second one is at work")

    bench.cluster.broker.client.flushall()
    until(lambda: "were lost" in bench.cluster.log_text(), "it is told of the others again")
    may_end(bench).touch()

    assert process.wait(PATIENCE_S) == 0
    assert worker.poll() is None
    assert bench.executed() == 6
    assert check_run(bench.cluster.the_run()) == []


def test_a_killed_worker_costs_only_what_it_executed(bench: Bench) -> None:
    hurry(bench)
    victim = bench.cluster.worker("prefork", concurrency=1)
    process = bench.cluster.start(
        "run", *bench.flags(5, *brokered(bench), script={"t2": "hang|ok"})
    )
    until(lambda: bench.executed("t2") == 1, "the victim is at work")
    victim.kill()
    bench.cluster.worker("prefork", concurrency=1)

    assert process.wait(PATIENCE_S) == 0
    assert [bench.executed(f"t{number}") for number in range(5)] == [1, 1, 2, 1, 1]


def test_sigterm_to_the_coordinator_leaves_the_run_to_its_workers(bench: Bench) -> None:
    bench.cluster.worker(concurrency=1)
    process = bench.cluster.start("run", *bench.flags(4, *brokered(bench), script=held(bench)))
    until(lambda: bench.executed("t1") == 1, "the second one is at work")

    process.send_signal(signal.SIGTERM)

    assert process.wait(PATIENCE_S) == 3
    may_end(bench).touch()
    run_dir = bench.cluster.the_run()
    until(lambda: is_over(run_dir), "the run ends without its coordinator")
    assert sealed.load(run_dir).status == "completed"


def test_a_paused_run_waits_for_its_resume(bench: Bench) -> None:
    bench.cluster.worker(concurrency=1)
    process = bench.cluster.start("run", *bench.flags(6, *brokered(bench), script=held(bench)))
    until(lambda: bench.executed("t1") == 1, "the second one is at work")
    run_dir = bench.cluster.the_run()

    assert bench.cluster.call("pause", str(run_dir), *brokered(bench)).code == 0
    may_end(bench).touch()
    assert process.wait(PATIENCE_S) == 3
    assert (bench.executed(), bench.results()) == (2, 2), "what executes comes to its end"
    assert "paused" in bench.cluster.call("status", str(run_dir)).out

    assert bench.cluster.call("resume", str(run_dir), *brokered(bench)).code == 0
    assert bench.executed() == 6


def test_a_watch_service_finishes_runs_that_nobody_attends(bench: Bench) -> None:
    bench.cluster.call("run", *bench.flags(3, "--detach", *brokered(bench)))
    run_dir = bench.cluster.the_run()
    lose_messages(bench, 1)
    hurry(bench)
    service = bench.cluster.start(
        "watch", "--results-dir", str(bench.cluster.results), *brokered(bench)
    )
    bench.cluster.worker()

    until(lambda: is_over(run_dir), "the run ends")
    service.send_signal(signal.SIGTERM)

    assert service.wait(PATIENCE_S) == 0
    assert bench.executed() == 3
    assert "were lost" in bench.cluster.log_text()


def test_a_broker_that_does_not_answer_is_told_in_time_and_nothing_is_reserved(
    bench: Bench,
) -> None:
    said = bench.cluster.call(
        "run", *bench.flags(1, "--broker", "redis://:hunter22@127.0.0.1:1/0"), timeout_s=PATIENCE_S
    )

    assert said.code == 2, said
    assert "hunter22" not in said.err
    assert len(said.err.splitlines()) <= 5
    assert not bench.cluster.results.exists()


def test_a_foreground_process_group_gets_ctrl_c_as_in_a_terminal(bench: Bench) -> None:
    """A terminal signals the whole group; the workers must leave it to the coordinator."""
    process = subprocess.Popen(
        [
            "sh",
            "-c",
            'exec "$0" -m agentcompass.cli.main run "$@"',
            *_python(),
            *bench.flags(4, script={"t2": "hang", "t3": "hang"}),
        ],
        env=bench.cluster.environment,
        cwd=bench.cluster.directory,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    until(lambda: bench.results() >= 2 and bench.executed() == 4, "two results, two at work")

    os.killpg(process.pid, signal.SIGINT)

    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 3, err.decode()
    assert b"Traceback" not in err
    assert sealed.load(bench.cluster.the_run()).status == "cancelled"


def _python() -> list[str]:
    return [sys.executable]
