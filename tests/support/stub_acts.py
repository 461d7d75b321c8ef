"""What the stub agent and the stub evaluator can do; the table is in `tests.support.stubs`."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import NoReturn, TypeAlias, cast

from agentcompass.environments.base import EnvironmentHandle
from agentcompass.errors import AttemptFailure, PermanentFailure
from agentcompass.models.context import AttemptContext, ModelEndpoint
from agentcompass.models.issue import Issue, Severity
from agentcompass.models.result import RunResult
from agentcompass.models.task import PreparedTask
from agentcompass.models.trajectory import Step, Trajectory

FOREVER_S = 3_600.0

Act: TypeAlias = Callable[
    [str, PreparedTask, AttemptContext, EnvironmentHandle, ModelEndpoint], RunResult
]
Judge: TypeAlias = Callable[[str, PreparedTask, RunResult, EnvironmentHandle | None], RunResult]
NOTHING = cast("RunResult", None)
"""What a plug-in returns that forgot to return anything."""


def answer(prepared: PreparedTask, context: AttemptContext, text: object) -> RunResult:
    step = Step(step_id=1, user_content=prepared.input.prompt, observation=str(text))
    return RunResult(
        task_id=prepared.task_id,
        final_answer=text,
        trajectory=Trajectory(steps=(step,)),
        telemetry={"input_tokens": 3, "session_token": "t0ps3cr3t"},
        extra={"attempt": context.attempt},
    )


def right(prepared: PreparedTask, context: AttemptContext) -> RunResult:
    return answer(prepared, context, prepared.ground_truth)


def _ok(_: str, prepared: PreparedTask, context: AttemptContext, *__: object) -> RunResult:
    return right(prepared, context)


def _wrong(_: str, prepared: PreparedTask, context: AttemptContext, *__: object) -> RunResult:
    return answer(prepared, context, "wrong")


def _answer(text: str, prepared: PreparedTask, context: AttemptContext, *_: object) -> RunResult:
    return answer(prepared, context, text)


def _nonce(_: str, prepared: PreparedTask, context: AttemptContext, *__: object) -> RunResult:
    return answer(prepared, context, uuid.uuid4().hex)


def _failure(severity: Severity, kind: type[AttemptFailure] = AttemptFailure) -> Act:
    def act(code: str, *_: object) -> RunResult:
        raise kind(severity, "run", code or "stub_failed", f"scripted {severity}")

    return act


def _partial(_: str, prepared: PreparedTask, context: AttemptContext, *__: object) -> RunResult:
    done = right(prepared, context)
    raise AttemptFailure("error", "run", "model_timeout", "the model is slow", done)


def _warning(_: str, prepared: PreparedTask, context: AttemptContext, *__: object) -> RunResult:
    warning = Issue(severity="warning", phase="run", code="stub_warning", message="beware")
    return right(prepared, context).with_issues([warning])


def _other_task(_: str, prepared: PreparedTask, context: AttemptContext, *__: object) -> RunResult:
    return right(prepared, context).model_copy(update={"task_id": "another"})


def _status(_: str, prepared: PreparedTask, context: AttemptContext, *__: object) -> RunResult:
    return right(prepared, context).model_copy(update={"status": "run_error"})


def _empty(_: str, prepared: PreparedTask, *__: object) -> RunResult:
    return RunResult(task_id=prepared.task_id)


def _none(*_: object) -> RunResult:
    return NOTHING


def _sleep(seconds: str, prepared: PreparedTask, context: AttemptContext, *_: object) -> RunResult:
    until = time.monotonic() + float(seconds or FOREVER_S)
    while time.monotonic() < until:
        time.sleep(0.01)
    return right(prepared, context)


def _until(path: str, prepared: PreparedTask, context: AttemptContext, *_: object) -> RunResult:
    while not Path(path).exists():
        time.sleep(0.02)
    return right(prepared, context)


def _c_sleep(
    seconds: str, prepared: PreparedTask, context: AttemptContext, *_: object
) -> RunResult:
    time.sleep(float(seconds))
    return right(prepared, context)


def _run(
    command: str,
    prepared: PreparedTask,
    context: AttemptContext,
    environment: EnvironmentHandle,
    _: ModelEndpoint,
) -> RunResult:
    return answer(prepared, context, environment.exec(command).stdout)


def _secret(
    _: str,
    prepared: PreparedTask,
    context: AttemptContext,
    environment: EnvironmentHandle,
    model: ModelEndpoint,
) -> RunResult:
    key = model.api_key.reveal() if model.api_key else ""
    cause = ConnectionError(f"GET https://user:{key}@host/?api_key={key}")
    raise ValueError(f"Invalid header value b'Bearer {key}\\n'") from cause


def _says_secret(
    _: str,
    prepared: PreparedTask,
    context: AttemptContext,
    environment: EnvironmentHandle,
    model: ModelEndpoint,
) -> RunResult:
    key = model.api_key.reveal() if model.api_key else ""
    return answer(prepared, context, f"my key is {key}, it starts with {key[:14]}")


def _logs_secret(
    _: str,
    prepared: PreparedTask,
    context: AttemptContext,
    environment: EnvironmentHandle,
    model: ModelEndpoint,
) -> RunResult:
    key = model.api_key.reveal() if model.api_key else ""
    context.logger.info("the key is %s indeed", key)
    context.logger.error("it raised", exc_info=ValueError(key))
    return right(prepared, context)


class _Colour(Enum):
    RED = "red"


def _nested(levels: int) -> object:
    value: object = 0
    for _ in range(levels):
        value = [value]
    return value


VALUES: Mapping[str, object] = {
    "nan": {"x": [float("nan"), float("inf")]},
    "odd": {
        "decimal": Decimal("0.5"),
        "when": datetime(2026, 1, 2, tzinfo=UTC),
        "path": Path("/a"),
        "set": {2, 1},
        "colour": _Colour.RED,
        "bytes": b"\xff!",
        "large": 10**30,
    },
    "lambda": {"fn": lambda: None, "kept": 1},
    "deep": _nested(500),
    "huge": "x" * 3_000_000,
}


def _value(name: str) -> Act:
    def act(_: str, prepared: PreparedTask, context: AttemptContext, *__: object) -> RunResult:
        good = right(prepared, context)
        return good.model_copy(update={"extra": {**good.extra, "odd": VALUES[name]}})

    return act


def _surrogate(_: str, prepared: PreparedTask, context: AttemptContext, *__: object) -> RunResult:
    return answer(prepared, context, "a\udc00b\0\u2028\ufeff")


class NeedsArgument(Exception):
    """Cannot be unpickled."""

    def __init__(self, needed: str) -> None:
        super().__init__()
        self.needed = needed


class BadText(Exception):
    """Raises when it is asked for its text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class HoldsLock(Exception):
    """Cannot be pickled."""

    def __init__(self) -> None:
        super().__init__("holds a lock")
        self.lock = threading.Lock()


