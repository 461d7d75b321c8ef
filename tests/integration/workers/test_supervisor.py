"""`agentcompass worker` as a process: what its supervisor does about the ends of its workers."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from agentcompass.errors import UsageError
from tests.support.processes import children
from tests.support.tree import paths_in
from tests.support.worker_lab import QUICK, WorkerLab, ledger, until
from workers.worker_main import WorkerOptions, serve_options

pytestmark = pytest.mark.integration


def supervise(program: list[str], tmp_path: Path, **clocks: str) -> subprocess.Popen[bytes]:
    """Start a supervisor whose worker processes are a program of a line."""
    code = (
        "import os, sys; from pathlib import Path\n"
        "from workers.serving.options import ServeOptions\n"
        "from workers.serving.supervisor import Supervisor\n"
        "options = ServeOptions('attempts', 'w@h', 'results', sys.argv[1])\n"
        "sys.exit(Supervisor(options, os.environ, program=sys.argv[2:]).run())"
    )
    env = {**os.environ, **QUICK, "AGENTCOMPASS_TICK_S": "0.05", **clocks}
    base = tmp_path / "base"
    base.mkdir()
    return subprocess.Popen([sys.executable, "-c", code, str(base), *program], env=env)


def writing(path: Path, then: str) -> list[str]:
    return ["-c", f"import os, sys, time; open({str(path)!r}, 'a').write('x'); {then}"]


def test_a_process_that_never_starts_is_given_up_after_five_times(tmp_path: Path) -> None:
    starts = tmp_path / "starts"

    assert supervise(writing(starts, "sys.exit(3)"), tmp_path).wait(50) == 1
    assert 5 <= len(starts.read_text()) <= 10  # of both kinds


def test_a_worker_that_refuses_its_messages_is_not_started_again(tmp_path: Path) -> None:
    starts = tmp_path / "starts"

    assert supervise(writing(starts, "sys.exit(78)"), tmp_path).wait(50) == 2
    assert len(starts.read_text()) <= 2


def test_a_worker_that_does_not_end_is_killed_in_the_end(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    process = supervise(writing(starts, deaf), tmp_path, AGENTCOMPASS_STOP_S="1")
    until(lambda: starts.exists() and len(starts.read_text()) == 2)
    pids = children(process.pid)
    assert pids

    process.terminate()
    process.terminate()

    assert process.wait(50) == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_its_workers_do_not_outlive_a_supervisor_that_was_killed(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    process = supervise(writing(starts, "time.sleep(600)"), tmp_path)
    until(lambda: starts.exists() and len(starts.read_text()) == 2)
    pids = children(process.pid)
    assert pids

    process.kill()
    process.wait()

    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


def test_the_whole_worker_serves_and_ends_on_request(lab: WorkerLab) -> None:
    run = lab.run(4)
    lab.dispatch(run, 4)
    argv = [sys.executable, "-m", "tests.support.stub_agentcompass_worker"]
    worker = lab.start([*argv, str(lab.root.path), str(lab.base)], "worker", {})
    until(lambda: ledger(run, "finalize"))

    worker.send_signal(signal.SIGTERM)

    assert worker.wait(40) == 0
    assert paths_in(lab.base, "worker-*") == []
    assert re.search(r"my-worker@\S+: 2 prefork slots for default of redis://127", lab.log())


def test_left_open_choices_are_made(tmp_path: Path) -> None:
    options = WorkerOptions("redis://h", Path("results"), work_dir=tmp_path / "own")
    served = serve_options(options)

    assert served.name.endswith(f"@{socket.gethostname()}")
    assert served.concurrency == os.cpu_count()
    assert Path(served.results_dir).is_absolute()
    assert (tmp_path / "own").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("wrong", [{"concurrency": 100_000}, {"concurrency": -1}, {"queues": ()}])
def test_what_cannot_work_is_refused(wrong: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        serve_options(WorkerOptions("redis://h", tmp_path, work_dir=tmp_path, **wrong))  # type: ignore[arg-type]
