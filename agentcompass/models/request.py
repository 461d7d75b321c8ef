"""What the user asked for. Parsed once, then frozen in `run_info.json`."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, model_validator

from agentcompass.models.base import Frozen, JsonObject, Seconds
from agentcompass.models.limits import MOST_AT_ONCE, Budget, ErrorPolicy, Limits
from agentcompass.models.queue_name import QUEUE_PATTERN
from agentcompass.models.secret import MASK as MASK

MAX_ATTEMPTS: Final = 10_000
_HTTP_URL: Final = re.compile(r"https?://[^/\s]", re.IGNORECASE)
_LARGEST_PORT: Final = 65_535


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
    cached_input_usd_per_mtok: float | None = Field(default=None, ge=0)
    """Of input read from the provider's cache; null means the price of other input."""
    cache_write_usd_per_mtok: float | None = Field(default=None, ge=0)
    """Of input written to the provider's cache; null means the price of other input."""
    reasoning_usd_per_mtok: float | None = Field(default=None, ge=0)
    """Of reasoning; null means the price of other output."""

    @property
    def are_known(self) -> bool:
        """True if a cost can be told from token counts."""
        return self.input_usd_per_mtok is not None and self.output_usd_per_mtok is not None


def _http_url(value: str) -> str:
    if value and "${" not in value and not _HTTP_URL.match(value):
        raise ValueError("it must begin with http:// or https:// and a host")
    # Not what urlsplit says about it: that quotes what may be a part of a password.
    host = re.split("[/?#]", value.partition("://")[2], maxsplit=1)[0].rpartition("@")[2]
    port = host.rpartition(":")[2]
    if port.isdecimal() and int(port) > _LARGEST_PORT:
        raise ValueError("its port must be at most 65535")
    return value


class ModelSpec(Frozen):
    """The model endpoint that a harness talks to."""

    id: str = Field(default="none", min_length=1)
    base_url: Annotated[str, AfterValidator(_http_url)] = ""
    """May hold references such as `https://${PROXY_LOGIN}@host`; "" is the harness's default."""
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
    setup_timeout_s: Seconds = 600.0
    run_timeout_s: Seconds = 3_600.0
    collect_timeout_s: Seconds = 600.0
    evaluate_timeout_s: Seconds = 1_800.0
    timeout_multiplier: float = Field(default=1.0, gt=0, le=100)
    max_failed_tasks: int | None = Field(default=None, ge=1)
    """Pause the run once this many tasks ended in `error` or `fatal`; null means never."""
    error_policy: ErrorPolicy = ErrorPolicy()
    budget: Budget = Budget()
    task_concurrency: int | None = Field(default=None, ge=1, le=MOST_AT_ONCE)
    """Attempts of the run that execute at once, on all workers together; null means any number."""
    limits: Limits = Limits()
    analyzers: tuple[ComponentSpec, ...] = ()
    recipes: tuple[str, ...] | None = None
    """Those that adapt the plans, in this order; null means all that match, empty means none."""


class RuntimeSettings(Frozen):
    """Where the attempts run."""

    workers: int | None = Field(default=None, ge=1)
    """Slots of the embedded workers; null means one per core."""
    pool: Literal["prefork", "threads"] = "prefork"
    queue: str = Field(default="default", pattern=QUEUE_PATTERN)
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


def _a_name(value: str | None) -> str | None:
    if value is not None and (not value.strip() or value in {".", ".."}):
        raise ValueError(f"run id {value!r} is no name")
    return value


class OutputSettings(Frozen):
    """Where the run directory is made; the results folder itself is no part of the request."""

    run_name: Annotated[str, AfterValidator(_safe_levels)] = ""
    run_id: Annotated[str | None, AfterValidator(_a_name)] = None


class ReuseSettings(Frozen):
    """What a new run takes over from an earlier one; the source itself is never changed."""

    run_id: str = ""
    """A run of the same namespace by its id, or any run by its path; "" means the newest eligible."""
    keep_errors: bool = False
    """Take failed results as they are, where their severity is known."""
    require_same_tasks: bool = False
    """Run a task again if its content is not what the source had."""
    skip_malformed: bool = False
    """Run tasks again whose records in the source cannot be read, instead of refusing."""
    rerun: tuple[str, ...] = ()
    """`errored`, `unscored`, `failed` or task ids: run again although they could be taken."""
    only_evaluate: bool = False
    """Evaluate again what the agents of the source left. Its frozen tasks are this run's; `run_id`
    must be its path."""
    run_missing_agents: bool = False
    """With `only_evaluate`: run the agents of attempts of which nothing is left to evaluate."""
    keep_missing: bool = False
    """With `only_evaluate`: take the source's results of such attempts as they are."""


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
    reuse: ReuseSettings | None = None
    metadata: dict[str, JsonValue] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _environment_for_evaluation_is_named(self) -> Self:
        if self.evaluation_environment is not None and not self.evaluation_environment.id:
            raise ValueError("evaluation_environment.id must not be empty")
        return self
