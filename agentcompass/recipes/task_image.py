"""Recipe `task_image`."""

from __future__ import annotations

from typing import ClassVar, Final

from typing_extensions import override

from agentcompass.models.plan import ExecutionPlan
from agentcompass.models.request import ComponentSpec, Request
from agentcompass.models.task import TaskSpec
from agentcompass.recipes.base import Recipe

_KEYS: Final = ("docker_image", "container_image")
_ENVIRONMENT: Final = "docker"


class TaskImage(Recipe):
    """Containers of the image that a task's metadata names: docker_image or container_image."""

    id: ClassVar[str] = "task_image"

    @override
    def match(self, request: Request) -> bool:
        other = request.evaluation_environment
        return _ENVIRONMENT in {request.environment.id, other.id if other is not None else ""}

    @override
    def apply(self, plan: ExecutionPlan, task: TaskSpec) -> ExecutionPlan:
        """Leave the plan of a task as it is that has an image or a Dockerfile of its own."""
        image = next((task.metadata[key] for key in _KEYS if key in task.metadata), None)
        if image is None or task.resources.image or task.resources.dockerfile:
            return plan
        if not isinstance(image, str) or not image.strip():
            raise ValueError(f"the task's image is {image!r}, not a name")
        evaluation = plan.evaluation_environment
        return plan.model_copy(
            update={
                "environment": _with_image(plan.environment, image),
                "evaluation_environment": evaluation and _with_image(evaluation, image),
            }
        )


def _with_image(spec: ComponentSpec, image: str) -> ComponentSpec:
    if spec.id != _ENVIRONMENT or spec.params.get("dockerfile"):
        return spec
    return spec.model_copy(update={"params": {**spec.params, "image": image}})
