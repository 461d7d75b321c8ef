"""What an exception means, by where it was raised (contracts, §10). The table is data.

A classified failure (`AttemptFailure`) keeps its own severity, phase and code. Nothing here looks
at a message: severity is never inferred from text.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from pydantic import ValidationError

from agentcompass.errors import AttemptFailure, EnvironmentFailed, PermanentFailure
from agentcompass.models.issue import Issue, Phase, Severity
from agentcompass.models.result import RunResult
from agentcompass.runtime.calling.interrupts import DeadlineReached
from agentcompass.runtime.issues import issue
from agentcompass.runtime.normalize import utf8_text

Where: TypeAlias = Literal[
    "open", "prepare", "run", "collect", "fresh_environment", "evaluate", "analyze", "close"
]
"""The steps of an attempt in which plug-in code runs."""


@dataclass(frozen=True, slots=True)
class Default:
    """What an unclassified failure of one step becomes."""

    severity: Severity
    phase: Phase
    code: str
    timeout_code: str


TABLE: Final[Mapping[Where, Default]] = MappingProxyType(
    {
        "open": Default("fatal", "setup", "setup_failed", "setup_failed"),
        "prepare": Default("fatal", "setup", "setup_failed", "setup_failed"),
        "run": Default("error", "run", "run_failed", "run_timeout"),
        "collect": Default(
            "fatal", "collect", "artifact_transfer_failed", "artifact_transfer_failed"
        ),
        "fresh_environment": Default("error", "evaluate", "evaluate_failed", "evaluation_timeout"),
        "evaluate": Default("error", "evaluate", "evaluate_failed", "evaluation_timeout"),
        "analyze": Default("warning", "evaluate", "analyzer_failed", "analyzer_failed"),
        "close": Default("warning", "cleanup", "cleanup_failed", "cleanup_failed"),
    }
)

PERMANENT_CODES: Final = frozenset({"secret_missing", "worker_lost"})
"""FATAL codes that no retry can cure; a plug-in raises `PermanentFailure` for its own."""

DIAGNOSTICS_LIMIT: Final = 100_000
"""Characters of one traceback that we keep; the end says most."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One thing that went wrong, with what only the retry decision and the evidence need."""

    issue: Issue
    diagnostics: str = ""
    is_permanent: bool = False
    retry_after_s: float | None = None
    partial: RunResult | None = field(default=None, repr=False)


def failure_of(error: BaseException, where: Where) -> Failure:
    """Classify what was raised in one step. Never raises, whatever the exception does."""
    if isinstance(error, AttemptFailure):
        return _classified(error, where)
    default = TABLE[where]
    if isinstance(error, EnvironmentFailed) and where == "run":
        default = Default("fatal", "run", "environment_failed", "environment_failed")
    timed_out = isinstance(error, DeadlineReached)
    cause = error.__cause__ if isinstance(error, EnvironmentFailed) else error
    message = str(error) if timed_out else safe_text(cause or error)
    code = default.timeout_code if timed_out else default.code
    return Failure(
        issue=issue(default.severity, default.phase, code, message),
        diagnostics="" if timed_out else safe_traceback(error),
        partial=_partial(error) if isinstance(error, EnvironmentFailed) else None,
    )


def safe_text(error: BaseException) -> str:
    """Return `ClassName: text` of any exception, also of one whose `str()` raises or lies."""
    name = type(error).__name__
    try:
        text = _validation_text(error) if isinstance(error, ValidationError) else str(error)
    except BaseException as second:  # noqa: BLE001 - foreign code in __str__ may raise anything
        return f"{name}: (its text raised {type(second).__name__})"
    inner = "; ".join(safe_text(member) for member in _members(error))
    return f"{name}: {text}{f' [{inner}]' if inner else ''}" if text else name


def safe_traceback(error: BaseException) -> str:
    """Return the traceback with causes, at most `DIAGNOSTICS_LIMIT` characters, never raising."""
    try:
        text = "".join(traceback.format_exception(error))
    except BaseException:  # noqa: BLE001 - see safe_text; the frames alone are still useful
        text = f"{''.join(traceback.format_tb(error.__traceback__))}{safe_text(error)}\n"
    text = utf8_text(text)
    if len(text) > DIAGNOSTICS_LIMIT:
        cut = len(text) - DIAGNOSTICS_LIMIT
        text = f"[{cut} characters cut]\n{text[-DIAGNOSTICS_LIMIT:]}"
    return text


def _members(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        yield from error.exceptions[:10]


def _validation_text(error: ValidationError) -> str:
    """Name the fields; pydantic's own text spans many lines and ends in an address."""
    shown = [
        f"{'.'.join(str(part) for part in detail['loc'])}: {detail['msg']}"
        for detail in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    return f"{error.title}: {'; '.join(shown[:10])}"


def _classified(failure: AttemptFailure, where: Where) -> Failure:
    permanent = isinstance(failure, PermanentFailure) or failure.code in PERMANENT_CODES
    try:
        found = issue(failure.severity, failure.phase, failure.code, failure.message)
    except (ValidationError, AttributeError, TypeError) as error:
        # A plug-in may classify with words that are not in the contract.
        default = TABLE[where]
        text = f"{failure.code!r}: {failure.message!r} (classified wrongly: {safe_text(error)})"
        found = issue(default.severity, default.phase, default.code, text)
    return Failure(
        issue=found,
        diagnostics=safe_traceback(failure),
        is_permanent=permanent,
        retry_after_s=_seconds(failure.retry_after_s),
        partial=_partial(failure),
    )


def _partial(failure: AttemptFailure | EnvironmentFailed) -> RunResult | None:
    return failure.partial if isinstance(failure.partial, RunResult) else None


def _seconds(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and value >= 0 else None
