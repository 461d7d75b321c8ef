"""What `host_process` does beyond the contract of all environments."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from agentcompass.environments.host_process import HostProcess, HostProcessParams
from agentcompass.environments.supervised import SupervisorLost
from agentcompass.models.task import TaskResources
from tests.unit.environments.conftest import TOKEN, Open, children, is_alive, is_gone

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and subreapers")


def test_nothing_is_made_before_the_first_command(opened: Open, tmp_path: Path) -> None:
    before = children()

    environment = opened()

    assert list((tmp_path / "environment-0").iterdir()) == []
    assert children() == before
    environment.close()
    assert not (tmp_path / "environment-0").exists()


def test_home_and_temporary_files_are_inside_and_the_label_is_set(opened: Open) -> None:
    environment = opened()

    found = environment.exec("echo $HOME; dirname $TMPDIR; echo $AGENTCOMPASS_TOKEN").stdout

    assert found.split() == [
        environment.work_dir,
        str(Path(environment.work_dir).parent),
        TOKEN,
    ]


def test_named_variables_of_the_worker_may_be_passed(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_HOME", "/cuda")

    assert opened(pass_env=("CUDA_HOME", "NOT_SET")).exec("echo $CUDA_HOME").stdout == "/cuda\n"


@pytest.mark.parametrize(
    ("params", "command", "message"),
    [
        ({"file_size_bytes": 1_000}, "head -c 5000 /dev/zero > big; wc -c < big", "1000"),
        ({"open_files": 20}, "ulimit -n", "20"),
        ({"cpu_s": 7}, "ulimit -t", "7"),
        ({}, "ulimit -c", "0"),
    ],
)
def test_a_command_is_limited(
    opened: Open, params: dict[str, object], command: str, message: str
) -> None:
    assert message in opened(**params).exec(command).stdout


@linux
def test_memory_is_limited_by_the_task_before_the_parameters(opened: Open) -> None:
    hog = [sys.executable, "-I", "-S", "-c", "x = bytearray(300_000_000); print(len(x))"]
    small = TaskResources(memory_bytes=100_000_000)

    assert opened(small, memory_bytes=10**9).exec(hog).exit_code != 0
    assert opened(memory_bytes=10**9).exec(hog).stdout == "300000000\n"


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        (TaskResources(image="ubuntu"), "needs the image 'ubuntu'"),
        pytest.param(
            TaskResources(gpus=1),
            "needs 1 GPUs",
            marks=pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="has a GPU"),
        ),
    ],
)
def test_what_a_host_cannot_give_is_refused(
    opened: Open, resources: TaskResources, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        opened(resources)


@pytest.mark.parametrize("path", ["/etc/passwd", "../../x", "link/x"])
def test_nothing_is_copied_to_or_from_outside(opened: Open, tmp_path: Path, path: str) -> None:
    environment = opened()
    environment.exec("ln -s /etc link")
    source = tmp_path / "source"
    source.write_text("x", encoding="utf-8")

    with pytest.raises(ValueError, match="outside of the environment"):
        environment.upload(source, path)
    with pytest.raises(ValueError, match="outside of the environment"):
        environment.download(path, tmp_path / "target")


def test_python_does_not_change_how_signals_work_in_a_command(opened: Open) -> None:
    assert opened().exec("yes | head -n 1; echo ${PIPESTATUS:-}").exit_code == 0


@linux
def test_a_command_that_kills_its_supervisor_is_found_by_its_label(opened: Open) -> None:
    environment = opened()
    pid_file = Path(environment.work_dir) / "pid"

    with pytest.raises(SupervisorLost, match="exit code -9"):
        environment.exec("setsid sleep 100 & echo $! > pid; kill -9 $PPID; sleep 100")

    environment.quiesce()
    assert is_gone(int(pid_file.read_text("utf-8")))


@linux
def test_what_kills_its_supervisor_from_the_background_is_found_by_its_label(opened: Open) -> None:
    environment = opened()
    environment.exec("setsid sleep 100 & echo $! > pid; (sleep 0.1; kill -9 $PPID; touch done) &")
    folder = Path(environment.work_dir)
    while not (folder / "done").exists():
        time.sleep(0.01)

    environment.exec("true")  # the dead one is forgotten here
    environment.quiesce()

    assert is_gone(int((folder / "pid").read_text("utf-8")))


@linux
def test_what_forks_all_the_time_ends_with_its_time(opened: Open) -> None:
    environment = opened()
    # Not a bomb: one loop makes a few hundred processes in this time.
    sleep = f"sleep 300.{os.getpid()}"
    script = f"while :; do setsid {sleep} & done"

    found = environment.exec(script, timeout_s=0.2)

    assert found.timed_out
    assert environment.exec(f"ps -eo args | grep -c '^{sleep}'").stdout == "0\n"


@linux
def test_500_megabytes_of_output_stay_out_of_memory(opened: Open) -> None:
    script = """
        import resource, sys
        from pathlib import Path
        from agentcompass.environments.base import EnvironmentPlan
        from agentcompass.environments.host_process import HostProcess, HostProcessParams
        environment = HostProcess(HostProcessParams())
        environment.start(EnvironmentPlan("t", Path(sys.argv[1]), {}))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found = environment.exec("yes | head -c 500000000")
        environment.close()
        print(found.stdout_bytes, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    environment = opened()
    folder = Path(environment.exec("mkdir inner; pwd").stdout.strip()) / "inner"

    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), folder], capture_output=True, check=True
    )

    size, grown_kib = ended.stdout.split()
    assert (int(size), int(grown_kib) < 20_000) == (500_000_000, True)


