"""One problem of a benchmark: as frozen in the run, and as prepared for an agent."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, Field, JsonValue

from agentcompass.models.base import Frozen, JsonObject, Seconds

UNCATEGORIZED: Final = "__uncategorized__"


def _check_task_id(value: str) -> str:
    if not value:
        raise ValueError("a task id must not be empty")
    if value != value.strip():
        raise ValueError(f"task id {value!r} is padded with white space")
    return value


TaskId = Annotated[str, AfterValidator(_check_task_id)]
"""Opaque: never parsed, never used raw in a path."""


class TaskResources(Frozen):
    """What a task asks of its environment."""

    cpus: float | None = Field(default=None, gt=0)
    memory_bytes: int | None = Field(default=None, gt=0)
    image: str | None = None
    """Of its container."""
    dockerfile: str | None = None
    """Instead of an image; relative to the environment's `build_root`, its folder is the context."""
    gpus: int | None = Field(default=None, ge=0)


class TaskTimeouts(Frozen):
    """Deadlines of one task; null falls back to the request's execution settings."""

    setup_timeout_s: Seconds | None = None
    run_timeout_s: Seconds | None = None
    collect_timeout_s: Seconds | None = None
    evaluate_timeout_s: Seconds | None = None


class ArtifactRequest(Frozen):
    """A file or folder to collect after the agent, and optionally a command that makes it first."""

    path: str = Field(min_length=1)
    """Relative to the agent's working directory."""
    command: str | None = None
    required: bool = False


class TaskSpec(Frozen):
    """One line of `tasks.jsonl`: all that is needed to execute and to report without the data set."""

    task_id: TaskId
    question: JsonValue = ""
    category: str | None = None
    ground_truth: JsonValue = None
    metadata: JsonObject = Field(default_factory=dict)
    resources: TaskResources = TaskResources()
    env: dict[str, str] = Field(default_factory=dict)
    timeouts: TaskTimeouts = TaskTimeouts()
    artifacts: tuple[ArtifactRequest, ...] = ()

    @property
    def category_name(self) -> str:
        """The category that the report groups by."""
        return self.category or UNCATEGORIZED


class TaskInput(Frozen):
    """What the agent is given."""

    prompt: str = ""
    system_prompt: str | None = None
    messages: tuple[JsonObject, ...] = ()
    media: tuple[JsonObject, ...] = ()
    files: tuple[JsonObject, ...] = ()
    tools: tuple[JsonObject, ...] = ()
    workspace: str | None = None


class TaskOutput(Frozen):
    """What the agent is asked to leave."""

    answer: str = ""
    files: tuple[str, ...] = ()


class PreparedTask(Frozen):
    """A task made ready for one attempt; kept verbatim in the snapshot."""

    task_id: TaskId
    category: str | None = None
    ground_truth: JsonValue = None
    input: TaskInput = TaskInput()
    output: TaskOutput = TaskOutput()
    metadata: JsonObject = Field(default_factory=dict)
