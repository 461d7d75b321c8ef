"""The built-in recipes: which requests they fit, and what they make of a plan."""

from __future__ import annotations

from typing import Any

import pytest

from agentcompass.models.base import JsonObject
from agentcompass.models.plan import EvaluationMode, ExecutionPlan
from agentcompass.models.request import ComponentSpec, Request
from agentcompass.models.task import TaskResources, TaskSpec
from agentcompass.recipes.offline_evaluation import OfflineEvaluation
from agentcompass.recipes.task_image import TaskImage
from tests.builders import a_plan, a_request


def a_request_in(environment: str, evaluation: str | None = None) -> Request:
    other = ComponentSpec(id=evaluation) if evaluation else None
    update = {"environment": ComponentSpec(id=environment), "evaluation_environment": other}
    return a_request().model_copy(update=update)


def plan_in(
    environment: str,
    evaluation: str | None = None,
    mode: EvaluationMode = "fresh",
    **params: Any,
) -> ExecutionPlan:
    other = ComponentSpec(id=evaluation, params=params) if evaluation else None
    update = {
        "environment": ComponentSpec(id=environment, params=params),
        "evaluation_environment": other,
        "evaluation_mode": mode,
    }
    return a_plan().model_copy(update=update)


class TestTaskImage:
    @pytest.mark.parametrize(
        ("request_", "fits"),
        [
            (a_request_in("docker"), True),
            (a_request_in("host_process", "docker"), True),
            (a_request_in("bubblewrap"), False),
        ],
    )
    def test_it_fits_where_a_container_is_used(self, request_: Request, fits: bool) -> None:  # noqa: FBT001
        assert TaskImage().match(request_) is fits

    def test_each_task_gets_the_image_that_its_metadata_names(self) -> None:
        task = TaskSpec(task_id="t", metadata={"docker_image": "org/one:1"})

        made = TaskImage().apply(plan_in("docker", "docker", image="base", cpus=2), task)

        params: JsonObject = {"image": "org/one:1", "cpus": 2}
        assert made.environment.params == params
        assert made.evaluation_environment == ComponentSpec(id="docker", params=params)

    @pytest.mark.parametrize(
        "task",
        [
            TaskSpec(task_id="t"),
            TaskSpec(task_id="t", metadata={"image": "a picture.png"}),
            TaskSpec(
                task_id="t",
                metadata={"docker_image": "x"},
                resources=TaskResources(image="its own"),
            ),
        ],
    )
    def test_other_tasks_keep_their_plan(self, task: TaskSpec) -> None:
        plan = plan_in("docker", image="base")

        assert TaskImage().apply(plan, task) is plan

    def test_an_environment_without_images_or_with_a_dockerfile_stays(self) -> None:
        task = TaskSpec(task_id="t", metadata={"container_image": "x"})

        made = TaskImage().apply(plan_in("docker", "host_process", dockerfile="/d"), task)

        assert made.environment.params == {"dockerfile": "/d"}
        assert made.evaluation_environment == ComponentSpec(
            id="host_process", params={"dockerfile": "/d"}
        )

    def test_what_is_no_name_is_said(self) -> None:
        with pytest.raises(ValueError, match="not a name"):
            TaskImage().apply(
                plan_in("docker"), TaskSpec(task_id="t", metadata={"docker_image": 3})
            )


class TestOfflineEvaluation:
    def test_it_fits_where_a_network_can_be_taken_away(self) -> None:
        assert OfflineEvaluation().match(a_request_in("docker"))
        assert OfflineEvaluation().match(a_request_in("host_process", "bubblewrap"))
        assert not OfflineEvaluation().match(a_request_in("host_process"))

    def test_the_agent_keeps_its_network_and_the_judge_has_none(self) -> None:
        made = OfflineEvaluation().apply(
            plan_in("bubblewrap", network="host"), TaskSpec(task_id="t")
        )

        assert made.environment.params == {"network": "host"}
        assert made.evaluation_environment == ComponentSpec(
            id="bubblewrap", params={"network": "none"}
        )

    def test_in_the_agents_own_environment_it_cannot_be_taken_away(self) -> None:
        with pytest.raises(ValueError, match="mode is reuse"):
            OfflineEvaluation().apply(plan_in("docker", mode="reuse"), TaskSpec(task_id="t"))
