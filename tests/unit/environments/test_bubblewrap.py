"""What `bubblewrap` does beyond the contract of all environments."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentcompass.environments import bubblewrap, network
from agentcompass.environments.base import EnvironmentPlan
from agentcompass.environments.bubblewrap import Bubblewrap, BubblewrapParams, SandboxUnavailable
from agentcompass.environments.supervised import SupervisorLost
from agentcompass.models.task import TaskResources
from tests.support.sandboxes import needs_bubblewrap
from tests.unit.environments.conftest import TOKEN, children, is_gone

pytestmark = needs_bubblewrap
OpenSandbox = Callable[..., Bubblewrap]


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[OpenSandbox]:
    made: list[Bubblewrap] = []

    def open_one(resources: TaskResources | None = None, **params: object) -> Bubblewrap:
        folder = tmp_path / f"environment-{len(made)}"
        folder.mkdir()
        made.append(Bubblewrap(BubblewrapParams.model_validate(params)))
        plan = EnvironmentPlan(TOKEN, folder, {}, resources or TaskResources())
        made[-1].start(plan)
        return made[-1]

    yield open_one
    for environment in made:
        environment.close()


def test_the_system_can_be_read_and_not_written(sandbox: OpenSandbox) -> None:
    environment = sandbox()

    assert environment.exec("ls /usr/bin/env && cat /etc/passwd").exit_code == 0
    for place in ("/x", "/usr/x", "/etc/x", "/etc/passwd", "/run/x"):
        assert environment.exec(f"echo x >> {place}").exit_code != 0


def test_nothing_else_of_the_machine_is_there(sandbox: OpenSandbox, tmp_path: Path) -> None:
    (tmp_path / "secret").touch()
    environment = sandbox()

    for place in (tmp_path, Path.cwd(), Path.home() / ".ssh", "/etc/shadow", "/var/lib", "/sys"):
        assert environment.exec(["test", "-e", str(place)]).exit_code == 1


def test_files_of_home_and_tmp_stay_between_commands_and_are_private(sandbox: OpenSandbox) -> None:
    one, other = sandbox(), sandbox()

    one.exec("echo x > ~/file; echo x > /tmp/file")

    assert one.exec("cat ~/file /tmp/file /var/tmp/file").stdout == "x\n" * 3
    assert other.exec("ls -A ~ /tmp").stdout.count("file") == 0


def test_there_is_no_network(sandbox: OpenSandbox) -> None:
    assert sandbox().exec("cat /proc/net/route | wc -l").stdout.strip() == "1"
    shared = sandbox(network="host").exec("readlink /proc/self/ns/net").stdout.strip()
    assert shared == str(Path("/proc/self/ns/net").readlink())


SERVE = """
import socket
server = socket.create_server(("127.0.0.1", 8123))
open("listens", "w").close()
while True:
    server.accept()[0].sendall(b"hello")
