"""What `docker` does beyond the contract of all environments."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentcompass.environments.base import EnvironmentPlan
from agentcompass.environments.docker import images
from agentcompass.environments.docker.environment import Docker, DockerParams
from agentcompass.environments.docker.images import ImageUnavailable
from agentcompass.models.task import TaskResources
from tests.support.docker_engine import IMAGE, docker
from workers.keeping import leftovers

pytestmark = pytest.mark.integration
OpenContainer = Callable[..., Docker]


@pytest.fixture
def opened(engine: str, tmp_path: Path) -> Iterator[OpenContainer]:
    made: list[Docker] = []

    def open_one(resources: TaskResources | None = None, **params: object) -> Docker:
        folder = tmp_path / f"environment-{len(made)}"
        folder.mkdir()
        made.append(Docker(DockerParams.model_validate({"image": IMAGE, **params})))
        labels = {"run": "the-run", "task": "the-task", "attempt": "1"}
        plan = EnvironmentPlan("token-of-a-test", folder, {}, resources or TaskResources(), labels)
        made[-1].start(plan)
        return made[-1]

    yield open_one
    for environment in made:
        environment.close()
    assert containers(engine) == []


def containers(engine: str) -> list[str]:
    return docker(engine, "ps", "--all", "--quiet").split()


def inspected(engine: str) -> dict[str, Any]:
    (found,) = json.loads(docker(engine, "inspect", *containers(engine)))
    assert isinstance(found, dict)
    return found


def test_a_container_is_limited_and_labelled(opened: OpenContainer, engine: str) -> None:
    opened(TaskResources(cpus=0.5, memory_bytes=64 << 20), processes=50, memory_bytes=1 << 30)

    found = inspected(engine)
    host, labels = found["HostConfig"], found["Config"]["Labels"]

    assert (host["NanoCpus"], host["Memory"], host["MemorySwap"]) == (5e8, 64 << 20, 64 << 20)
    assert (host["PidsLimit"], host["NetworkMode"]) == (50, "none")
    assert labels["agentcompass.token"] == "token-of-a-test"
    assert (labels["agentcompass.run"], labels["agentcompass.task"]) == ("the-run", "the-task")


def test_limits_hold(opened: OpenContainer) -> None:
    environment = opened(memory_bytes=32 << 20, processes=20)

    many = environment.exec("for i in $(seq 40); do sleep 5 & done; wait", timeout_s=20)
    much = environment.exec("x=$(head -c 100000000 /dev/zero | tr '\\0' x); echo ${#x}")

    assert "fork" in many.stderr
    assert much.exit_code != 0


def test_there_is_no_network(opened: OpenContainer) -> None:
    assert opened().exec("wc -l < /proc/net/route").stdout.strip() == "1"


def test_secrets_are_not_in_the_description_of_the_container(
    opened: OpenContainer, engine: str
) -> None:
    opened().exec("true", env={"KEY": "canary-of-a-test"})

    assert "canary-of-a-test" not in json.dumps(inspected(engine))


def test_another_user_works_as_well(opened: OpenContainer, tmp_path: Path) -> None:
    environment = opened(user="1000:1000")
    (tmp_path / "file").write_text("text", encoding="utf-8")

    environment.upload(tmp_path / "file", "in/file")

    assert environment.exec("id -u; cat in/file; echo x >> in/file").stdout == "1000\ntext"
    assert environment.exec("cat; echo x > /tmp/file", stdin="read").stdout == "read"
    assert environment.exec("ls -A /tmp").stdout == "file\n"
    assert environment.exec("sleep 100", timeout_s=0.3).timed_out


def test_a_container_outlives_an_agent_that_kills_what_it_sees(opened: OpenContainer) -> None:
    environment = opened()

    environment.exec("killall sleep; kill 1; kill -9 1; killall -TERM sh")

    assert environment.exec("echo alive").stdout == "alive\n"


def test_what_hides_from_its_label_ends_at_the_latest_when_it_is_quiesced(
    opened: OpenContainer, engine: str
) -> None:
    environment = opened()
    hidden = "env -i setsid sleep 300 &"

    environment.exec(f"{hidden} sleep 100", timeout_s=0.3)
    environment.quiesce()

    assert "sleep 300" not in environment.exec("ps").stdout


def test_a_quiet_container_is_not_restarted(opened: OpenContainer, engine: str) -> None:
    environment = opened()
    started = inspected(engine)["State"]["StartedAt"]

    environment.exec("true")
    environment.quiesce()

    assert inspected(engine)["State"]["StartedAt"] == started


def test_too_much_is_not_downloaded(opened: OpenContainer, tmp_path: Path) -> None:
    environment = opened(download_limit_bytes=1 << 20)
    environment.exec("dd if=/dev/zero of=big bs=1M seek=500000 count=1")

    with pytest.raises(OSError, match="larger than what may be downloaded"):
        environment.download("big", tmp_path / "big")
    assert not (tmp_path / "big").exists()


def test_a_link_is_followed_inside(opened: OpenContainer, tmp_path: Path) -> None:
    environment = opened()
    environment.exec("echo x > file; ln -s file one; ln -s /workspace/one two; ln -s loop loop")

    environment.download("two", tmp_path / "out")

    assert (tmp_path / "out").read_text("utf-8") == "x\n"
    with pytest.raises(ValueError, match="circle"):
        environment.download("loop", tmp_path / "loop")


def test_a_task_may_bring_its_dockerfile(opened: OpenContainer, tmp_path: Path) -> None:
    folder = tmp_path / "tasks" / "one"
    folder.mkdir(parents=True)
    text = f"FROM {IMAGE}\nCOPY data /data\nRUN echo built > /made\nWORKDIR /own\n"
    (folder / "Dockerfile").write_text(text, encoding="utf-8")
    (folder / "data").write_text("first", encoding="utf-8")
    wanted = TaskResources(dockerfile="one/Dockerfile")
    params = {"build_root": str(tmp_path / "tasks"), "build_network": "none"}

    assert opened(wanted, **params).exec("cat /data /made; pwd").stdout == "firstbuilt\n/own\n"
    (folder / "data").write_text("second", encoding="utf-8")
    assert opened(wanted, **params).exec("cat /data").stdout == "second"


def test_built_images_are_removed_when_they_are_old_and_nobody_needs_them(
    opened: OpenContainer, tmp_path: Path, engine: str
) -> None:
    params = {"image": None, "build_network": "none"}
    for name in ("used", "unused"):
        (tmp_path / name).mkdir()
        text = f"FROM {IMAGE}\nRUN echo {name} > /made\n"
        (tmp_path / name / "Dockerfile").write_text(text, encoding="utf-8")
    opened(**params, dockerfile=str(tmp_path / "unused" / "Dockerfile")).close()
    environment = opened(**params, dockerfile=str(tmp_path / "used" / "Dockerfile"))
    assert environment._client is not None

    assert images.prune_built(environment._client, 3_600) == 0
    assert images.prune_built(environment._client, 0) >= 1

    left = docker(engine, "images", "--quiet", "agentcompass-built").split()
    assert len(left) == 1
    assert environment.exec("cat /made").stdout == "used\n"


@pytest.mark.parametrize(
    ("resources", "params", "error", "message"),
    [
        (TaskResources(dockerfile="x/Dockerfile"), {}, ValueError, "build_root is not set"),
        (TaskResources(dockerfile="../x"), {"build_root": "/srv"}, ValueError, "outside"),
        (TaskResources(dockerfile="x"), {"build_root": "/srv"}, ImageUnavailable, "no Dockerfile"),
        (TaskResources(image="no/such"), {"pull": "never"}, ImageUnavailable, "no/such"),
        (TaskResources(), {"image": None}, ValueError, "neither the task"),
    ],
)
def test_an_image_that_cannot_be_had_is_named(
    opened: OpenContainer,
    resources: TaskResources,
    params: dict[str, object],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        opened(resources, **params)


def test_a_build_that_fails_says_what_it_said(opened: OpenContainer, tmp_path: Path) -> None:
    text = f"FROM {IMAGE}\nRUN echo the-reason; exit 3\n"
    (tmp_path / "Dockerfile").write_text(text, encoding="utf-8")
    params = {"image": None, "dockerfile": str(tmp_path / "Dockerfile"), "build_network": "none"}

    with pytest.raises(ImageUnavailable, match="the-reason"):
        opened(**params)


def test_an_interrupted_command_dies_when_it_is_quiesced(opened: OpenContainer) -> None:
    environment = opened()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    is_over = threading.Event()

    def interrupt_it() -> None:
        while "sleep 222" not in environment.exec("ps").stdout:
            if is_over.is_set():
                return
        os.kill(os.getpid(), signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, interrupt)
    thread = threading.Thread(target=interrupt_it)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            environment.exec("sleep 222")
    finally:
        is_over.set()
        thread.join()
        signal.signal(signal.SIGALRM, before)
    environment.quiesce()

    assert "sleep 222" not in environment.exec("ps").stdout


def test_closing_from_another_thread_ends_a_running_command(opened: OpenContainer) -> None:
    environment = opened()
    ended: list[int] = []

    def run() -> None:
        with contextlib.suppress(Exception):
            ended.append(environment.exec("sleep 100").exit_code)
        ended.append(-9)

    thread = threading.Thread(target=run)
    thread.start()
    while "sleep 100" not in environment.exec("ps").stdout:
        pass
    environment.close()

    thread.join(20)
    assert set(ended) == {-9}


def test_100_megabytes_of_output_stay_out_of_memory(engine: str, tmp_path: Path) -> None:
    script = f"""
        import resource, sys
        from pathlib import Path
        from agentcompass.environments.base import EnvironmentPlan
        from agentcompass.environments.docker.environment import Docker, DockerParams
        environment = Docker(DockerParams(image={IMAGE!r}))
        environment.start(EnvironmentPlan("t", Path(sys.argv[1]), {{}}))
        environment.exec("true")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found = environment.exec("yes | head -c 100000000; dd if=/dev/zero of=big bs=1M count=60")
        environment.download("big", Path(sys.argv[1], "big"))
        environment.upload(Path(sys.argv[1], "big"), "back")
        environment.close()
        print(found.stdout_bytes, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), tmp_path], capture_output=True, check=True
    )

    size, grown_kib = ended.stdout.split()
    assert (int(size), int(grown_kib) < 30_000) == (100_000_000, True)


