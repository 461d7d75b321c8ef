"""The flags that spell a request, and the request file's shape that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

import click

if TYPE_CHECKING:
    from pydantic import JsonValue

    from agentcompass.models.base import JsonObject

CommandT = TypeVar("CommandT", bound=Callable[..., object])
Option: TypeAlias = Callable[[Any], Any]
"""A decorator of click, which keeps the type of what it decorates."""

_PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "benchmark": ("benchmark", "id"),
    "harness": ("harness", "id"),
    "environment": ("environment", "id"),
    "model": ("model", "id"),
    "base_url": ("model", "base_url"),
    "protocol": ("model", "api_protocol"),
    "api_key_env": ("model", "api_key", "env"),
    "k": ("execution", "attempts", "k"),
    "strategy": ("execution", "attempts", "strategy"),
    "analyzers": ("execution", "analyzers"),
    "recipes": ("execution", "recipes"),
    "limit": ("selection", "limit"),
    "task_ids": ("selection", "task_ids"),
    "run_name": ("output", "run_name"),
    "run_id": ("output", "run_id"),
    "evaluation_environment": ("evaluation_environment", "id"),
    "timeout": ("execution", "run_timeout_s"),
    "evaluate_timeout": ("execution", "evaluate_timeout_s"),
    "timeout_multiplier": ("execution", "timeout_multiplier"),
    "max_retries": ("execution", "max_retries"),
    "max_failed_tasks": ("execution", "max_failed_tasks"),
    "max_errors": ("execution", "error_policy", "max_errors"),
    "max_error_share": ("execution", "error_policy", "max_error_share"),
    "budget_usd": ("execution", "budget", "cost_usd"),
    "budget_tokens": ("execution", "budget", "tokens"),
    "budget_s": ("execution", "budget", "wall_time_s"),
    "task_concurrency": ("execution", "task_concurrency"),
    "concurrent_calls": ("execution", "limits", "model", "concurrent_calls"),
    "requests_per_minute": ("execution", "limits", "model", "requests_per_minute"),
    "tokens_per_minute": ("execution", "limits", "model", "tokens_per_minute"),
    "concurrent_environments": ("execution", "limits", "concurrent_environments"),
    "workers": ("runtime", "workers"),
    "pool": ("runtime", "pool"),
    "queue": ("runtime", "queue"),
    "reuse": ("reuse",),
    "reuse_run_id": ("reuse", "run_id"),
    "keep_errors": ("reuse", "keep_errors"),
    "require_same_tasks": ("reuse", "require_same_tasks"),
    "skip_malformed": ("reuse", "skip_malformed"),
    "rerun": ("reuse", "rerun"),
    "results_dir": ("results_dir",),
    "broker": ("broker",),
}
"""Parameter of a command -> field of a request file."""


def identity_options(command: CommandT) -> CommandT:
    """Add the flags that say what is evaluated."""
    return _with(command, *_identity(is_hidden=False))


def frozen_options(command: CommandT) -> CommandT:
    """Add the same flags for a resume: not shown, and refused by name if they change anything."""
    return _with(command, *_identity(is_hidden=True))


def _identity(*, is_hidden: bool) -> Sequence[Option]:
    def option(*names: str, **settings: Any) -> Option:
        return click.option(*names, hidden=is_hidden, **settings)

    return (
        option("--benchmark", metavar="ID", help="What to evaluate on."),
        option("--harness", metavar="ID", help="The scaffold that lets the model act."),
        option("--environment", metavar="ID", help="Where the agent acts."),
        option("--model", metavar="ID", help="The model's name at its endpoint."),
        option("--base-url", metavar="URL", help="The model's endpoint."),
        option(
            "--protocol",
            metavar="NAME",
            help="How the model is asked: openai-chat [default], openai-responses or anthropic.",
        ),
        option("--api-key-env", metavar="NAME", help="Variable that holds the model's key."),
        option("-k", "k", type=int, help="Attempts per task."),
        option("--strategy", metavar="ID", help="avg: run all k; pass: until the first success."),
        option(
            "--analyzer",
            "analyzers",
            metavar="ID",
            multiple=True,
            help="Let this one look at every attempt, see `list analyzers`. Repeatable.",
        ),
        option(
            "--recipe",
            "recipes",
            metavar="ID",
            multiple=True,
            help="Let only this one adapt plans to the environment, see `list recipes`; `none` for "
            "none. Repeatable. [default: all that match]",
        ),
        option("--limit", type=int, help="Only the first so many of the selected tasks."),
        option("--task-id", "task_ids", metavar="ID", multiple=True, help="Only this; repeatable."),
        option(
            "--param",
            "params",
            metavar="C.KEY=VALUE",
            multiple=True,
            help="Parameter of a component, such as benchmark.split=test or model.temperature=0; "
            "the value is JSON, else text. Repeatable.",
        ),
    )


def config_option(command: CommandT) -> CommandT:
    """Add `--config`."""
    return _with(
        command,
        click.option(
            "--config",
            metavar="FILE",
            type=click.Path(path_type=Path),
            help="Request file, YAML or TOML; flags win over it.",
        ),
    )


def policy_options(command: CommandT) -> CommandT:
    """Add the flags that say how attempts are executed; a resume may change them."""
    return _with(
        command,
        click.option("--workers", type=int, help="Local attempts at once (without --broker)."),
        click.option(
            "--pool", metavar="POOL", help="prefork (isolation) or threads (many at once)."
        ),
        click.option("--queue", metavar="NAME", help="Lane of workers that take the attempts."),
        click.option("--timeout", type=float, metavar="S", help="Seconds for the agent's run."),
        click.option("--evaluate-timeout", type=float, metavar="S", help="The same of a verdict."),
        click.option(
            "--timeout-multiplier", type=float, metavar="X", help="Factor of all deadlines."
        ),
        click.option("--max-retries", type=int, help="Retries inside one attempt."),
        click.option(
            "--max-failed-tasks", type=int, help="Pause the run when so many tasks ended in errors."
        ),
        click.option("--max-errors", type=int, help="Likewise, for so many attempts."),
        click.option(
            "--max-error-share", type=float, help="Likewise, for this share of 20 or more, 0 to 1."
        ),
        click.option("--budget-usd", type=float, metavar="X", help="Pause when so much is spent."),
        click.option("--budget-tokens", type=int, metavar="N", help="Likewise, for tokens."),
        click.option("--budget-s", type=float, metavar="S", help="Likewise, for wall time."),
        click.option(
            "--task-concurrency", type=int, metavar="N", help="Attempts at once, on all workers."
        ),
        click.option(
            "--concurrent-calls", type=int, metavar="N", help="Calls of the model at once, in all."
        ),
        click.option(
            "--requests-per-minute", type=int, metavar="N", help="Calls a minute, in all."
        ),
        click.option("--tokens-per-minute", type=int, metavar="N", help="Likewise, for tokens."),
        click.option(
            "--concurrent-environments", type=int, metavar="N", help="Of this kind, in all."
        ),
    )


def reuse_options(command: CommandT) -> CommandT:
    """Add the flags that say what a new run takes over; each of them asks for reuse."""

    def flag(name: str, text: str) -> Option:
        return click.option(name, is_flag=True, default=None, help=text)

    return _with(
        command,
        flag("--reuse", "Take over what an earlier run has paid for: the newest one that can."),
        click.option(
            "--reuse-run-id",
            metavar="ID|PATH",
            help="Take over from this run: an id beside the new run, or the path of any run.",
        ),
        flag("--keep-errors", "Reuse: take failed results as they are."),
        flag("--require-same-tasks", "Reuse: run tasks again whose content has changed since."),
        flag("--skip-malformed", "Reuse: run tasks again whose records there cannot be read."),
        click.option(
            "--rerun",
            metavar="WHAT",
            multiple=True,
            help="Reuse: run again all the same what is errored, failed or unscored, or a task by "
            "its id. Repeatable.",
        ),
    )


def broker_option(command: CommandT) -> CommandT:
    """Add `--broker` where a private one is started without it."""
    return _with(
        command,
        click.option(
            "--broker",
            metavar="URL",
            help="Redis that workers elsewhere listen to. [default: $AGENTCOMPASS_BROKER_URL, "
            "else a private one with local workers]",
        ),
    )


def other_broker_option(command: CommandT) -> CommandT:
    """Add `--broker` where it must be one of the user's own."""
    return _with(
        command,
        click.option(
            "--broker",
            metavar="URL",
            help="Redis between coordinators and workers. [default: $AGENTCOMPASS_BROKER_URL]",
        ),
    )


def fields_of(given: Mapping[str, object]) -> JsonObject:
    """Return the flags that were given, shaped like a request file."""
    from agentcompass.coordinator.asking.requests import merged  # brings all models

    fields: JsonObject = {}
    for name, value in given.items():
        path = _PLACES.get(name)
        if path is None or value is None or value == ():
            continue
        layer = cast("JsonValue", list(value) if isinstance(value, tuple) else value)
        if name == "reuse":
            layer = {}  # says only that; the other flags say how
        for key in reversed(path):
            layer = {key: layer}
        fields = merged(fields, cast("JsonObject", layer))
    return fields


def _with(command: CommandT, *options: Option) -> CommandT:
    for option in reversed(options):
        command = option(command)
    return command
