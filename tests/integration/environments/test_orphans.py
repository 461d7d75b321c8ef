"""A machine's workers are killed; what they left is gone when the next ones have started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.docker_engine import IMAGE, docker
from tests.support.processes import command_lines, end_tree, freeze
from tests.support.sandboxes import needs_bubblewrap

pytestmark = pytest.mark.integration
WAIT_S = 60.0


def command(folder: Path, environment: str, agent: str) -> Sequence[str]:
    tasks = folder / "tasks.jsonl"
    tasks.write_text(json.dumps({"id": "a", "prompt": "2", "answer": "2"}), encoding="utf-8")
    image = ["--param", f"environment.image={IMAGE}"] if environment == "docker" else []
    return [
        *(sys.executable, "-m", "agentcompass.cli.main", "run", "--model", "m"),
        *("--benchmark", "jsonl", "--param", f"benchmark.path={tasks}"),
        *("--harness", "command", "--param", f"harness.command={agent}"),
        *("--environment", environment, *image, "--results-dir", str(folder / "results")),
    ]


def processes_with(word: str) -> list[int]:
    return [pid for pid, words in command_lines().items() if word in words]


def until(is_so: object) -> None:
    assert callable(is_so)
    give_up_at = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < give_up_at
        time.sleep(0.1)


@contextmanager
def running(argv: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a run; everything that it started is killed in the end, without a word."""
    run = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield run
    finally:
        freeze(run.pid)
        end_tree(run.pid)
        run.wait()


@pytest.fixture
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers find dead ones of their machine in it, and shall find only ours."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))


@pytest.mark.usefixtures("own_temporary_folder")
def test_containers_of_killed_workers_are_removed(tmp_path: Path, engine: str) -> None:
    def containers(*chosen: str) -> list[str]:
        return docker(engine, "ps", "--all", "--quiet", *chosen).split()

    with running(command(tmp_path, "docker", "sleep 300")):
        until(lambda: containers("--filter", "status=running") != [])
        until(lambda: "sleep 300" in docker(engine, "top", *containers()))
    assert len(containers()) == 1

    subprocess.run(command(tmp_path, "docker", "cat"), capture_output=True, check=True)

    assert containers() == []


@needs_bubblewrap
@pytest.mark.usefixtures("own_temporary_folder")
def test_sandboxes_of_killed_workers_end(tmp_path: Path) -> None:
    agent = f"setsid sleep 3{os.getpid()}"

    with running(command(tmp_path, "bubblewrap", f"{agent} & {agent}")):
        until(lambda: len(processes_with(f"3{os.getpid()}")) >= 2)
    subprocess.run(command(tmp_path, "bubblewrap", "cat"), capture_output=True, check=True)

    until(lambda: processes_with(f"3{os.getpid()}") == [])
