"""What the user asked for. Parsed once, then frozen in `run_info.json`."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, JsonValue, model_validator
from typing_extensions import Self

from agentcompass.models.base import Frozen, JsonObject

MAX_ATTEMPTS: Final = 10_000
MASK: Final = "********"
"""Stands where a literal secret was; never sent to anyone."""


class AttemptPlan(Frozen):
    """How often each task is tried and how the k outcomes become the task's value."""

    k: int = Field(default=1, ge=1, le=MAX_ATTEMPTS)
    strategy: str = "avg"
    """A registered policy; `avg` runs all k, `pass` may stop a task after its first success."""


class SecretRef(Frozen):
    """A secret by the name of the environment variable that holds it on the worker."""

    env: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")


class ComponentSpec(Frozen):
    """A plug-in by id, `package.module:Class` or `path/file.py:Class`, with its parameters."""

    id: str = Field(min_length=1)
    params: JsonObject = Field(default_factory=dict)


class ModelPrices(Frozen):
    """US dollars per million tokens; null means unknown, and a cost from it is null too."""

    input_usd_per_mtok: float | None = Field(default=None, ge=0)
    output_usd_per_mtok: float | None = Field(default=None, ge=0)


class ModelSpec(Frozen):
    """The model endpoint that a harness talks to."""

    id: str = Field(default="none", min_length=1)
    base_url: str = ""
    api_protocol: Literal["", "openai-chat", "openai-responses", "anthropic"] = ""
    api_key: SecretRef | Literal["********"] | None = None
    params: JsonObject = Field(default_factory=dict)
    """Sent with each call: temperature, max_tokens, seed, …"""
    headers: dict[str, str | SecretRef] = Field(default_factory=dict)
    prices: ModelPrices = ModelPrices()


class ExecutionSettings(Frozen):
    """How attempts are executed. `attempts` is identity; the rest is policy, which a resume may change."""

    attempts: AttemptPlan = AttemptPlan()
    max_retries: int = Field(default=2, ge=0, le=100)
    """Retries inside one attempt, across its executions."""
    retry_patterns: tuple[str, ...] = ()
    """Regular expressions; an ERROR whose code or message matches one is retried."""
    setup_timeout_s: float = Field(default=600.0, gt=0)
    run_timeout_s: float = Field(default=3_600.0, gt=0)
    collect_timeout_s: float = Field(default=600.0, gt=0)
    evaluate_timeout_s: float = Field(default=1_800.0, gt=0)
    timeout_multiplier: float = Field(default=1.0, gt=0)
    analyzers: tuple[ComponentSpec, ...] = ()


class RuntimeSettings(Frozen):
    """Where the attempts run."""

    workers: int | None = Field(default=None, ge=1)
    """Slots of the embedded workers; null means one per core."""
    pool: Literal["prefork", "threads"] = "prefork"
    queue: str = Field(default="default", pattern=r"^[a-z][a-z0-9_]{0,31}$")
    """The capability lane: only workers started with this queue take the attempts."""


class Selection(Frozen):
    """Which of the benchmark's tasks are evaluated; both given = the first `limit` of these ids."""

    limit: int | None = Field(default=None, ge=1)
    task_ids: tuple[str, ...] = ()


def _safe_levels(value: str) -> str:
    levels = value.split("/")
    if value and any(not level.strip() or level in {".", ".."} for level in levels):
        raise ValueError(f"run name {value!r} has an empty, '.' or '..' level")
    return value


class OutputSettings(Frozen):
    """Where the run directory is made; the results folder itself is no part of the request."""

    run_name: Annotated[str, AfterValidator(_safe_levels)] = ""
    run_id: str | None = Field(default=None, min_length=1)


class Request(Frozen):
    """One evaluation: benchmark x harness x model x environment, every task tried k times."""

    benchmark: ComponentSpec
    harness: ComponentSpec = ComponentSpec(id="none")
    environment: ComponentSpec = ComponentSpec(id="host_process")
    evaluation_environment: ComponentSpec | None = None
    """For evaluation mode `fresh`; null means the same kind as `environment`."""
    model: ModelSpec = ModelSpec()
    execution: ExecutionSettings = ExecutionSettings()
    runtime: RuntimeSettings = RuntimeSettings()
    selection: Selection = Selection()
    output: OutputSettings = OutputSettings()
    metadata: dict[str, JsonValue] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _environment_for_evaluation_is_named(self) -> Self:
        if self.evaluation_environment is not None and not self.evaluation_environment.id:
            raise ValueError("evaluation_environment.id must not be empty")
        return self
