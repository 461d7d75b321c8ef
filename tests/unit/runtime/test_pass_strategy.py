"""Strategy `pass`: in order, one after the other, and no more than needed; in any order of messages."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from agentcompass.models.task import TaskSpec
from agentcompass.runtime.finalize import Finalized, finalize
from agentcompass.runtime.ports import Delivered, Done, LeaseKey, Park
from agentcompass.store.check import check_run
from tests.support import store_runs
from tests.support.delivering import Lab, a_lab

ONE = [TaskSpec(task_id="t0", ground_truth="t0")]


def next_of(lab: Lab, attempt: int) -> tuple[LeaseKey, ...]:
    return (lab.key("t0", attempt + 1),)


def test_a_later_attempt_waits_for_the_earlier_ones(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, k=3, strategy="pass")

    found = lab.deliver(attempt=2)

    assert isinstance(found, Park)
    assert (found.reason, lab.ran("agent")) == ("earlier_attempt", 0)


def test_an_end_wakes_the_next_attempt(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, agent={"t0": "wrong"}, k=3, strategy="pass")

    found = [lab.deliver(attempt=n) for n in (1, 2, 3)]

    assert found[:2] == [Done("published", next_of(lab, n)) for n in (1, 2)]
    assert found[2] == Done("published")
    assert lab.ran("agent") == 3


def test_attempts_after_a_success_are_skipped_without_executing(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, agent={"t0:1": "wrong"}, k=3, strategy="pass")

    for attempt in (1, 2, 3):
        lab.deliver(attempt=attempt)

    assert [lab.result(attempt=n).status for n in (1, 2, 3)] == [
        "completed",
        "completed",
        "skipped",
    ]
    assert lab.ran("agent") == 2
    assert check_run(lab.run_dir) == []


def test_a_skipped_attempt_wakes_the_next_one_too(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, k=3, strategy="pass")
    lab.deliver(attempt=1)

    assert lab.deliver(attempt=2) == Done("published", next_of(lab, 2))
    assert lab.deliver(attempt=2) == Done("was_published", next_of(lab, 2))


def test_an_attempt_that_was_cancelled_by_name_does_not_hold_up_the_next(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, k=2, strategy="pass")
    store_runs.decide(lab.run_dir, "cancel", ("t0", 1))

    assert lab.deliver(attempt=1) == Done("closed", next_of(lab, 1))
    assert lab.deliver(attempt=2) == Done("published")
    assert lab.ran("agent", attempt=2) == 1


def deliver_all(lab: Lab, order: tuple[int, ...]) -> None:
    """Deliver in this order, and what was parked or woken again, until all is done."""
    waiting, done = list(order), dict[int, Delivered]()
    while waiting:
        attempt = waiting.pop(0)
        done[attempt] = lab.deliver(attempt=attempt)
        if isinstance(done[attempt], Park):
            waiting.append(attempt)


@pytest.mark.parametrize("order", list(itertools.permutations((1, 2, 3))))
def test_every_order_of_deliveries_gives_the_same_report(
    tmp_path: Path, order: tuple[int, ...]
) -> None:
    script = {"t0:1": "wrong", "t0:3": "wrong"}
    lab = a_lab(tmp_path, agent=script, k=3, strategy="pass", task_specs=ONE)

    deliver_all(lab, (*order, order[0]))

    found = finalize(lab.run_dir)
    assert isinstance(found, Finalized)
    headline = found.report.headline
    assert (headline.series_id, headline.value) == ("correct.pass@3", 1.0)
    assert (lab.ran("agent"), headline.counts.error) == (2, 0)
