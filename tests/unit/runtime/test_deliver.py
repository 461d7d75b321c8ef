"""What becomes of a message: lease, look, decide, publish; and what is told the queue."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentcompass.errors import StoreError
from agentcompass.models.result import AttemptResult
from agentcompass.models.run_info import ControlAction
from agentcompass.models.task import ArtifactRequest, TaskSpec
from agentcompass.runtime.deliver import _job, deliver
from agentcompass.runtime.delivery import held
from agentcompass.runtime.delivery.job import Job
from agentcompass.runtime.execute import execute
from agentcompass.runtime.ports import (
    Done,
    HandBack,
    LeaseKey,
    LeasesUnreachable,
    LeaseTaken,
    Park,
    Stale,
)
from agentcompass.store import attempts
from agentcompass.store.check import check_run
from tests.support import store_runs
from tests.support.delivering import FakeLeases, Lab, a_lab

WITH_FILE = TaskSpec(task_id="t0", ground_truth="t0", artifacts=(ArtifactRequest(path="out"),))


def decide(lab: Lab, action: ControlAction, *names: tuple[str, int]) -> None:
    store_runs.decide(lab.run_dir, action, *names)


def test_an_attempt_is_executed_published_and_its_lease_given_up(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)

    assert lab.deliver() == Done("published")
    result = lab.result()
    assert (result.metrics, result.status, result.issues) == ({"correct": True}, "completed", ())
    assert (result.attempt, result.leg, result.worker) == (1, 1, "worker@host")
    assert lab.leases.held == {}
    assert check_run(lab.run_dir) == []


def test_a_second_delivery_finds_the_result_and_executes_nothing(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)

    assert [lab.deliver(), lab.deliver()] == [Done("published"), Done("was_published")]
    assert lab.ran("agent") == 1


def test_a_duplicate_of_a_living_execution_parks(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    lab.leases.held[lab.key()] = "other"

    assert lab.deliver() == Park(30.0, "held")
    assert lab.ran("agent") == 0


def test_a_duplicate_ends_if_the_result_is_there_though_the_lease_still_stands(
    tmp_path: Path,
) -> None:
    lab = a_lab(tmp_path)
    lab.deliver()
    lab.leases.held[lab.key()] = "other"

    assert lab.deliver() == Done("was_published")


def test_an_execution_whose_lease_was_taken_over_does_not_publish(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    lab.leases.stolen.add(lab.key())

    assert lab.deliver() == Park(held.LEASE_LOST_S, "lease_lost")
    assert attempts.result_of(lab.run_dir, "t0", 1) is None
    assert not list(lab.attempt_dir().glob("retries/execution-*"))


def test_whoever_took_over_continues_from_the_snapshot_of_the_one_who_lost(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    lab.leases.stolen.add(lab.key())
    lab.deliver()
    lab.leases.stolen.clear()

    assert lab.deliver() == Done("published")
    assert (lab.ran("agent"), lab.ran("evaluator"), check_run(lab.run_dir)) == (1, 2, [])


def test_an_execution_whose_artifacts_were_put_aside_does_not_publish(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, task_specs=[WITH_FILE])

    def put_aside(key: LeaseKey, token: str) -> bool:
        (lab.attempt_dir() / "artifacts" / token).rename(tmp_path / "aside")
        return False

    lab.leases.is_lost = put_aside  # type: ignore[method-assign]

    assert lab.deliver() == Park(held.LEASE_LOST_S, "lease_lost")
    assert attempts.result_of(lab.run_dir, "t0", 1) is None


def test_a_result_that_came_first_stays_and_ours_is_kept_as_evidence(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)

    def publish_before_us(key: LeaseKey, token: str) -> bool:
        store_runs.execute(lab.run_dir, "t0")
        return False

    lab.leases.is_lost = publish_before_us  # type: ignore[method-assign]

    assert lab.deliver() == Done("was_published")
    assert lab.result().token.startswith("t" * 16)
    assert list(lab.attempt_dir().glob("retries/execution-*/result.json"))
    assert check_run(lab.run_dir) == []


def test_an_attempt_that_was_published_before_its_mark_says_alone_is_looked_for_again(
    tmp_path: Path,
) -> None:
    lab = a_lab(tmp_path)
    job = _job(lab.message(), lab.site)
    assert isinstance(job, Job)
    view = job.begin()
    store_runs.execute(lab.run_dir, "t0")

    job.mark_alone(view)

    mark = lab.attempt_dir() / f"started-{job.token}.json"
    assert '"alone":true' in mark.read_text()


@pytest.mark.parametrize("action", ["cancel", "pause"])
def test_a_message_of_a_closed_leg_is_dropped(tmp_path: Path, action: ControlAction) -> None:
    lab = a_lab(tmp_path)
    decide(lab, action)

    assert lab.deliver() == Stale("leg 1 is closed")
    decide(lab, "resume")
    assert lab.deliver(leg=1) == Stale("leg 1 is closed")
    assert lab.deliver(leg=2) == Done("published")


def test_an_attempt_that_was_cancelled_by_name_is_over(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    decide(lab, "cancel", ("t0", 1))

    assert lab.deliver("t0") == Done("closed")
    assert lab.deliver("t1") == Done("published")
    assert lab.ran("agent") == 1


def test_a_rerun_executes_again_and_an_old_message_does_not(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, agent={"t0": "wrong|ok"})
    assert lab.executed().metrics == {"correct": False}
    decide(lab, "rerun", ("t0", 1))

    assert lab.deliver(leg=2) == Done("published")
    assert (lab.result().metrics, lab.result().leg) == ({"correct": True}, 2)
    assert lab.deliver(leg=1) == Done("was_published")


def test_an_attempt_that_is_reopened_while_it_is_executed_is_not_published(
    tmp_path: Path,
) -> None:
    lab = a_lab(tmp_path)

    def reopen(key: LeaseKey, token: str) -> bool:
        decide(lab, "rerun", ("t0", 1))
        return False

    lab.leases.is_lost = reopen  # type: ignore[method-assign]

    assert isinstance(lab.deliver(), Stale)
    assert attempts.result_of(lab.run_dir, "t0", 1) is None


def test_a_worker_of_another_results_folder_hands_back_and_stops(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    message = lab.message().model_copy(update={"root": "00000000"})

    found = deliver(message, lab.site, lab.leases, lab.keeper)

    assert isinstance(found, HandBack)
    assert (found.reason, found.stops_consuming) == ("other_root", True)
    assert str(lab.site.root.path) in found.message


def test_a_run_that_stays_invisible_is_handed_back_after_a_minute(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    message = lab.message().model_copy(update={"run": "space/elsewhere"})

    found = deliver(message, lab.site, lab.leases, lab.keeper)

    assert isinstance(found, HandBack)
    assert (found.reason, found.stops_consuming) == ("run_not_visible", True)
    assert sum(lab.slept) == 60


def test_a_run_that_appears_late_is_executed(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    hidden = lab.run_dir.with_name("hidden")
    message = lab.message()
    lab.run_dir.rename(hidden)
    site = replace(lab.site, sleep=lambda _: hidden.rename(lab.run_dir))

    assert deliver(message, site, lab.leases, lab.keeper) == Done("published")


def test_a_message_beyond_the_plan_is_dropped(tmp_path: Path) -> None:
    assert isinstance(a_lab(tmp_path).deliver(attempt=2), Stale)


def test_a_message_that_points_between_two_tasks_is_dropped(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    lab.offsets["t0"] = 3

    assert isinstance(lab.deliver(), Stale)


class Unreachable(FakeLeases):
    def take(self, key: LeaseKey, token: str, *, worker: str) -> LeaseTaken:
        raise LeasesUnreachable("no answer")


def test_without_an_answer_about_the_lease_the_message_goes_back(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)

    found = deliver(lab.message(), lab.site, Unreachable(), lab.keeper)

    assert found == HandBack("leases_unreachable", "no answer")
    assert lab.ran("agent") == 0


@pytest.mark.parametrize(
    ("number", "stops"), [(errno.ENOSPC, True), (errno.EROFS, True), (errno.EIO, False)]
)
def test_a_results_folder_that_cannot_be_written_costs_no_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, *, stops: bool
) -> None:
    lab = a_lab(tmp_path)

    def refuse(*_: object) -> bool:
        raise OSError(number, "refused")

    with monkeypatch.context() as patched:
        patched.setattr(attempts, "publish", refuse)
        found = lab.deliver()

    assert isinstance(found, HandBack if stops else Park)
    assert lab.leases.held == {}
    # The snapshot is there: the agent does not run again.
    assert lab.deliver() == Done("published")
    assert (lab.ran("agent"), lab.ran("evaluator")) == (1, 2)


@pytest.mark.parametrize(
    ("folder", "named"),
    [("work", "this worker's own working area"), ("results", "the results folder")],
)
def test_a_full_disk_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, named: str
) -> None:
    lab = a_lab(tmp_path)
    place = {"work": lab.site.work_dir, "results": lab.run_dir}[folder]

    def refuse(*_: object) -> AttemptResult:
        raise OSError(errno.ENOSPC, "No space left on device", str(place / "some-file"))

    monkeypatch.setattr(held, "execute", refuse)

    found = lab.deliver()

    assert isinstance(found, HandBack)
    assert found.message.startswith(f"{named} cannot be written: [Errno 28]")
    assert str(place) in found.message


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_a_value_that_slips_through_costs_an_issue_and_not_the_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = a_lab(tmp_path)

    def spoil(*args: Any) -> AttemptResult:
        record = execute(*args)
        return record.model_copy(update={"final_answer": {"fn": len}})

    monkeypatch.setattr(held, "execute", spoil)

    assert lab.deliver() == Done("published")
    assert lab.codes() == ["error evaluate unwritable_value"]
    assert lab.result().metrics == {"correct": True}
    assert "final_answer.fn" in lab.result().error


def test_an_unreadable_control_record_stops_the_message_and_nothing_else(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    (lab.run_dir / "control" / "0001.json").write_text("{", encoding="utf-8")

    found = lab.deliver()

    assert isinstance(found, Stale)
    assert "0001.json" in found.reason


def test_an_unsealed_run_holds_no_work(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    reserved = store_runs.a_reserved_run(tmp_path)
    message = lab.message().model_copy(update={"run": f"space/{reserved.name}"})

    assert isinstance(deliver(message, lab.site, lab.leases, lab.keeper), Stale)
    assert sum(lab.slept) == 60  # the seal may only be hidden by a share's cache


def test_only_errors_of_the_store_are_swallowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = a_lab(tmp_path)

    def bug(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(held, "execute", bug)

    with pytest.raises(ZeroDivisionError):
        lab.deliver()
    assert not issubclass(ZeroDivisionError, StoreError)
    assert lab.leases.held == {}