ERRORS: Mapping[str, Callable[[], BaseException]] = {
    "raise": lambda: ValueError("scripted"),
    "lock": HoldsLock,
    "init": lambda: NeedsArgument("x"),
    "str": BadText,
    "group": lambda: ExceptionGroup("several", [ValueError("one"), KeyError("two")]),
    "exit": lambda: SystemExit(3),
    "interrupt": KeyboardInterrupt,
    "memory": MemoryError,
    "cancelled": asyncio.CancelledError,
}


def _die() -> NoReturn:
    os._exit(7)


def _be_killed() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def _segfault() -> NoReturn:
    ctypes.string_at(0)
    raise AssertionError


def be_stubborn() -> NoReturn:
    while True:
        try:
            time.sleep(0.01)
        except BaseException:  # noqa: BLE001 - that is the fault
            continue


def _hang() -> NoReturn:
    while True:
        time.sleep(0.01)


ENDS: Mapping[str, Callable[[], NoReturn]] = {
    "die": _die,
    "kill": _be_killed,
    "segfault": _segfault,
    "stubborn": be_stubborn,
    "hang": _hang,
}


def _raising(name: str) -> Act:
    def act(*_: object) -> RunResult:
        raise ERRORS[name]()

    return act


def _ending(name: str) -> Act:
    def act(*_: object) -> RunResult:
        ENDS[name]()

    return act


ACTS: Mapping[str, Act] = {
    "ok": _ok,
    "wrong": _wrong,
    "answer": _answer,
    "nonce": _nonce,
    "error": _failure("error"),
    "fatal": _failure("fatal"),
    "permanent": _failure("fatal", PermanentFailure),
    "partial": _partial,
    "warning": _warning,
    "other_task": _other_task,
    "status": _status,
    "empty": _empty,
    "none": _none,
    "sleep": _sleep,
    "c_sleep": _c_sleep,
    "until": _until,
    "run": _run,
    "secret": _secret,
    "says_secret": _says_secret,
    "logs_secret": _logs_secret,
    "surrogate": _surrogate,
    **{name: _value(name) for name in VALUES},
    **{name: _raising(name) for name in ERRORS},
    **{name: _ending(name) for name in ENDS},
}


def _grade(_: str, prepared: PreparedTask, result: RunResult, __: object) -> RunResult:
    return result.observed(correct=result.final_answer == prepared.ground_truth)


def _score(value: str, prepared: PreparedTask, result: RunResult, _: object) -> RunResult:
    return result.observed(correct=True, quality=float(value))


def _bad_observation(_: str, prepared: PreparedTask, result: RunResult, __: object) -> RunResult:
    return result.observed(correct=1, quality=float("nan"), undeclared=2)


def _no_observation(_: str, prepared: PreparedTask, result: RunResult, __: object) -> RunResult:
    return result


def _run_test(
    command: str, prepared: PreparedTask, result: RunResult, environment: EnvironmentHandle | None
) -> RunResult:
    if environment is None:
        raise ValueError("there is no environment")
    return result.observed(correct=environment.exec(command).exit_code == 0)


def _judge_failing(severity: Severity) -> Judge:
    def judge(_: str, prepared: PreparedTask, result: RunResult, __: object) -> RunResult:
        partial = result.observed(quality=0.5)
        raise AttemptFailure(severity, "evaluate", "judge_failed", "the judge is ill", partial)

    return judge


def _judge_raising(name: str) -> Judge:
    def judge(*_: object) -> RunResult:
        raise ERRORS[name]()

    return judge


def _judge_ending(name: str) -> Judge:
    def judge(*_: object) -> RunResult:
        ENDS[name]()

    return judge


JUDGES: Mapping[str, Judge] = {
    "grade": _grade,
    "score": _score,
    "run": _run_test,
    "bad_observation": _bad_observation,
    "no_observation": _no_observation,
    "error": _judge_failing("error"),
    "fatal": _judge_failing("fatal"),
    "none": _none,
    **{name: _judge_raising(name) for name in ERRORS},
    **{name: _judge_ending(name) for name in ENDS},
}
