"""What a solution gets of the machine that judges it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentcompass.benchmarks import humaneval
from agentcompass.benchmarks.humaneval import HumanEvalParams
from tests.support.process_environment import ProcessEnvironment
from tests.unit.benchmarks.test_humaneval import environment, judged, reason

__all__ = ["environment"]

CANARY = "canary-4f1d0c9b8a7e6f5d"
CAN_UNSHARE = (
    "import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare(0x40000000) and"
    " ctypes.CDLL(None).unshare(0x50000000))"
)


def platform_can() -> bool:
    if sys.platform != "linux":
        return False
    return subprocess.run([sys.executable, "-c", CAN_UNSHARE], check=False).returncode == 0


def solution(*lines: str) -> str:
    """Return a program that is right if the last line is true."""
    body = "\n".join(f"    {line}" for line in lines[:-1])
    return (
        f"def twice(n):\n    import os, socket\n{body}\n    assert {lines[-1]}\n    return 2 * n\n"
    )


@pytest.mark.skipif(not platform_can(), reason="this system lets nobody leave its network")
def test_a_solution_has_no_network(environment: ProcessEnvironment) -> None:
    names = "names = {name for _, name in socket.if_nameindex()}"

    assert reason(judged(solution(names, "names <= {'lo'}"), environment)) == "passed"


def test_a_solution_cannot_read_its_tests_again(environment: ProcessEnvironment) -> None:
    assert (
        reason(judged(solution("data = os.read(0, 100)", "data == b''"), environment)) == "passed"
    )


def test_a_solution_inherits_no_secret(
    environment: ProcessEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", CANARY)
    hidden = "text = repr(dict(os.environ)) + open('/proc/self/environ').read() * 0"

    assert reason(judged(solution(hidden, f"{CANARY!r} not in text"), environment)) == "passed"


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_a_solution_inherits_no_descriptor(environment: ProcessEnvironment) -> None:
    secret = os.open(__file__, os.O_RDONLY)
    try:
        found = "open_ = [os.readlink(f'/proc/self/fd/{fd}') for fd in (3, 4, 5, 6) if os.path.lexists(f'/proc/self/fd/{fd}')]"
        result = judged(
            solution(found, f"not any({Path(__file__).name!r} in x for x in open_)"), environment
        )
    finally:
        os.close(secret)

    assert reason(result) == "passed"


def test_a_solution_that_burns_all_processors_is_ended(environment: ProcessEnvironment) -> None:
    limits = "import resource; soft, hard = resource.getrlimit(resource.RLIMIT_CPU)"

    result = judged(solution(limits, "hard == 4"), environment, HumanEvalParams(timeout_s=2.5))

    assert reason(result) == "passed"


def test_where_the_network_cannot_be_taken_away_it_is_said_once(
    environment: ProcessEnvironment,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    humaneval._say_once.cache_clear()
    runner = humaneval._RUNNER.replace("def unshare(", "def unshare_no(").replace(
        "def say(", "def unshare(_):\n    raise OSError(1, 'not permitted')\n\n\ndef say("
    )
    monkeypatch.setattr(
        humaneval, "_RUNNER", runner.replace('interfaces() <= {"lo"}', "not interfaces()")
    )

    with caplog.at_level(logging.WARNING):
        results = [judged("def twice(n):\n    return 2 * n\n", environment) for _ in range(2)]

    assert [reason(result) for result in results] == ["passed", "passed"]
    assert caplog.text.count("can reach the network") == 1
    humaneval._say_once.cache_clear()
