"""What a supervisor clears up after the workers that it had to kill."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from workers.keeping.instance import has_instance
from workers.keeping.reaper import reap
from workers.serving import supervisor
from workers.serving.options import ServeOptions
from workers.serving.supervisor import Supervisor

WORKER = """
import os, signal, sys
from pathlib import Path
from workers.keeping.instance import open_instance
open_instance(Path(sys.argv[1]), "w")
if os.fork() == 0:
    sys.stdin.read()
    os._exit(0)
print(os.getpid(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_pool_child_that_dies_a_moment_later_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert killed.stdin is not None
    assert killed.stdout is not None
    pid = int(killed.stdout.readline())
    assert killed.wait(30) == -9
    child = killed.stdin

    def reap_and_let_it_die(base: Path, release: Callable[[str, str], None]) -> int:
        count = reap(base, release)
        child.close()
        return count

    monkeypatch.setattr(supervisor, "reap", reap_and_let_it_die)
    assert has_instance(tmp_path, [pid])

    Supervisor(ServeOptions("attempts", "w", "results", str(tmp_path)), {})._reap([pid])

    assert list(tmp_path.glob("worker-*")) == []
    killed.stdout.close()


def test_instances_of_others_are_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "worker-of-another-one").mkdir()
    (tmp_path / "worker-of-another-one" / "alive").write_text("4711")

    assert not has_instance(tmp_path, [])
    assert not has_instance(tmp_path, [4712])
    assert has_instance(tmp_path, [4711])
