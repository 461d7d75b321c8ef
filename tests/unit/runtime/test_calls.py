"""Deadlines and stops hold for `def` and `async def` in both pools."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from agentcompass.errors import AttemptFailure
from agentcompass.runtime.calling import calls
from agentcompass.runtime.calling.calls import DeadlineReached, Limit, Stopped
from agentcompass.runtime.ports import StopSignal
from tests.unit.runtime.conftest import a_limit

Pool = Callable[[Callable[[], Any]], Any]
LONG_S = 30.0


def call(limit: Limit, fn: Any, *args: Any, **kwargs: Any) -> Any:
    return calls.call(limit, fn, *args, **kwargs)


def add(a: int, b: int) -> int:
    return a + b


async def add_later(a: int, b: int) -> int:
    await asyncio.sleep(0)
    return a + b


def add_as_awaitable(a: int, b: int) -> Awaitable[int]:
    return add_later(a, b)


@pytest.mark.parametrize("fn", [add, add_later, add_as_awaitable])
def test_a_call_returns_what_the_plug_in_returns(fn: Any, pool: Pool) -> None:
    assert pool(lambda: call(a_limit(), fn, 1, b=2)) == 3


def fail(error: BaseException) -> None:
    raise error


async def fail_later(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize("kind", [ValueError, SystemExit, KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("fn", [fail, fail_later])
def test_a_call_raises_what_the_plug_in_raises(
    fn: Any, kind: type[BaseException], pool: Pool
) -> None:
    error = kind("own words")

    with pytest.raises(kind) as caught:
        pool(lambda: call(a_limit(), fn, error))

    assert caught.value is error


def sleep() -> None:
    until = time.monotonic() + LONG_S
    while time.monotonic() < until:
        time.sleep(0.005)


def sleep_in_spite_of_exceptions() -> None:
    until = time.monotonic() + LONG_S
    while time.monotonic() < until:
        try:
            sleep()
        except Exception:  # noqa: BLE001 - as plug-ins do it
            continue


async def sleep_later() -> None:
    await asyncio.sleep(LONG_S)


async def block_the_loop() -> None:
    sleep()


def swallow_once_and_return() -> str:
    with contextlib.suppress(BaseException):
        sleep()
    return "too late"


@pytest.mark.parametrize(
    "fn",
    [sleep, sleep_in_spite_of_exceptions, sleep_later, block_the_loop, swallow_once_and_return],
)
def test_a_deadline_ends_the_call(fn: Any, pool: Pool) -> None:
    started = time.monotonic()

    with pytest.raises(DeadlineReached, match=r"no end within 0\.1 s"):
        pool(lambda: call(a_limit(0.1), fn))

    assert time.monotonic() - started < LONG_S / 3


@pytest.mark.parametrize("fn", [sleep, sleep_later])
def test_a_stop_ends_the_call_and_says_why(fn: Any, pool: Pool) -> None:
    stop = StopSignal()
    timer = threading.Timer(0.05, stop.request, args=("lease_lost",))
    timer.start()

    with pytest.raises(Stopped) as caught:
        pool(lambda: call(a_limit(LONG_S, stop), fn))

    timer.join()
    assert caught.value.reason == "lease_lost"


def test_nothing_is_called_after_a_stop_or_a_deadline(pool: Pool) -> None:
    stop = StopSignal()
    stop.request("cancelled")

    with pytest.raises(Stopped):
        pool(lambda: call(a_limit(LONG_S, stop), pytest.fail, "called"))
    with pytest.raises(DeadlineReached):
        pool(lambda: call(a_limit(-1), pytest.fail, "called"))


def classify_the_interrupt() -> None:
    try:
        sleep()
    except BaseException as error:
        raise AttemptFailure("error", "run", "run_timeout", "kept", partial="so far") from error


def test_interrupted_code_may_still_classify_what_it_had(pool: Pool) -> None:
    limit = replace(a_limit(0.1), repeat_s=5.0, grace_s=20.0)  # no second interrupt meets it

    with pytest.raises(AttemptFailure) as caught:
        pool(lambda: call(limit, classify_the_interrupt))

    assert caught.value.partial == "so far"


def test_a_thread_that_is_stuck_in_c_is_left_alone_after_a_grace(pool: Pool) -> None:
    if pool.__class__.__name__ == "function":
        pytest.skip("in a main thread the keeper kills the process")
    release = threading.Event()

    with pytest.raises(DeadlineReached):
        pool(lambda: call(a_limit(0.05), release.wait, LONG_S))

    assert pool(lambda: call(a_limit(), add, 1, 2)) == 3
    release.set()


def test_a_blocked_loop_does_not_hold_up_later_calls() -> None:
    release = threading.Event()

    async def block_in_c() -> None:
        release.wait(LONG_S)

    with pytest.raises(DeadlineReached):
        call(a_limit(0.05), block_in_c)

    assert call(a_limit(), add_later, 1, 2) == 3
    release.set()


def test_what_a_coroutine_leaves_in_the_loop_ends_with_its_call() -> None:
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            ticks.append(time.monotonic())
            await asyncio.sleep(0)

    async def leave_it() -> None:
        task = asyncio.get_running_loop().create_task(tick())
        await asyncio.sleep(0.01)
        assert not task.done()

    call(a_limit(), leave_it)
    call(a_limit(), asyncio.sleep, 0.01)
    seen = len(ticks)
    call(a_limit(), asyncio.sleep, 0.02)

    assert len(ticks) == seen


def test_hundreds_of_coroutines_wait_at_once() -> None:
    started = time.monotonic()
    threads = [
        threading.Thread(target=lambda: call(a_limit(), asyncio.sleep, 0.2)) for _ in range(100)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert time.monotonic() - started < 10


def test_the_alarm_is_off_after_a_call() -> None:
    call(a_limit(), add, 1, 2)

    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_an_exit_in_a_stray_task_does_not_end_the_loop() -> None:
    async def leave_an_exit() -> None:
        async def quit_later() -> None:
            raise SystemExit

        task = asyncio.get_running_loop().create_task(quit_later())
        await asyncio.wait([task])

    call(a_limit(), leave_an_exit)

    assert call(a_limit(), add_later, 1, 2) == 3


def fork_and_return() -> int:
    return os.fork()


def fork_and_exit() -> int:
    pid = os.fork()
    if not pid:
        sys.exit("this is the child's end, and nobody else's")
    return pid


async def fork_later() -> int:
    return os.fork()


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("fn", [fork_and_return, fork_and_exit, fork_later])
def test_a_process_that_a_plug_in_forks_does_not_come_back(fn: Any, pool: Pool) -> None:
    pid = pool(lambda: call(a_limit(), fn))

    assert os.waitpid(pid, 0) == (pid, 0)


@contextlib.contextmanager
def standing_still(left_s: float) -> Iterator[tuple[Limit, Callable[[], None]]]:
    """Yield a limit with so much time left, which passes only after somebody else let it go on."""
    limit = a_limit(LONG_S)
    with contextlib.ExitStack() as stack:
        stack.enter_context(limit.standing_still())
        limit.until -= limit.remaining_s() - left_s
        yield limit, stack.close


def test_time_that_stands_still_is_not_the_calls_own(pool: Pool) -> None:
    with standing_still(0.3) as (limit, let_go):

        def wait_for_a_turn() -> tuple[float, float]:
            with limit.standing_still():
                let_go()
                time.sleep(0.7)
                left_s, until_s = limit.remaining_s(), limit.until
                limit.until += LONG_S  # what comes after the turn is not hurried
            return left_s, limit.until - until_s - LONG_S

        left_s, stood_s = pool(lambda: call(limit, wait_for_a_turn))

    assert left_s == pytest.approx(0.3)
    assert stood_s >= 0.7


def test_a_coroutine_whose_time_stands_still_is_not_ended(pool: Pool) -> None:
    with standing_still(0.3) as (limit, let_go):

        async def wait_for_a_turn() -> str:
            with limit.standing_still():
                let_go()
                await asyncio.sleep(0.7)
                limit.until += LONG_S
            return "here"

        assert pool(lambda: call(limit, wait_for_a_turn)) == "here"


def test_after_its_turn_a_call_is_ended_at_the_deadline_that_has_moved(pool: Pool) -> None:
    limit = a_limit(0.2)

    def wait_and_hang() -> None:
        with limit.standing_still():
            time.sleep(0.4)
        time.sleep(LONG_S)

    with pytest.raises(DeadlineReached):
        pool(lambda: call(limit, wait_and_hang))


def test_a_stop_ends_what_stands_still(pool: Pool) -> None:
    stop = StopSignal()
    limit = a_limit(LONG_S, stop)

    def wait_for_ever() -> None:
        with limit.standing_still():
            stopping = threading.Timer(0.1, stop.request, ["cancelled"])
            stopping.start()
            while True:
                time.sleep(0.05)

    with pytest.raises(Stopped):
        pool(lambda: call(limit, wait_for_ever))


def test_time_stands_still_until_the_last_of_several_threads_goes_on() -> None:
    with standing_still(0.1) as (limit, let_go):
        until_s = limit.until
        with limit.standing_still():
            time.sleep(0.2)
        assert limit.is_standing_still
        assert not limit.is_over()

        let_go()

    assert limit.until >= until_s + 0.2
