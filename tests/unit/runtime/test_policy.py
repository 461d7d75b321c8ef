from __future__ import annotations

from pathlib import Path

from agentcompass.models.request import ExecutionSettings
from agentcompass.models.run_info import ControlRecord, PolicyChange
from agentcompass.models.task import TaskTimeouts
from agentcompass.runtime.policy import deadlines, retry_policy, under
from agentcompass.store import control
from tests.builders import T0, a_plan
from tests.support.delivering import a_lab

SETTINGS = ExecutionSettings(
    run_timeout_s=100, timeout_multiplier=2, max_retries=5, retry_patterns=("slow",)
)


def test_a_tasks_own_time_goes_before_the_settings_and_all_are_multiplied() -> None:
    found = deadlines(SETTINGS, TaskTimeouts(evaluate_timeout_s=7))

    assert (found.run_timeout_s, found.evaluate_timeout_s) == (200, 14)


def test_a_plan_stays_as_it_was_frozen_unless_a_leg_changed_the_policy() -> None:
    frozen = ExecutionSettings()
    plan = a_plan().model_copy(update={"deadlines": deadlines(frozen, TaskTimeouts())})

    assert under(plan, frozen, None, TaskTimeouts()) is plan
    changed = under(plan, frozen, SETTINGS, TaskTimeouts())
    assert (changed.deadlines.run_timeout_s, changed.retry) == (200, retry_policy(SETTINGS))
    assert changed.model_copy(update={"deadlines": plan.deadlines, "retry": plan.retry}) == plan


def test_a_deadline_that_a_recipe_has_set_outlives_a_changed_policy() -> None:
    frozen = ExecutionSettings()
    own = deadlines(frozen, TaskTimeouts()).model_copy(update={"run_timeout_s": 11.0})
    plan = a_plan().model_copy(update={"deadlines": own})

    changed = under(plan, frozen, SETTINGS, TaskTimeouts()).deadlines

    expected = deadlines(SETTINGS, TaskTimeouts()).evaluate_timeout_s
    assert (changed.run_timeout_s, changed.evaluate_timeout_s) == (22.0, expected)


def test_a_later_legs_policy_is_what_its_attempts_get(tmp_path: Path) -> None:
    asked = deadlines(ExecutionSettings(), TaskTimeouts())
    lab = a_lab(tmp_path, agent={"t0": "hang"}, deadlines=asked)
    changed = PolicyChange(execution=ExecutionSettings(run_timeout_s=0.1, max_retries=0))
    control.append(
        lab.run_dir,
        lambda leg: ControlRecord(leg=leg + 1, action="resume", at=T0, policy=changed),
    )

    lab.deliver(leg=2)

    assert lab.codes() == ["error run run_timeout"]
    assert lab.result().error == "no end within 0.1 s"
