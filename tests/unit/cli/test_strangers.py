"""A shared broker whose workers have another results folder: refused before anything is touched."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from agentcompass.coordinator.planning.start import root_of
from agentcompass.coordinator.ports import LiveWorker
from agentcompass.store import control
from tests.support.coordinated import request_fields
from tests.support.store_runs import a_run
from tests.unit.cli.conftest import Shell

BROKER = ("--broker", "redis://h")
STRANGER = LiveWorker("w@far", "0" * 8, "/mnt/theirs")


def test_a_run_is_refused_and_nothing_is_made(shell: Shell) -> None:
    shell.queue.living = [STRANGER]

    assert shell.run(*BROKER) == 2

    assert "/mnt/theirs (00000000) of w@far" in shell.err
    assert "--queue NAME" in shell.err
    assert not shell.results.exists()


def test_a_launch_is_refused_and_nothing_is_made(shell: Shell, tmp_path: Path) -> None:
    shell.queue.living = [STRANGER]
    file = tmp_path / "nightly.json"
    requests = [{"name": "one"}, {"name": "two"}]
    file.write_text(json.dumps({"version": 1, "defaults": request_fields(), "requests": requests}))

    assert shell("launch", str(file), "--results-dir", str(shell.results), *BROKER) == 2

    assert "/mnt/theirs" in shell.err
    assert not shell.results.exists()


def test_what_is_left_of_a_launch_is_refused_request_by_request(
    shell: Shell, tmp_path: Path
) -> None:
    file = tmp_path / "nightly.json"
    requests = [{"name": "one"}, {"name": "two"}]
    file.write_text(json.dumps({"version": 1, "defaults": request_fields(), "requests": requests}))
    shell("launch", str(file), "--results-dir", str(shell.results))
    (record,) = (shell.results / ".launches").glob("*.json")
    for task in shell.results.glob("*/*/details/*/*"):
        shutil.rmtree(task)
    shell.queue.executed.clear()
    shell.queue.living = [STRANGER]

    assert shell("resume", str(record), *BROKER) == 1

    assert shell.err.count("/mnt/theirs") == 2
    assert shell.queue.executed == []


def test_a_resume_is_refused_and_nothing_is_recorded(shell: Shell, tmp_path: Path) -> None:
    run_dir = a_run(tmp_path, "a")
    shell.queue.living = [STRANGER]

    assert shell("resume", str(run_dir), *BROKER) == 2

    assert not control.control_records(run_dir)
    assert shell.queue.executed == []


def test_a_queue_whose_workers_fit_is_a_way_out(shell: Shell, tmp_path: Path) -> None:
    run_dir = a_run(tmp_path, "a")
    root = root_of(run_dir)
    shell.queue.serving = {
        "default": [STRANGER],
        "mine": [LiveWorker("w@near", root.digest, str(tmp_path))],
    }

    assert shell("resume", str(run_dir), *BROKER, "--queue", "mine") == 0

    assert shell.queue.executed == [("a", 1)]
    assert "no worker" not in shell.err


def test_a_run_that_is_over_asks_for_nobody(shell: Shell, tmp_path: Path) -> None:
    run_dir = a_run(tmp_path, "a")
    assert shell("resume", str(run_dir)) == 0
    shell.queue.living = [STRANGER]

    assert shell("resume", str(run_dir), *BROKER) == 0
    assert "nothing to do" in shell.err


@pytest.mark.parametrize("more", [(), ("--detach",)])
def test_without_any_worker_the_run_waits_and_says_so_in_one_line(
    shell: Shell, more: tuple[str, ...]
) -> None:
    assert shell.run(*BROKER, *more) == 0

    (line,) = [line for line in shell.err.splitlines() if "no worker" in line]
    assert f"agentcompass worker --broker … --results-dir {shell.results}" in line
    assert shell.queue.executed == [("a", 1), ("b", 1)]
