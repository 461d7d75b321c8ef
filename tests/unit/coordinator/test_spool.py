from __future__ import annotations

import pytest

from agentcompass.coordinator.planning.spool import TaskSpool
from agentcompass.errors import UsageError
from agentcompass.models.task import TaskSpec
from tests.builders import a_task


def test_tasks_come_back_in_order_and_as_often_as_asked() -> None:
    with TaskSpool() as spool:
        for task_id in ("a", "b"):
            spool.append(a_task(task_id))

        assert len(spool) == 2
        assert [list(spool), list(spool)] == [[a_task("a"), a_task("b")]] * 2


def test_text_that_utf8_cannot_hold_is_kept_by_its_name() -> None:
    with TaskSpool() as spool:
        spool.append(TaskSpec(task_id="a", question="half an emoji: \ud83d"))

        assert next(iter(spool)).question == "half an emoji: \\ud83d"


def test_what_cannot_be_written_without_loss_is_refused_by_field_and_position() -> None:
    task = TaskSpec(task_id="a", metadata={"\ud83d": 1, "\\ud83d": 2})

    with (
        TaskSpool() as spool,
        pytest.raises(UsageError, match=r"'a' at position 1 .*task\.metadata"),
    ):
        spool.append(task)
