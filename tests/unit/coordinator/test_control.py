from __future__ import annotations

import pytest

from agentcompass.coordinator import control as acts
from agentcompass.errors import RunNotSealed, UsageError
from agentcompass.models.run_info import AttemptRef
from agentcompass.store import control
from tests.builders import T0
from tests.support.store_runs import a_reserved_run, execute, write_report
from tests.unit.coordinator.conftest import RunMaker


def test_a_cancelled_run_says_so_with_the_reason_and_keeps_its_results(make_run: RunMaker) -> None:
    run_dir = make_run("a", "b").address.run_dir
    execute(run_dir, "a")

    info = acts.cancel(run_dir, reason="too dear", by="me", at=T0)

    assert (info.status, info.error, info.finished_at) == ("cancelled", "too dear", T0)
    record = control.control_records(run_dir)[0]
    assert (record.action, record.leg, record.by) == ("cancel", 1, "me")


def test_a_paused_run_goes_on_to_be_running(make_run: RunMaker) -> None:
    run_dir = make_run("a").address.run_dir

    assert acts.pause(run_dir, reason="", by="me", at=T0).status == "running"
    assert control.legs(run_dir).state == "paused"


def test_an_interrupted_run_says_so(make_run: RunMaker) -> None:
    run_dir = make_run("a").address.run_dir

    assert acts.interrupt(run_dir, reason="SIGTERM", by="me", at=T0).status == "interrupted"


def test_a_cancelled_attempt_is_missed_by_nobody(make_run: RunMaker) -> None:
    run_dir = make_run("a", "b").address.run_dir
    execute(run_dir, "a")

    acts.cancel(run_dir, attempts=acts.refs_of(run_dir, "b", 1), reason="", by="me", at=T0)

    assert control.legs(run_dir).is_open(1)
    assert write_report(run_dir).status == "completed"


def test_a_task_stands_for_all_of_its_attempts(make_run: RunMaker) -> None:
    run_dir = make_run("a", k=2).address.run_dir

    refs = acts.refs_of(run_dir, "a", None)

    assert refs == (AttemptRef(task_id="a", attempt=1), AttemptRef(task_id="a", attempt=2))


@pytest.mark.parametrize(
    ("task_id", "attempt", "complaint"),
    [("task_1", None, "did you mean 'task-1'"), ("zzz", 1, "has 1 tasks"), ("task-1", 3, "1 to 2")],
)
def test_what_the_run_does_not_have_cannot_be_cancelled(
    make_run: RunMaker, task_id: str, attempt: int | None, complaint: str
) -> None:
    run_dir = make_run("task-1", k=2).address.run_dir

    with pytest.raises(UsageError, match=complaint):
        acts.refs_of(run_dir, task_id, attempt)


def test_there_is_nothing_to_cancel_before_the_seal(tmp_path: object) -> None:
    run_dir = a_reserved_run(tmp_path)  # type: ignore[arg-type]

    with pytest.raises(RunNotSealed):
        acts.cancel(run_dir, reason="", by="me", at=T0)
