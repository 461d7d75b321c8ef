"""Field reports C11, P23, R14, R19: runs do not mix, and neither do attempts."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentcompass.store import sealed
from agentcompass.store.check import check_run
from tests.support.cluster import PATIENCE_S, REPOSITORY, Cluster, until
from tests.support.laboratory import Laboratory, Wanted
from tests.support.modes import call_obediently
from tests.support.stubs import executions
from tests.support.tree import paths_in

pytestmark = pytest.mark.integration


def crowd(laboratory: Laboratory, count: int, *arguments: str) -> tuple[list[str], list[int], str]:
    """Start coordinators in the same second; return what they printed, codes, and errors."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.crowd", str(count), *arguments],
        env=laboratory.cluster.environment,
        cwd=laboratory.cluster.directory,
        capture_output=True,
        check=True,
    )
    *lines, codes = done.stdout.decode().splitlines()
    return lines, json.loads(codes), done.stderr.decode()


def test_r14_twelve_runs_of_one_second_get_a_directory_each(laboratory: Laboratory) -> None:
    flags = laboratory.flags("r14", Wanted(tasks=("only",)))

    lines, codes, _ = crowd(laboratory, 12, "run", *flags, "--detach", "--json", *laboratory.broker)

    started = [event for event in map(json.loads, lines) if event["event"] == "started"]
    run_dirs = [Path(event["path"]) for event in started]
    assert codes == [0] * 12
    assert sorted({path.name for path in run_dirs})[::11] == ["20260131_235958", "20260201_000009"]
    until(lambda: all(sealed.load(path).status == "completed" for path in run_dirs), "all end")
    assert executions(laboratory.ledger("r14"), "agent") == 12
    files = [path for run_dir in run_dirs for path in paths_in(run_dir, "**/*") if path.is_file()]
    assert len({path.stat().st_ino for path in files}) == len(files)
    assert [sealed.load(run_dir).run_id for run_dir in run_dirs] == [p.name for p in run_dirs]


def test_r14_of_two_runs_with_one_id_exactly_one_exists(laboratory: Laboratory) -> None:
    flags = laboratory.flags("r14-same", Wanted(tasks=("only",)))

    lines, codes, errors = crowd(
        laboratory, 2, "run", *flags, "--run-id", "night", "--detach", "--json", *laboratory.broker
    )

    assert sorted(codes) == [0, 2]
    assert [json.loads(line)["event"] for line in lines] == ["started", "detached"]
    assert "'night' exists already" in errors
    assert len(errors.splitlines()) <= 5
    (run_dir,) = paths_in(laboratory.cluster.results / "r14-same", "*/*")
    until(lambda: sealed.load(run_dir).status == "completed", "the winner is finalized")
    assert executions(laboratory.ledger("r14-same"), "agent") == 1


def nonces(run_dir: Path) -> dict[int, str]:
    found = [
        json.loads(path.read_bytes()) for path in paths_in(run_dir, "**/attempt-*/result.json")
    ]
    return {each["attempt"]: each["final_answer"] for each in found}


def test_r19_attempts_are_independent_and_resume_copies_none(cluster: Cluster) -> None:
    laboratory = Laboratory(cluster)
    wanted = Wanted(tasks=("only",), k=5, agent={"*": "nonce", "only:3": "hang|nonce"})
    ledger = laboratory.ledger("r19")
    process = cluster.start("run", *laboratory.flags("r19", wanted), "--workers", "1")
    until(lambda: executions(ledger, "agent", "only", 3) == 1, "the third attempt is at work")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=PATIENCE_S) == 3
    run_dir = cluster.the_run()
    before = nonces(run_dir)

    said = cluster.call("resume", str(run_dir))

    assert said.code == 0, said
    after = nonces(run_dir)
    assert (sorted(before), len(set(after.values()))) == ([1, 2], 5)
    assert {attempt: after[attempt] for attempt in before} == before
    assert [executions(ledger, "agent", "only", n) for n in range(1, 6)] == [1, 1, 2, 1, 1]


def test_c11_answers_stay_with_their_tasks_however_many_workers(laboratory: Laboratory) -> None:
    dice = random.Random(11)
    tasks = [f"case-{number:02}" for number in range(50)]
    agent = {task_id: f"sleep:{dice.random() / 10:.3f}" for task_id in tasks}
    agent |= dict.fromkeys(tasks[::7], "answer:of somebody else")
    order = dice.sample(tasks, len(tasks))
    chosen = [word for task_id in order for word in ("--task-id", task_id)]
    wanted = Wanted(tasks=tasks, agent=agent, more=chosen)

    one, eight = (
        laboratory.run_with(f"c11-{workers}", wanted, "--workers", str(workers))
        for workers in (1, 8)
    )

    assert (one.said.code, eight.said.code) == (0, 0), f"{one.said}{eight.said}"
    for run in (one, eight):
        right = {t: found["final_answer"] == t for (t, _), found in run.results().items()}
        assert right == {task_id: task_id not in tasks[::7] for task_id in tasks}
        assert [row.split("`")[1] for row in run.task_rows()] == order
    reports = [(run.directory / "metrics.json").read_bytes() for run in (one, eight)]
    assert reports[0] == reports[1]
    assert check_run(eight.directory) == []


@pytest.mark.parametrize("where", ["locked/results", "a-file", "no/parent"])
def test_p23_a_bad_results_folder_is_found_before_anything_is_sent(
    tmp_path: Path, where: str
) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.broker.start()
        (tmp_path / "a-file").touch()
        (tmp_path / "locked").mkdir(mode=0o500)
        flags = Wanted().flags(tmp_path / "ledger")
        env = {**cluster.environment, "PYTHONPATH": str(REPOSITORY)}

        done = call_obediently(
            "run", *flags, "--results-dir", str(tmp_path / where),
            "--broker", cluster.broker.url, env=env,
        )  # fmt: skip

        assert done.returncode == 2, done.stderr
        assert where.encode() in done.stderr
        assert cluster.broker.client.dbsize() == 0
        assert not (tmp_path / "ledger").exists()
