"""`agentcompass flower`, started as a user starts it: every attempt is found by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.integration.acceptance.conftest import Watched
from tests.support.cluster import until

pytestmark = pytest.mark.integration


def who(task: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return (run, beginning of the task's id, attempt) as Flower shows them."""
    task_id, _, attempt = task["args"].partition(" attempt ")
    return task["kwargs"].split()[0], task_id[:80], attempt


def test_every_attempt_is_found_by_run_task_and_number(watched: Watched) -> None:
    planned = {
        ("run=night", task_id[:80], f"{number}/2")
        for task_id in watched.wanted.tasks
        for number in (1, 2)
    }
    attempts = watched.flower.attempts()

    assert {who(task) for task in attempts.values()} == planned
    assert len(attempts) == len(planned)
    assert {task["state"] for task in attempts.values()} == {"SUCCESS"}
    assert all(uuid.startswith("night:") for uuid in attempts)
    workers = {task["worker"].split("@")[0].split("-")[0] for task in attempts.values()}
    assert workers == {"prefork", "threads"}


@pytest.mark.parametrize(
    ("search", "found"),
    [("night:", 14), ("HumanEval_39", 2), ("HumanEval/39", 2), ("a2:l1", 7), ("raises", 2)],
)
def test_the_search_finds_runs_tasks_and_attempt_numbers(
    watched: Watched, search: str, found: int
) -> None:
    assert len(watched.flower.attempts(search)) == found


def test_an_attempt_is_listed_before_any_worker_takes_it(watched: Watched) -> None:
    assert len(watched.waiting) == 14
    assert {task["state"] for task in watched.waiting.values()} == {"PENDING"}


def test_one_attempt_is_found_by_the_id_that_its_message_has(watched: Watched) -> None:
    ids = [json.loads(message)["headers"]["id"] for message in watched.messages]
    info = [json.loads(watched.flower.page(f"/api/task/info/{uuid}")) for uuid in ids]

    assert [task["uuid"] for task in info] == ids
    assert {task["name"] for task in info} == {"eval.attempt"}


def test_both_workers_are_listed_by_name(watched: Watched) -> None:
    def names() -> set[str]:
        page = watched.flower.page("/api/workers?refresh=1") or "{}"
        return {name.split("@")[0].split("-")[0] for name in json.loads(page)}

    until(lambda: {"prefork", "threads"} <= names(), "Flower lists both workers")
