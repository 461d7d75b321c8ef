"""What a pool child's attempt started by itself ends with it; each test has a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.processes import marked_with
from workers.keeping import processes, strays
from workers.keeping.instance import open_instance
from workers.keeping.reaper import bury

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and subreapers")
NAP = f"600.{os.getpid()}"


def in_a_process(code: str) -> str:
    script = f"""
        import os, subprocess, sys
        from workers.keeping import strays
        NAP = "{NAP}"
        def daemon():
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    os.execlp("sleep", "sleep", NAP)
                os._exit(0)
            os.wait()
        {code}
    """
    argv = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_children_and_daemons_end() -> None:
    code = "strays.adopt(); subprocess.Popen(['sleep', NAP]); daemon(); print(strays.end_all())"

    assert in_a_process(code).split() == ["2"]
    assert marked_with([NAP]) == []


def test_with_nothing_below_nothing_happens() -> None:
    assert in_a_process("print(strays.end_all())").split() == ["0"]


def test_a_thread_that_ends_meanwhile_hides_no_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for thread in range(1, 9):
        (tmp_path / f"1/task/{thread}").mkdir(parents=True)
    (tmp_path / "1/task/4/children").write_text("42 43 ")
    monkeypatch.setattr(strays, "_PROC", tmp_path)

    assert strays._below(1) == [42, 43]


def test_the_own_process_of_an_execution_is_cleared_when_it_is_over(tmp_path: Path) -> None:
    code = f"""
        from pathlib import Path
        from agentcompass.runtime.ports import Execution, LeaseKey
        from workers.keeping.keeper import SlipKeeper
        keeper, place = SlipKeeper(Path({str(tmp_path)!r}), "w"), Path("/run")
        keeper.own_process()
        key = LeaseKey("ab" * 4, "run-1", 0, 1)
        with keeper.watch(Execution(key, "token-1", "t0", 1, place, place, os.getpid())):
            script = "echo $AGENTCOMPASS_TOKEN; sleep " + NAP
            own = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True); daemon()
            print(own.stdout.readline())
        print("AGENTCOMPASS_TOKEN" in os.environ)
    """

    assert in_a_process(code.strip()).split() == ["token-1", "False"]
    assert marked_with([NAP]) == []


def test_what_code_inside_of_a_worker_left_ends_with_the_worker(tmp_path: Path) -> None:
    instance = open_instance(tmp_path / "base", "w")
    env = {"PATH": os.environ["PATH"], processes.WORKER_LABEL: instance.path.name}
    left = subprocess.Popen(["sleep", NAP], env=env)

    bury(instance)

    assert left.wait(10) == -9
