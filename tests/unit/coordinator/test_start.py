from __future__ import annotations

from pathlib import Path

import pytest

from agentcompass.coordinator.asking.validation import request_of
from agentcompass.coordinator.planning import plan as planning
from agentcompass.coordinator.planning.plan import Planned
from agentcompass.coordinator.planning.start import SealedRun, plan_again, root_of, start
from agentcompass.coordinator.snapshot import all_work, breadth_first, look_at
from agentcompass.errors import RunExists, RunNotFound, UsageError
from agentcompass.models.request import Request
from agentcompass.store import run_info
from agentcompass.store.check import check_run
from agentcompass.store.root import open_root
from tests.builders import T0
from tests.support.coordinated import request_fields
from tests.support.store_runs import a_reserved_run, execute


def plan(run_id: str | None = None, k: int = 1) -> Planned:
    content = request_fields(ids=["a", "b"])
    content |= {"output": {"run_id": run_id}, "execution": {"attempts": {"k": k}}}
    return planning.plan(request_of(content, where="test"))


def started(tmp_path: Path, run_id: str | None = None, k: int = 1) -> SealedRun:
    with plan(run_id, k) as planned:
        root = open_root(tmp_path / "results")
        return start(root, planned, now=lambda: T0, announce=lambda _: None)


class TestStart:
    def test_a_started_run_is_sealed_sound_and_found_by_workers(self, tmp_path: Path) -> None:
        run = started(tmp_path)

        assert check_run(run.address.run_dir) == []
        assert run.info.sealed_at == T0
        assert (run.info.task_count, run.info.attempt_count) == (2, 2)
        assert run.address.root.path / run.address.ref == run.address.run_dir

    def test_the_directory_is_announced_before_the_first_file_is_written(
        self, tmp_path: Path
    ) -> None:
        announced: list[list[str]] = []
        with plan() as planned:
            start(
                open_root(tmp_path / "results"),
                planned,
                now=lambda: T0,
                announce=lambda run_dir: announced.append([p.name for p in run_dir.glob("*.json")]),
            )

        assert announced == [[]]

    def test_a_taken_run_id_is_refused_and_the_other_run_stays(self, tmp_path: Path) -> None:
        first = started(tmp_path, run_id="mine")

        with pytest.raises(RunExists):
            started(tmp_path, run_id="MINE")

        assert run_info.load(first.address.run_dir) == first.info

    def test_runs_that_start_in_the_same_second_get_directories_of_their_own(
        self, tmp_path: Path
    ) -> None:
        dirs = {started(tmp_path).address.run_dir for _ in range(3)}

        assert len(dirs) == 3


class TestPlanningAgain:
    def test_a_run_that_died_while_it_was_planned_is_planned_from_its_request(
        self, tmp_path: Path
    ) -> None:
        run_dir = a_reserved_run(tmp_path)
        asked: list[Request] = []

        def again(request: Request) -> Planned:
            asked.append(request)
            return plan()

        info = plan_again(run_dir, again, now=lambda: T0)

        assert asked == [run_info.load(run_dir).request]
        assert info.sealed_at == T0
        assert check_run(run_dir) == []

    def test_a_sealed_run_is_never_planned_again(self, tmp_path: Path) -> None:
        run = started(tmp_path)

        def again(request: Request) -> Planned:
            raise AssertionError("planned twice")

        assert plan_again(run.address.run_dir, again, now=lambda: T0) == run.info

    def test_two_at_once_do_not_freeze_over_each_other(self, tmp_path: Path) -> None:
        run_dir = a_reserved_run(tmp_path)

        with run_info.planning(run_dir), pytest.raises(UsageError, match="another coordinator"):
            plan_again(run_dir, lambda _: plan(), now=lambda: T0)


class TestRootOf:
    def test_the_results_folder_is_found_above_the_run(self, tmp_path: Path) -> None:
        run = started(tmp_path)

        assert root_of(run.address.run_dir).root_id == run.address.root.root_id

    def test_nothing_there_is_no_run(self, tmp_path: Path) -> None:
        with pytest.raises(RunNotFound):
            root_of(tmp_path / "nope")

    def test_a_run_taken_out_of_its_results_folder_says_so(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="no results folder"):
            root_of(tmp_path)


class TestWork:
    def test_the_work_of_a_new_run_is_breadth_first(self, tmp_path: Path) -> None:
        run = started(tmp_path, k=2)

        work = all_work(run.address.run_dir, run.info)

        order = [(each.task_id, each.attempt) for each in breadth_first(work)]
        assert order == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]

    def test_what_has_a_result_is_no_work_any_more(self, tmp_path: Path) -> None:
        run = started(tmp_path, k=2)
        execute(run.address.run_dir, "a", 1)

        seen = look_at(run.address.run_dir, run.info)

        assert (seen.done, seen.left, seen.total) == (1, 3, 4)
        order = [(each.task_id, each.attempt) for each in breadth_first(seen.work)]
        assert order == [("b", 1), ("a", 2), ("b", 2)]

    def test_no_work_has_no_order(self) -> None:
        assert list(breadth_first([])) == []
