"""Calls plug-in code so that whatever it does becomes a value."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, ParamSpec, TypeVar, cast

from agentcompass.benchmarks.base import Benchmark
from agentcompass.environments.base import Environment
from agentcompass.runtime.calling.calls import call
from agentcompass.runtime.calling.interrupts import Limit, Stopped
from agentcompass.runtime.execution.failures import TABLE, Failure, Where, failure_of
from agentcompass.runtime.issues import issue

T = TypeVar("T")
P = ParamSpec("P")
_OUR_OWN_DEFAULTS: Final = frozenset({Benchmark.prepare, Benchmark.collect_artifacts})
"""They return at once; a thread and a timer would cost far more than they do."""


def tried(
    where: Where,
    limit: Limit,
    fn: Callable[P, T | Awaitable[T]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T | Failure:
    """Call a plug-in's method and return its value, or what its failure means.

    Only `Stopped` is raised: `SystemExit`, `KeyboardInterrupt` and `MemoryError` of a plug-in are
    its attempt's issue, not our worker's end.
    """
    try:
        if _needs_no_watching(fn):
            limit.check()
            return cast("T", fn(*args, **kwargs))
        return call(limit, fn, *args, **kwargs)
    except Stopped:
        raise
    except BaseException as error:  # noqa: BLE001 - the one place where foreign errors become values
        return failure_of(error, where)


def _needs_no_watching(fn: Any) -> bool:
    owner = getattr(fn, "__self__", None)
    bounds_itself = isinstance(owner, Environment) and owner.bounds_itself
    return bounds_itself or getattr(fn, "__func__", None) in _OUR_OWN_DEFAULTS


def wrong_type(where: Where, method: str, found: object, expected: str) -> Failure:
    """Return the failure of a method that returned something else than it promised."""
    default = TABLE[where]
    message = f"{method} returned {type(found).__name__}, not {expected}"
    return Failure(issue(default.severity, default.phase, default.code, message))