"""
ASK = "import socket; print(socket.create_connection(('127.0.0.1', 8123)).recv(9))"


def test_a_server_that_one_command_leaves_is_reached_by_the_next_and_by_nobody_else(
    sandbox: OpenSandbox,
) -> None:
    one, other = sandbox(), sandbox()
    if one.exec("command -v python3").exit_code != 0:
        pytest.skip("there is no python3 in /usr to write a server in")
    one.exec(["sh", "-c", 'python3 -c "$1" & until [ -e listens ]; do :; done', "sh", SERVE])

    assert one.exec(["python3", "-c", ASK]).stdout == "b'hello'\n"
    assert "ConnectionRefusedError" in other.exec(["python3", "-c", ASK]).stderr
    one.quiesce()
    assert "ConnectionRefusedError" in one.exec(["python3", "-c", ASK]).stderr


def test_the_network_goes_with_the_sandbox(sandbox: OpenSandbox) -> None:
    environment = sandbox()
    holder = int(environment._entered()[4])

    environment.close()

    assert is_gone(holder)


def test_without_a_program_that_enters_one_each_command_has_a_network_of_its_own(
    sandbox: OpenSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bubblewrap, "enter_program", lambda path: None)
    environment = sandbox()

    def meeting(own: str, other: str) -> str:
        """Both are there when they look: what is gone may give its name to the next one."""
        script = f"""
            readlink /proc/self/ns/net
            touch {own}
            until test -e {other}; do sleep 0.01; done
        """
        return environment.exec(script).stdout

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(meeting, ("a", "b"), ("b", "a"))

    assert one != other
    assert environment.exec("cat /proc/net/route | wc -l").stdout.strip() == "1"


def test_a_network_that_cannot_be_made_is_said_at_the_start(
    sandbox: OpenSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "_HOLD", "echo 'not allowed' >&2")

    with pytest.raises(SandboxUnavailable, match="not allowed"):
        sandbox()


def test_other_processes_are_not_seen(sandbox: OpenSandbox) -> None:
    found = sandbox().exec("echo /proc/[0-9]*; cat /proc/1/comm").stdout

    assert len(found.split()) <= 4
    assert "bwrap" in found or "sh" in found


def test_a_command_has_no_privileges(sandbox: OpenSandbox) -> None:
    status = sandbox().exec("cat /proc/self/status").stdout

    assert "CapEff:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status


def test_a_command_is_limited(sandbox: OpenSandbox) -> None:
    environment = sandbox(file_size_bytes=1_000, open_files=30)

    assert environment.exec("ulimit -n").stdout == "30\n"
    assert environment.exec("head -c 5000 /dev/zero > big; wc -c < big").stdout == "1000\n"


def test_memory_is_limited_by_the_task(sandbox: OpenSandbox) -> None:
    hog = "x=$(head -c 200000000 /dev/zero | tr '\\0' x); echo ${#x}"

    assert sandbox(TaskResources(memory_bytes=50_000_000)).exec(hog).exit_code != 0


def test_more_of_the_machine_may_be_shown(sandbox: OpenSandbox, tmp_path: Path) -> None:
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "file").write_text("seen", encoding="utf-8")
    environment = sandbox(read_only=(str(tmp_path / "shown"),))

    assert environment.exec(["cat", str(tmp_path / "shown" / "file")]).stdout == "seen"
    assert environment.exec(["touch", str(tmp_path / "shown" / "x")]).exit_code != 0


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"read_only": ("relative",)}, "not an absolute path"),
        ({"read_only": ("/not/there",)}, "does not exist"),
    ],
)
def test_a_wrong_path_is_refused(
    sandbox: OpenSandbox, params: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        sandbox(**params)


@pytest.mark.parametrize(
    "resources", [TaskResources(image="debian"), TaskResources(dockerfile="x/Dockerfile")]
)
def test_an_image_is_refused(sandbox: OpenSandbox, resources: TaskResources) -> None:
    with pytest.raises(ValueError, match="needs the image"):
        sandbox(resources)


def test_links_lead_where_they_lead_inside(sandbox: OpenSandbox, tmp_path: Path) -> None:
    environment = sandbox()
    environment.exec("mkdir d; echo x > d/x; ln -s /workspace/d/x d/in; ln -s /etc/passwd d/out")

    environment.download("d", tmp_path / "out")

    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["in", "x"]


def test_nothing_is_written_through_a_link_of_the_agent(
    sandbox: OpenSandbox, tmp_path: Path
) -> None:
    environment, source = sandbox(), tmp_path / "source"
    source.write_text("x", encoding="utf-8")
    environment.exec("ln -s /etc/victim link; ln -s /etc folder")

    for target in ("link", "folder/victim", "/etc/x", "../x"):
        with pytest.raises(ValueError, match="outside"):
            environment.upload(source, target)

    assert not Path("/etc/victim").exists()


def test_a_missing_program_is_said_once_and_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)

    with pytest.raises(SandboxUnavailable, match="needs Linux, the program bwrap"):
        Bubblewrap(BubblewrapParams()).start(EnvironmentPlan("t", tmp_path, {}))


def test_refused_namespaces_are_said_once_and_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'No permissions' >&2; exit 1\n", encoding="utf-8")
    fake.chmod(0o755)
    monkeypatch.setattr("shutil.which", lambda *_, **__: str(fake))
    (tmp_path / "root").mkdir()

    with pytest.raises(SandboxUnavailable, match="No permissions; it needs"):
        Bubblewrap(BubblewrapParams()).start(EnvironmentPlan("t", tmp_path / "root", {}))


def test_what_lost_its_supervisor_is_found_by_its_label(sandbox: OpenSandbox) -> None:
    environment = sandbox()
    before = children()
    script = (
        "import os, signal, sys, time; time.sleep(0.5); os.kill(int(sys.argv[1]), signal.SIGKILL)"
    )

    def kill_the_supervisor() -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", script, (children() - before).pop()])

    environment.exec("setsid sleep 300 & true")
    killer = kill_the_supervisor()
    with pytest.raises(SupervisorLost):
        environment._commands._running[0].result()
    killer.wait()
    environment.quiesce()

    assert _sandboxed_processes(environment) == []


def test_everything_dies_with_a_worker_that_is_killed(tmp_path: Path) -> None:
    script = """
        import sys
        from pathlib import Path
        from agentcompass.environments.base import EnvironmentPlan
        from agentcompass.environments.bubblewrap import Bubblewrap, BubblewrapParams
        environment = Bubblewrap(BubblewrapParams())
        environment.start(EnvironmentPlan("killed", Path(sys.argv[1]), {}))
        environment.exec("(setsid sleep 300 &) ; echo x > started; sleep 300")
    """
    folder = tmp_path / "environment"
    folder.mkdir()
    worker = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script), folder])
    while not (folder / "work" / "started").exists():
        assert worker.poll() is None
    inside = _labelled("killed")

    worker.send_signal(signal.SIGKILL)
    worker.wait()

    assert len(inside) >= 3
    assert all(is_gone(pid) for pid in inside)


def _sandboxed_processes(environment: Bubblewrap) -> list[int]:
    return [pid for pid in _labelled(TOKEN) if not is_gone(pid, within_s=5)]


def _labelled(token: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            variables = (path / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"AGENTCOMPASS_TOKEN={token}".encode() in variables and int(path.name) != os.getpid():
            found.append(int(path.name))
    return found
