"""Everything of a run is killed while attempts stand in every phase; then it is resumed."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from agentcompass.store.check import check_run
from tests.support.cluster import Cluster, Said, until
from tests.support.docker_engine import IMAGE, docker
from tests.support.phases import LEDGER, NAP, PHASES, passes
from tests.support.processes import command_lines, descendants, freeze
from tests.support.sandboxes import needs_bubblewrap
from tests.support.tree import paths_in

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

MODULE = "tests.support.phases"
REPEATED: Mapping[str, tuple[int, int, int, int]] = {
    # killed in:      set up, run, evaluated, analyzed; in all
    "setup": (2, 1, 1, 1),
    "prepare": (2, 1, 1, 1),
    "run": (2, 2, 1, 1),
    "collect": (2, 2, 1, 1),
    "snapshot": (2, 2, 1, 1),
    "after_snapshot": (1, 1, 1, 1),
    "evaluate": (1, 1, 2, 1),
    "analyze": (1, 1, 2, 2),
    "publish": (1, 1, 2, 2),
    "after_publish": (1, 1, 1, 1),
}
"""What the design says: up to the snapshot the agent's work is lost, after it only the verdict."""


@pytest.mark.parametrize(
    "kind",
    [
        "SlowHostProcess",
        pytest.param("SlowBubblewrap", marks=needs_bubblewrap),
        "SlowDocker",
    ],
)
def test_only_what_was_not_snapshotted_is_repeated_and_nothing_is_left(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    engine = request.getfixturevalue("engine") if kind == "SlowDocker" else ""
    image = ("--param", f"environment.image={IMAGE}") if engine else ()
    ours = (str(tmp_path), str(Path(engine.removeprefix("unix://")).parent) if engine else "-")
    mounted = mounts(ours)
    ledger, nap = tmp_path / "ledger", f"3{os.getpid()}"
    with a_cluster(tmp_path, nap) as cluster:
        killed_in(cluster, ledger, PHASES, "--environment", f"{MODULE}:{kind}", *image)
        said = cluster.call("resume", str(cluster.the_run()), "--workers", "2")

        assert said.code == 0, explained(said, cluster)
        assert repeated(ledger, PHASES) == REPEATED
        assert check_run(cluster.the_run(), deep=True) == []
        until(lambda: named(nap) == [], "no process of an agent is left")
    assert engine == "" or docker(engine, "ps", "--all", "--quiet") == ""
    assert [path.name for path in paths_in(tmp_path / "tmp", "**/*.e*-0")] == []
    assert mounts(ours) == mounted


def test_r25_an_altered_artifact_makes_the_agent_run_again_and_no_other_does(
    tmp_path: Path,
) -> None:
    ledger, tasks = tmp_path / "ledger", ("evaluate", "analyze")
    with a_cluster(tmp_path, f"3{os.getpid()}") as cluster:
        killed_in(cluster, ledger, tasks, "--environment", f"{MODULE}:SlowHostProcess")
        (artifact,) = paths_in(
            cluster.the_run(), "details/*/evaluate--*/attempt-1/artifacts/*/*/answer"
        )
        artifact.write_text("43\n")
        said = cluster.call("resume", str(cluster.the_run()), "--workers", "2")

        assert said.code == 0, explained(said, cluster)
        assert repeated(ledger, tasks) == {"evaluate": (2, 2, 2, 1), "analyze": (1, 1, 2, 2)}
        assert check_run(cluster.the_run(), deep=True) == []


def a_cluster(folder: Path, nap: str) -> Cluster:
    (folder / "tmp").mkdir()
    own = {LEDGER: str(folder / "ledger"), NAP: nap, "TMPDIR": str(folder / "tmp")}
    return Cluster(folder, own)


def killed_in(cluster: Cluster, ledger: Path, tasks: Sequence[str], *more: str) -> None:
    """Run these tasks until each stands in its phase, and kill everything but the agents."""
    first = cluster.start(
        *("run", "--benchmark", f"{MODULE}:PhasesBenchmark", "--model", "m"),
        *("--harness", f"{MODULE}:PhasesHarness", *more),
        *("--analyzer", f"{MODULE}:PhasesAnalyzer", "--max-retries", "0"),
        *("--pool", "threads", "--workers", str(len(tasks))),
        *("--results-dir", str(cluster.results)),
        *(word for task in tasks for word in ("--task-id", task)),
    )
    there = "an attempt stands in each phase"
    until(lambda: all(passes(ledger)[task, task] for task in tasks), there)
    kill_all_but_agents(first.pid)
    first.wait()


def kill_all_but_agents(pid: int) -> None:
    """SIGKILL coordinator, broker, workers and their helpers; what agents run has to end by itself."""
    everyone, commands = freeze(pid), command_lines()
    supervisors = [each for each in everyone if "supervisor.py" in " ".join(commands.get(each, ()))]
    agents = {below for each in supervisors for below in (each, *descendants(each))}
    for each in everyone:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGCONT if each in agents else signal.SIGKILL)


def repeated(ledger: Path, tasks: Sequence[str]) -> Mapping[str, tuple[int, ...]]:
    seen = passes(ledger)
    phases = ("setup", "run", "evaluate", "analyze")
    return {task: tuple(seen[phase, task] for phase in phases) for task in tasks}


def named(word: str) -> list[str]:
    return [" ".join(words) for words in command_lines().values() if word in words]


def mounts(below: tuple[str, ...]) -> list[str]:
    """Return what is mounted below these folders."""
    places = (line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines())
    return sorted(place for place in places if place.startswith(below))


def explained(said: Said, cluster: Cluster) -> str:
    return f"{said}\n{cluster.log_text()}"
