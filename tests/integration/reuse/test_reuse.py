"""Reuse with real workers, a real broker and real kills; the source is hashed before and after."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from agentcompass.store import sealed
from agentcompass.store.check import check_run
from tests.support.cluster import until
from tests.support.laboratory import STUBS, Evaluated, Laboratory, Wanted
from tests.support.reusing import fingerprint
from tests.support.stubs import executions
from tests.support.tree import paths_in

pytestmark = pytest.mark.integration


def report_of(run: Evaluated) -> object:
    return json.loads((run.directory / "metrics.json").read_bytes())


def event(run: Evaluated, name: str) -> Mapping[str, object]:
    return next(each for each in run.events if each["event"] == name)


def run_dir_of(run: Evaluated) -> Path:
    return Path(str(event(run, "started")["path"]))


def test_r28_only_the_missing_attempt_of_an_interrupted_source_runs(
    laboratory: Laboratory,
) -> None:
    wanted = Wanted(tasks=("only",), k=3, agent={"*": "nonce", "only:3": "hang|nonce"})
    ledger = laboratory.ledger("r28")
    source = laboratory.cluster.start(
        "run", *laboratory.flags("r28", wanted), "--run-id", "source", "--workers", "1"
    )
    until(lambda: executions(ledger, "agent", "only", 3) == 1, "the third attempt is at work")
    source.send_signal(signal.SIGINT)
    source.wait(timeout=60)
    (run_dir,) = paths_in(laboratory.cluster.results / "r28", "*/source")
    before = fingerprint(run_dir)
    answers = sorted(answers_in(run_dir))

    first = laboratory.run("r28", wanted, "--reuse")
    second = laboratory.run("r28", wanted, "--reuse")

    assert (first.said.code, second.said.code) == (0, 0), first.said
    assert executions(ledger, "agent") == 4
    kept = answers_in(run_dir_of(first))
    assert len(kept) == 3
    assert set(answers) < set(kept)
    assert json.loads((run_dir_of(second) / "metrics.json").read_bytes()) == json.loads(
        (run_dir_of(first) / "metrics.json").read_bytes()
    )
    assert check_run(run_dir_of(second), deep=True) == []
    assert fingerprint(run_dir) == before


def answers_in(run_dir: Path) -> list[str]:
    paths = paths_in(run_dir, "details/*/*/attempt-*/result.json")
    return [str(json.loads(path.read_bytes())["final_answer"]) for path in paths]


def test_p20_evaluating_a_snapshot_and_filing_leave_the_source_as_it_was(
    laboratory: Laboratory,
) -> None:
    wanted = Wanted(
        tasks=("good", "judge", "agent"),
        benchmark=f"{STUBS}:FreshStubBenchmark",
        agent={"agent": "error|ok"},
        evaluator={"judge": "error|grade"},
    )
    source = laboratory.run("p20", wanted, "--run-id", "source")
    before = fingerprint(run_dir_of(source))

    target = laboratory.run("p20", wanted, "--reuse", "--run-id", "target")

    assert (source.said.code, target.said.code) == (1, 0), target.said
    by_task = {name: target.executed(name) for name in wanted.tasks}
    assert by_task == {"good": 1, "judge": 1, "agent": 2}
    assert target.executed("judge", who="evaluator") == 2
    assert event(target, "reuse")["evaluations"] == 1
    assert check_run(run_dir_of(target), deep=True) == []
    assert fingerprint(run_dir_of(source)) == before


def test_a_live_run_is_passed_over_and_refused_by_name(laboratory: Laboratory) -> None:
    done = laboratory.run("live", Wanted(tasks=("a",)), "--run-id", "done")
    hanging = Wanted(tasks=("a", "b"), agent={"b": "hang"})
    laboratory.run("live", hanging, "--run-id", "live", "--detach")
    until(lambda: executions(laboratory.ledger("live"), "agent", "b") == 1, "b is at work")

    implicit = laboratory.run("live", Wanted(tasks=("a",)), "--reuse", "--run-id", "new")
    explicit = laboratory.run("live", Wanted(tasks=("a",)), "--reuse-run-id", "live")
    run_dir = paths_in(laboratory.cluster.results / "live", "*/live")[0]
    laboratory.cluster.call("cancel", str(run_dir), *laboratory.broker)

    assert done.said.code == 0
    found = event(implicit, "reuse")
    assert isinstance(found["source"], dict)
    assert found["source"]["run_id"] == "done"
    assert [each["code"] for each in found["passed_over"]] == ["live"]  # type: ignore[attr-defined]
    assert explicit.said.code == 2
    assert "[source_live]" in explicit.said.err


def test_r01_a_coordinator_killed_while_it_takes_over_never_hides_the_source(
    laboratory: Laboratory,
) -> None:
    cluster = laboratory.cluster
    tasks = tuple(f"t{number}" for number in range(8))
    broken = Wanted(tasks=tasks, agent={"t0": "error|ok", "t1": "error|ok"})
    source = laboratory.run("r01", broken, "--run-id", "source")
    before = fingerprint(run_dir_of(source))
    assert executions(laboratory.ledger("r01"), "agent") == 8
    target = run_dir_of(source).parent / "target"

    dies = [sys.executable, "-m", "tests.support.chaos_coordinator", "taking:3", "run"]
    dying = [
        *dies,
        *laboratory.flags("r01", broken),
        *laboratory.broker,
        "--reuse",
        "--run-id",
        "target",
    ]
    assert subprocess.run(dying, env=cluster.environment, cwd=cluster.directory).returncode == -9

    assert len(paths_in(target, "details/*/*")) == 3
    assert sealed.load(target).sealed_at is None
    again = laboratory.run("r01", broken, "--reuse", "--run-id", "third")
    assert again.said.code == 0, again.said
    assert executions(laboratory.ledger("r01"), "agent") == 8 + 2
    resumed = cluster.call("resume", str(target), *laboratory.broker)
    assert resumed.code == 0, resumed
    assert executions(laboratory.ledger("r01"), "agent") == 8 + 4
    assert check_run(target, deep=True) == []
    assert fingerprint(run_dir_of(source)) == before


@pytest.mark.parametrize("moment", ["reserved", "sealed", "executing"])
def test_p20_a_kill_at_any_moment_of_the_target_leaves_the_source_as_it_was(
    laboratory: Laboratory, moment: str
) -> None:
    # What executes when it is killed has to end with it.
    broker = () if moment == "executing" else laboratory.broker
    cluster, name = laboratory.cluster, f"kill-{moment}"
    broken = Wanted(
        tasks=("good", "judge", "agent"),
        benchmark=f"{STUBS}:FreshStubBenchmark",
        agent={"agent": "error|hang|ok" if moment == "executing" else "error|ok"},
        evaluator={"judge": "error|grade"},
    )
    source = laboratory.run(name, broken, "--run-id", "source")
    before = fingerprint(run_dir_of(source))
    target = run_dir_of(source).parent / "target"
    reached = {
        "reserved": (target / "run_info.json").exists,
        "sealed": lambda: (target / "tasks.jsonl").exists() and bool(sealed.load(target).sealed_at),
        "executing": lambda: source.executed("agent") == 2,
    }

    flags = [*laboratory.flags(name, broken), *broker]
    dying = cluster.start("run", *flags, "--reuse", "--run-id", "target")
    until(reached[moment], moment)
    os.kill(dying.pid, signal.SIGKILL)
    dying.wait()
    assert fingerprint(run_dir_of(source)) == before
    resumed = cluster.call("resume", str(target), *broker)

    assert resumed.code == 0, resumed
    assert (source.executed("good"), source.executed("judge")) == (1, 1)
    assert check_run(target, deep=True) == []
    assert fingerprint(run_dir_of(source)) == before
