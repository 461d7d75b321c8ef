"""What a plug-in holds of an environment: suits its kind, tells whose fault it was, and ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentcompass.environments.base import Environment, ExecResult
from agentcompass.errors import AttemptFailure, EnvironmentFailed
from agentcompass.runtime.calling.calls import call
from agentcompass.runtime.calling.loop import call_in_loop
from agentcompass.runtime.execution.handles import lent
from tests.support.stubs import StubEnvironment, StubParams
from tests.unit.runtime.conftest import a_limit

Pool = Callable[[Callable[[], Any]], Any]


class Scripted(Environment[StubParams]):
    """Blocks or waits; raises what it is told to."""

    def __init__(self, error: BaseException | None = None) -> None:
        super().__init__(StubParams())
        self.error = error

    @property
    def work_dir(self) -> str:
        return "/scripted"

    def _exec(self, command: object) -> ExecResult:
        if self.error is not None:
            raise self.error
        return ExecResult(0, str(command), "", 0, 0, 0.0)


class Blocking(Scripted):
    def exec(self, command: object, **_: object) -> ExecResult:
        return self._exec(command)


class Waiting(Scripted):
    async def exec(self, command: object, **_: object) -> ExecResult:
        await asyncio.sleep(0)
        return self._exec(command)


def use(environment: Environment[Any], limit: Any) -> str:
    with lent(environment, use, limit) as handle:
        return f"{handle.work_dir} {handle.exec('true').stdout}"


async def use_later(environment: Environment[Any], limit: Any) -> str:
    with lent(environment, use_later, limit) as handle:
        ended = await handle.exec("true")  # type: ignore[misc]  # as base.py says it
        return f"{handle.work_dir} {ended.stdout}"


KINDS = [(use, Blocking), (use, Waiting), (use_later, Blocking), (use_later, Waiting)]


@pytest.mark.parametrize(("method", "kind"), KINDS)
def test_every_kind_of_plug_in_can_use_every_kind_of_environment(
    method: Any, kind: type[Scripted], pool: Pool
) -> None:
    limit = a_limit()

    assert pool(lambda: call(limit, method, kind(), limit)) == "/scripted true"


@pytest.mark.parametrize(("method", "kind"), KINDS)
def test_the_environments_failure_is_not_the_plug_ins(
    method: Any, kind: type[Scripted], pool: Pool
) -> None:
    limit, error = a_limit(), OSError("no daemon")

    with pytest.raises(EnvironmentFailed) as caught:
        pool(lambda: call(limit, method, kind(error), limit))

    assert caught.value.__cause__ is error


@pytest.mark.parametrize(("method", "kind"), KINDS)
@pytest.mark.parametrize(
    "error",
    [FileNotFoundError("x"), ValueError("x"), AttemptFailure("fatal", "run", "gone", "x")],
)
def test_the_plug_ins_own_mistakes_reach_it_as_they_are(
    method: Any, kind: type[Scripted], error: Exception, pool: Pool
) -> None:
    limit = a_limit()

    with pytest.raises(type(error)) as caught:
        pool(lambda: call(limit, method, kind(error), limit))

    assert caught.value is error


def a_stub() -> Environment[Any]:
    return StubEnvironment(StubParams())


def test_a_handle_is_worthless_after_its_call() -> None:
    with lent(a_stub(), use, a_limit()) as handle:
        assert handle.exec("true").exit_code == 0

    with pytest.raises(EnvironmentFailed, match="is over"):
        handle.exec("true")


def test_files_go_through_a_handle_of_either_kind(tmp_path: Path) -> None:
    target, limit = tmp_path / "target", a_limit()

    async def copy() -> None:
        with lent(a_stub(), copy, limit) as lent_handle:
            handle: Any = lent_handle
            await handle.upload(tmp_path, "x")
            await handle.download("x", target)

    call_in_loop(limit, copy)
    assert target.read_text("utf-8") == "content of x"
    with lent(a_stub(), use, limit) as handle:
        handle.upload(tmp_path, "y")
        handle.download("y", target)
    assert target.read_text("utf-8") == "content of y"