@linux
def test_everything_dies_with_a_worker_that_is_killed(opened: Open, tmp_path: Path) -> None:
    script = """
        import sys
        from pathlib import Path
        from agentcompass.environments.base import EnvironmentPlan
        from agentcompass.environments.host_process import HostProcess, HostProcessParams
        environment = HostProcess(HostProcessParams())
        environment.start(EnvironmentPlan("t", Path(sys.argv[1]), {}))
        environment.exec("setsid sleep 300 & echo $! > a; (setsid sleep 300 & echo $! > b); sleep 300")
    """
    folder = tmp_path / "environment"
    folder.mkdir()
    worker = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script), folder])
    pids = [_pid_in(folder / "work" / name) for name in ("a", "b")]

    worker.send_signal(signal.SIGKILL)
    worker.wait()

    assert all(is_gone(pid) for pid in pids)


def _pid_in(path: Path) -> int:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        text = path.read_text("utf-8") if path.exists() else ""
        if text.endswith("\n"):
            return int(text)
        time.sleep(0.01)
    raise AssertionError(f"{path} did not appear")


@linux
def test_an_interrupted_command_dies(opened: Open) -> None:
    environment = opened()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            environment.exec(f"echo $$ > pid; kill -ALRM {os.getpid()}; sleep 100")
    finally:
        signal.signal(signal.SIGALRM, before)

    assert is_gone(_pid_in(Path(environment.work_dir) / "pid"))


def test_closing_from_another_thread_ends_a_running_command(opened: Open) -> None:
    environment, ended = opened(), threading.Event()

    def run() -> None:
        with pytest.raises((SupervisorLost, OSError)):
            environment.exec("echo $$ > pid; sleep 100")
        ended.set()

    thread = threading.Thread(target=run)
    thread.start()
    pid = _pid_in(Path(environment.work_dir) / "pid")
    environment.close()

    thread.join(10)
    assert ended.is_set()
    assert not is_alive(pid)


def test_commands_run_side_by_side(opened: Open) -> None:
    environment, found = opened(), list[str]()

    def run(number: int) -> None:
        found.append(environment.exec(f"echo {number}").stdout.strip())

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(found) == [str(number) for number in range(8)]


def test_a_closed_environment_leaves_no_child(opened: Open) -> None:
    before = children() if sys.platform == "linux" else set()
    environment = opened()
    environment.exec("sleep 100 & sleep 100 & true")

    environment.close()

    assert (children() if sys.platform == "linux" else set()) == before


def test_parameters_are_bounded() -> None:
    with pytest.raises(ValueError, match="memory_bytes"):
        HostProcess(HostProcessParams(memory_bytes=0))


def test_the_kernel_takes_a_command_before_the_worker(opened: Open) -> None:
    if not Path("/proc/self/oom_score_adj").exists():
        pytest.skip("no such thing here")

    found = opened().exec("cat /proc/self/oom_score_adj").stdout

    assert int(found) >= int(Path("/proc/self/oom_score_adj").read_text("utf-8"))
    assert os.getpid() > 0