def test_a_dead_workers_container_is_removed_and_no_other(
    opened: OpenContainer, engine: str, tmp_path: Path
) -> None:
    script = f"""
        import sys, time
        from pathlib import Path
        from agentcompass.environments.base import EnvironmentPlan
        from agentcompass.environments.docker.environment import Docker, DockerParams
        environment = Docker(DockerParams(image={IMAGE!r}))
        environment.start(EnvironmentPlan(sys.argv[1], Path(sys.argv[2]), {{}}))
        print("started", flush=True)
        time.sleep(300)
    """
    opened()
    (mine,) = containers(engine)
    folder = tmp_path / "dead.environment-0"
    folder.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), "dead", folder], stdout=subprocess.PIPE
    ) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"started\n"
        worker.kill()
    assert len(containers(engine)) == 2

    leftovers.clear(tmp_path, ["dead"])

    assert containers(engine) == [mine]


def test_a_process_clears_up_after_dead_ones_before_its_first_container(
    opened: OpenContainer, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "from agentcompass.environments.docker import leftovers; print(leftovers.owner())"
    owner = subprocess.check_output([sys.executable, "-c", script], text=True).strip()
    labels = ["--label", "agentcompass.token=t", "--label", f"agentcompass.owner={owner}"]
    docker(engine, "run", "--detach", "--network", "none", *labels, IMAGE, "sleep", "300")
    monkeypatch.setattr(Docker, "_has_swept", False)

    opened()

    assert inspected(engine)["Config"]["Labels"]["agentcompass.run"] == "the-run"


def test_a_worker_without_the_sdk_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "docker", None)

    with pytest.raises(Exception, match=r"pip install 'agentcompass-distributed\[docker\]'"):
        Docker(DockerParams(image=IMAGE)).start(EnvironmentPlan("t", tmp_path, {}))


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_an_engine_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-socket")

    with pytest.raises(Exception, match="no-socket"):
        Docker(DockerParams(image=IMAGE)).start(EnvironmentPlan("t", tmp_path, {}))
    gc.collect()  # the SDK forgets a socket that did not connect
