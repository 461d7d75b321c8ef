"""What the command line meets at its borders: closed pipes, and disks that refuse."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentcompass.cli.main import main
from agentcompass.store import atomic
from tests.builders import a_result, an_issue
from tests.support.store_runs import a_run, execute


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    run_dir = a_run(tmp_path, "a", "b", "left")
    execute(run_dir, "a", 1, a_result("a", issues=[an_issue()], metrics={}))
    execute(run_dir, "b")
    return run_dir


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["list", "--json"], ["ls", "."]])
def test_a_reader_that_has_seen_enough_is_no_failure(arguments: list[str], tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "agentcompass.cli.main", *arguments]
    root = str(Path(__file__).parents[3])

    with os.fdopen(writing, "wb") as closed:
        done = subprocess.run(
            command,
            stdout=closed,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": root},
            check=False,
        )

    assert (done.returncode, done.stderr) == (0, b"no runs here\n" if "ls" in arguments else b"")


@pytest.mark.parametrize(
    "command",
    [
        ["cancel", "RUN"],
        ["pause", "RUN"],
        ["resume", "RUN", "--rerun", "errored"],
        ["report", "RUN", "--aggregation", "category_mean"],
        ["export", "RUN", "-o", "RUN/out.csv"],
        ["export", "RUN", "--format", "agentcompass-1.0", "-o", "RUN/copy"],
    ],
    ids=lambda command: command[0],
)
@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC, errno.EACCES])
def test_a_disk_that_refuses_is_told_in_a_few_lines(
    command: list[str],
    number: int,
    run_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(path: object, *_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr("agentcompass.cli.resume.require_server", lambda: None)
    for name in ("publish_once", "replace", "replace_stream", "make_directory", "remove"):
        monkeypatch.setattr(atomic, name, refuse)

    assert main([word.replace("RUN", str(run_dir)) for word in command]) == 2

    said = capsys.readouterr().err
    told = said[said.index("error: ") :].splitlines()
    assert told[0] == f"error: {os.strerror(number)}"
    assert str(run_dir) in told[1]
    assert told[2].startswith("  do: ")
    assert len(told) == 3


def test_any_other_error_of_a_file_is_a_bug_and_keeps_its_traceback(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EBADF, "bad")

    monkeypatch.setattr(atomic, "publish_once", refuse)

    with pytest.raises(OSError, match="bad"):
        main(["cancel", str(run_dir)])
