"""Field reports U02 and U09: where a run is and how it stands, while it goes on."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import PATIENCE_S, Cluster, Said, until
from tests.support.laboratory import Laboratory, Wanted, strict_json
from tests.support.stubs import executions
from tests.support.tree import paths_in

pytestmark = pytest.mark.integration


@dataclass
class Going:
    """A run of 20 tasks, stopped at the thirteenth by its agent."""

    laboratory: Laboratory
    process: subprocess.Popen[bytes]
    run_dir: Path


@pytest.fixture
def going(cluster: Cluster) -> Iterator[Going]:
    laboratory = Laboratory(cluster)
    tasks = [f"t{number:02}" for number in range(20)]
    agent = {"t02": "wrong", "t05": "wrong", "t07": "error", "t09": "fatal", "t12": "hang|ok"}
    wanted = Wanted(tasks=tasks, agent=agent, evaluator={"t07": "no_observation"})
    process = cluster.start("run", *laboratory.flags("live", wanted), "--workers", "1")
    until(lambda: executions(laboratory.ledger("live"), "agent", "t12") == 1, "t12 is at work")
    yield Going(laboratory, process, cluster.the_run())
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    process.wait(timeout=PATIENCE_S)


def status(cluster: Cluster, run_dir: Path) -> Mapping[str, Any]:
    said = cluster.call("status", str(run_dir), "--json")
    assert said.code == 3, said
    found: Mapping[str, Any] = strict_json(said.out.encode())
    return found


def test_u02_status_tells_what_a_recomputation_at_that_instant_tells(going: Going) -> None:
    cluster = going.laboratory.cluster

    found = status(cluster, going.run_dir)

    assert (found["state"], found["provisional"]) == ("running", True)
    assert (found["attempts_done"], found["attempts_total"]) == (12, 20)
    assert (found["evaluated"], found["total"], found["tasks_with_errors"]) == (10, 20, 2)
    results = [json.loads(path.read_bytes()) for path in paths_in(going.run_dir, "**/result.json")]
    verdicts = [each["metrics"]["correct"] for each in results if "correct" in each["metrics"]]
    assert found["reference_value"] == sum(verdicts) / len(verdicts) == 0.8
    assert found["value"] is None  # a task is invalidated, so nothing is official
    assert found["eta_s"] > 0
    assert found["report"]["extra"]["partial"] == {"status": "running", "missing": 8}


def test_u02_people_read_the_same(going: Going) -> None:
    said = going.laboratory.cluster.call("status", str(going.run_dir))

    assert "12/20" in said.out
    assert "0.8000" in said.out
    assert "over 10 of 20 tasks" in said.out
    assert "provisional" in said.out
    assert "left" in said.out


@pytest.fixture
def process(cluster: Cluster) -> Iterator[subprocess.Popen[bytes]]:
    """A run that no worker serves, with its standard output on a pipe."""
    laboratory = Laboratory(cluster)
    cluster.broker.start()
    flags = laboratory.flags("u09", Wanted())
    with cluster.piped("run", *flags, "--json", *laboratory.broker) as process:
        yield process
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        process.wait(timeout=PATIENCE_S)


def test_u09_the_place_is_the_first_line_before_the_first_attempt(
    cluster: Cluster, process: subprocess.Popen[bytes]
) -> None:
    assert process.stdout is not None

    first = strict_json(process.stdout.readline())

    assert set(first) == {"event", "run_id", "path", "state"}
    assert (first["event"], first["state"]) == ("started", "running")
    assert first["run_id"] == Path(first["path"]).name
    # Told before it is made: by now it is there, or not yet.
    assert [*cluster.run_dirs()] in ([], [Path(first["path"])])


def test_u09_people_get_it_first_too(laboratory: Laboratory) -> None:
    said = laboratory.cluster.call(
        "run", *laboratory.flags("u09-text", Wanted()), *laboratory.broker
    )

    (run_dir,) = paths_in(laboratory.cluster.results / "u09-text", "*/*")
    assert said.out.splitlines()[0] == f"run directory: {run_dir}"


def test_u09_it_is_told_when_the_run_fails(laboratory: Laboratory) -> None:
    run = laboratory.run("u09-failed", Wanted(agent={"*": "fatal"}))

    started, finished = run.events
    assert run.said.code == 1
    assert started["path"] == finished["path"] == str(run.directory)
    assert (finished["state"], finished["exit_code"]) == ("failed", 1)


def test_every_json_of_every_command_is_strict_and_one_object_a_line(
    laboratory: Laboratory,
) -> None:
    run = laboratory.run("json", Wanted(agent={"t0": "error", "t1": "nan"}))
    place = str(run.directory)
    said: list[Said] = [
        laboratory.cluster.call("status", place, "--json"),
        laboratory.cluster.call("report", place, "--json"),
        laboratory.cluster.call("list", "--json"),
        laboratory.cluster.call("resume", place, "--rerun", "errored", "--dry-run", "--json"),
        laboratory.cluster.call("resume", place, "--json", *laboratory.broker),
    ]

    lines = [strict_json(line) for each in said for line in each.out.encode().splitlines()]

    assert [each.code for each in said] == [0, 1, 0, 0, 1]
    assert all(isinstance(line, dict) for line in lines)
    assert {"event": "plan"}.items() <= lines[-3].items()
    assert lines[-3]["rerun"].keys() == {"t0"}
    assert (lines[-2]["event"], lines[-1]["event"]) == ("started", "finished")
