"""Processes that share nothing but the directory race for one name.

Field reports P15, P16.
"""

from __future__ import annotations

import json
import multiprocessing
import traceback
from collections.abc import Callable
from pathlib import Path

from agentcompass.errors import RunExists, UsageError
from agentcompass.store import atomic, attempts, control, layout, run_info
from agentcompass.store.check import check_run
from agentcompass.store.reserve import reserve
from agentcompass.store.root import open_root
from tests.builders import T0, a_result, a_task
from tests.support.store_runs import (
    a_reserved_run,
    a_root,
    a_run,
    begin,
    decide,
    execute,
    finish_planning,
    publish,
    write_report,
)

PROCESSES = 4
FORK = multiprocessing.get_context("fork")


def race(work: Callable[[int], object], count: int = PROCESSES) -> list[object]:
    """Do `work(0..count-1)` in a process each, begun together; return what they returned."""
    together = FORK.Barrier(count)
    answers: multiprocessing.SimpleQueue[tuple[int, object]] = FORK.SimpleQueue()

    def run(number: int) -> None:
        together.wait(30)
        try:
            answers.put((number, work(number)))
        except BaseException:
            answers.put((number, traceback.format_exc()))
            raise

    processes = [FORK.Process(target=run, args=(number,)) for number in range(count)]
    for process in processes:
        process.start()
    found = dict(answers.get() for _ in processes)
    for process in processes:
        process.join()
    return [found[number] for number in range(count)]


def test_one_of_many_publishes_and_its_bytes_stay(tmp_path: Path) -> None:
    bodies = [str(number).encode() * 100_000 for number in range(PROCESSES)]

    won = race(lambda number: atomic.publish_once(tmp_path / "a", bodies[number]))

    assert won.count(True) == 1
    assert (tmp_path / "a").read_bytes() == bodies[won.index(True)]
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_every_read_of_a_replaced_file_is_one_whole_body(tmp_path: Path) -> None:
    path, size, rounds = tmp_path / "a", 200_000, 100
    atomic.replace(path, b"0" * size)

    def work(number: int) -> object:
        if number < 2:
            for _ in range(rounds):
                atomic.replace(path, str(number).encode() * size, sync_directory=False)
            return True
        bodies = [path.read_bytes() for _ in range(rounds)]
        return all(len(body) == size and len(set(body)) == 1 for body in bodies)

    assert race(work) == [True] * PROCESSES
    assert len(list(tmp_path.iterdir())) == 1


def test_twelve_coordinators_of_one_second_get_a_directory_each(tmp_path: Path) -> None:
    root = a_root(tmp_path)

    found = race(lambda _number: str(reserve(root, ("space",), None, T0)), 12)

    assert len(set(found)) == 12


def test_an_explicit_id_has_one_winner_and_the_others_wrote_nothing(tmp_path: Path) -> None:
    root = a_root(tmp_path)

    def work(_number: int) -> object:
        try:
            return reserve(root, ("space",), "run-1", T0).name
        except RunExists:
            return None

    assert sorted(map(str, race(work))) == ["None"] * (PROCESSES - 1) + ["run-1"]


def test_a_results_folder_that_many_open_at_once_has_one_identity(tmp_path: Path) -> None:
    found = race(lambda _number: open_root(tmp_path / "results").root_id)

    assert len(set(found)) == 1


def test_executions_that_overlap_leave_one_result_and_the_evidence_of_the_others(
    tmp_path: Path,
) -> None:
    run_dir = a_run(tmp_path)

    def work(number: int) -> object:
        token = f"token-{number}"
        view = begin(run_dir, token=token)
        return view.is_published or publish(run_dir, view, a_result(token=token))

    race(work)

    assert check_run(run_dir) == []
    path = attempts.result_of(run_dir, "task-1", 1)
    assert path is not None
    assert path.parts[-4] == "normal"
    assert write_report(run_dir).status == "completed"


def test_attempts_of_one_task_that_end_together_file_it_once(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path, *(f"task-{n}" for n in range(20)), k=PROCESSES)

    def work(number: int) -> object:
        return [execute(run_dir, f"task-{n}", number + 1) for n in range(20)]

    assert race(work) == [[True] * 20] * PROCESSES
    assert check_run(run_dir) == []
    assert list(layout.state_dir(run_dir, "running").iterdir()) == []


def test_a_reader_never_sees_half_a_file_while_finalizers_race(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path, "a", "b")
    execute(run_dir, "a")
    write_report(run_dir)
    names = (layout.RUN_INFO, layout.METRICS, layout.COVERED)

    def work(number: int) -> object:
        if number == 0:
            execute(run_dir, "b")
        for _ in range(20):
            if number < 3:
                write_report(run_dir)
            for name in names:
                json.loads((run_dir / name).read_bytes())
        return True

    assert race(work) == [True] * PROCESSES
    assert write_report(run_dir).status == "completed"
    assert check_run(run_dir) == []


def test_decisions_of_many_are_all_recorded_in_one_order(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)

    race(lambda _number: [decide(run_dir, "resume").leg for _ in range(5)])

    found = [record.leg for record in control.control_records(run_dir)]
    assert found == list(range(2, 2 + 5 * PROCESSES))


def test_coordinators_that_plan_one_run_at_once_seal_it_once(tmp_path: Path) -> None:
    run_dir = a_reserved_run(tmp_path)

    def work(number: int) -> object:
        try:
            with run_info.planning(run_dir):
                if run_info.load(run_dir).sealed_at is None:
                    finish_planning(run_dir, [a_task(f"of-{number}")])
        except UsageError:
            return "busy"
        return "planned"

    assert "planned" in race(work)
    assert check_run(run_dir) == []
