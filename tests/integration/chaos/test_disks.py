"""Disks that are full, late, another one's, or hold half a file.

Field reports P01, P18, P25.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from agentcompass.coordinator.ports import PendingAttempt
from agentcompass.coordinator.runs import opened
from agentcompass.errors import RecordCorrupt
from agentcompass.runtime.finalize import finalize
from agentcompass.store import attempts
from agentcompass.store.check import check_run
from agentcompass.store.root import ResultsRoot, open_root
from tests.support.broker import server_binary
from tests.support.chaos_house import House, Run
from tests.support.cluster import until
from workers.dispatch import RedisQueue

pytestmark = pytest.mark.integration
SIZE = 5_500_000
BIG = "trajectory:1000000"
ARTIFACTS = "tests.support.chaos_agents:ArtifactBenchmark"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[House]:
    """A house whose results lie on a disk of a few megabytes."""
    if server_binary() is None:
        pytest.skip("no Redis or Valkey server is installed")
    if sys.platform != "linux":
        pytest.skip("needs a file system in memory")
    place = tmp_path / "results"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("may not mount a file system here")
    try:
        with House(tmp_path) as made:
            yield made
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_stops_a_worker_and_room_lets_resume_complete(small_disk: House) -> None:
    house = small_disk
    worker = house.worker(slots=1)
    run = house.detached(4, script={f"t{number}": BIG for number in range(3)})

    assert worker.wait(60) == 2

    assert run.results() == 2
    assert "No space left" in house.log_of(worker)
    assert run.check() == []
    _make_room(house)
    house.worker(slots=1)
    said = house.resume(run)
    assert said.code == 0, said
    assert [run.executed(f"t{number}") for number in (0, 1)] == [1, 1]
    assert (run.counts()["evaluated"], run.check()) == (4, [])


def test_a_run_of_its_own_workers_says_that_the_disk_is_full_and_goes_on_later(
    small_disk: House,
) -> None:
    house = small_disk
    run, flags = house.flags(3, "--workers", "1", script={"*": BIG})
    at = flags.index("--broker")
    del flags[at : at + 2]

    said = house.cluster.call("run", *flags)

    assert (said.code, run.results(), run.check()) == (3, 2, []), said
    assert "No space left" in said.err
    _make_room(house)
    said = house.cluster.call("resume", str(run.dir), "--workers", "1")
    assert said.code == 0, said
    assert [run.executed(f"t{number}") for number in (0, 1)] == [1, 1]


def test_an_artifact_that_does_not_fit_is_that_attempts_own_failure(small_disk: House) -> None:
    house = small_disk
    house.worker(slots=1)
    make = f"run:head -c {SIZE * 2} /dev/urandom > out"

    run, said = house.run(2, script={"t0": make}, benchmark=ARTIFACTS)

    assert said.code == 1, said
    assert run.codes("t0") == ["fatal collect artifact_transfer_failed"]
    assert "No space left" in run.result("t0").error
    assert (run.codes("t1"), run.executed("t0"), run.check()) == ([], 1, [])


@pytest.mark.parametrize("place", ["another file system", "read-only"])
def test_where_temporary_files_of_a_machine_go_does_not_matter(
    empty_house: House, place: str
) -> None:
    """The files of a run are written beside their final names."""
    house = empty_house
    run, flags = house.flags(
        2, "--workers", "1", benchmark=ARTIFACTS, script={"*": "run:echo x > out"}
    )
    at = flags.index("--broker")
    del flags[at : at + 2]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as elsewhere:
        tmpdir = elsewhere if place == "another file system" else "/proc"
        said = house.cluster.call("run", *flags, env={"TMPDIR": tmpdir})

    assert (said.code, run.results(), run.check()) == (0, 2, []), said


@pytest.fixture(scope="module")
def finished(house: House) -> Run:
    run, said = house.run(2, "-k", "2", script={"t1:2": "wrong"})
    assert said.code == 0, said
    return run


@pytest.mark.parametrize("name", ["result.json", "checkpoint.json", "task.json"])
def test_half_a_file_is_named_or_does_not_matter_and_is_never_believed(
    finished: Run, tmp_path: Path, name: str
) -> None:
    metrics = (finished.dir / "metrics.json").read_bytes()
    root = finished.house.cluster.results
    shutil.copy(root / ".agentcompass-root", tmp_path)
    for step in range(20):
        run_dir = tmp_path / f"copy-{step}"
        shutil.copytree(finished.dir, run_dir)
        for report in ("metrics.json", ".covered.json"):
            (run_dir / report).unlink()
        torn = _file_of(run_dir, name)
        torn.write_bytes(torn.read_bytes()[: torn.stat().st_size * step // 20])

        named = _named_by_finalizing(run_dir)
        assert named in ([], [torn])
        assert named or (run_dir / "metrics.json").read_bytes() == metrics
        assert torn in [violation.path for violation in check_run(run_dir)]


def test_half_a_snapshot_is_named_and_its_attempt_alone_runs_again_once_it_is_put_aside(
    house: House,
) -> None:
    run, _ = house.run(2, "-k", "2")
    directory = _file_of(run.dir, "result.json").parent
    (directory / "result.json").unlink()
    torn = directory / "checkpoint.json"
    torn.write_bytes(torn.read_bytes()[:99])

    refused = house.resume(run)
    executed = run.executed()
    said = house.resume(run, "--quarantine")

    assert (refused.code, executed) == (2, 4), refused
    assert str(torn) in refused.err
    assert said.code == 0, said
    assert (run.executed(), run.executed("t1", 2), run.check()) == (5, 2, [])


def test_a_worker_of_another_folder_gives_back_and_ends_and_the_run_goes_on(
    empty_house: House,
) -> None:
    house = empty_house
    run = house.detached(4)
    elsewhere = house.cluster.directory / "elsewhere"
    open_root(elsewhere)
    stranger = house.worker(results=elsewhere)

    assert stranger.wait(60) == 2
    assert house.log_of(stranger).count("is it mounted?") == 1
    house.worker()
    run.wait()

    assert (run.executed(), run.check()) == (4, [])


def test_the_wrong_folder_is_refused_while_workers_live_and_stops_none_of_them(
    empty_house: House,
) -> None:
    house = empty_house
    worker = house.worker()
    assert house.run(2)[1].code == 0
    _await_their_folder(house)
    wrong = house.cluster.directory / "wrong"
    flags = house.flags(3)[1]
    flags[flags.index("--results-dir") + 1] = str(wrong)

    refused = house.cluster.call("run", *flags)

    assert refused.code == 2, refused
    assert str(wrong) in refused.err
    assert str(house.cluster.results) in refused.err
    assert not wrong.exists()
    assert (house.waiting(), worker.poll()) == ([], None)


def _await_their_folder(house: House) -> None:
    """A worker that was there before the folder tells of it a moment later."""
    with closing(RedisQueue(house.cluster.broker.url)) as queue:
        until(lambda: all(each.root for each in queue.workers("default")), "they name their folder")


def test_messages_of_another_folder_neither_stop_a_worker_at_work_nor_get_lost(
    empty_house: House,
) -> None:
    """They were sent while nobody lived who could tell; callbacks share one lane in any case."""
    house = empty_house
    other = house.cluster.directory / "other"
    worker = house.worker("threads")
    run, said = house.run(2, pool="threads")
    assert said.code == 0, said
    address = opened(run.dir).address
    elsewhere = replace(
        address, root=ResultsRoot(other, "ab" * 16), ref="far/away", queue="threads"
    )
    queue = RedisQueue(house.cluster.broker.url)
    queue.dispatch(elsewhere, 1, [PendingAttempt(0, 1, "t0")], 1)
    queue.finalize(elsewhere, 1)

    until(lambda: "left to other workers" in house.log_of(worker), "the worker has met it")
    again, said = house.run(4, pool="threads")

    assert (said.code, again.executed(), worker.poll()) == (0, 4, None), said
    until(lambda: queue.holdings(elsewhere).all == {(0, 1)}, "its message is kept")
    queue.close()


def test_a_worker_whose_folder_is_mounted_late_waits_for_it(empty_house: House) -> None:
    house = empty_house
    run = house.detached(2)
    late = house.cluster.directory / "late"
    worker = house.worker(results=late)
    house.awaits(worker)
    until(lambda: not house.waiting(), "its messages are taken")

    late.symlink_to(house.cluster.results)

    run.wait()
    assert (run.executed(), worker.poll(), run.check()) == (2, None, [])


def _named_by_finalizing(run_dir: Path) -> list[Path]:
    try:
        finalize(run_dir)
    except RecordCorrupt as error:
        return [path for path, _ in error.problems]
    return []


def _file_of(run_dir: Path, name: str) -> Path:
    """Return a file of the last attempt, or of its task."""
    result = attempts.result_of(run_dir, "t1", 2)
    assert result is not None
    return result.parent.parent / name if name == "task.json" else result.parent / name


def _make_room(house: House) -> None:
    size = f"remount,size={SIZE * 4}"
    subprocess.run(["mount", "-o", size, str(house.cluster.results)], check=True)
