"""Agents that do what no agent should, beside the scripted ones of `tests.support.stubs`.

| agent | |
|---|---|
| `c_hang` | hangs in C: holds the interpreter's lock and hears no signal |
| `c_wait` | hangs in C without the lock |
| `c_nap:SECONDS` | the same for a while, then answers what it should not any more |
| `stop_itself` | SIGSTOP for its own process |
| `kill_parent` | SIGKILL for the process above |
| `allocate` | takes memory until there is none |
| `print:BYTES` | prints so much in its environment, answers how much of it was counted |
| `trajectory:BYTES` | answers well, with a trajectory of that size |
| `child:S`, `daemon:S` | starts a `sleep S` by itself, outside of its environment, and forgets it |
| `daemon_inside:S` | starts one in its environment, in a session of its own |
| `twin`, `twin_exit` | forks; the child comes back, or exits, as if it were the worker |
| `nested:S` | all three, and then does not end |
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

from agentcompass.environments.base import EnvironmentHandle
from agentcompass.harnesses.base import Harness
from agentcompass.models.context import AttemptContext, ModelEndpoint
from agentcompass.models.result import RunResult
from agentcompass.models.task import (
    ArtifactRequest,
    PreparedTask,
    TaskResources,
    TaskSpec,
    TaskTimeouts,
)
from agentcompass.models.trajectory import Step, Trajectory
from tests.support.stub_acts import ACTS, Act, answer, right
from tests.support.stubs import StubBenchmark, StubParams, behaviour

_ROOM_BYTES: Final = 400 << 20
_STEP: Final = 500_000


class HostileHarness(Harness[StubParams]):
    """Follows a script, as the stub does, with more to choose from."""

    id: ClassVar[str] = "hostile"
    Params = StubParams

    def run_task(
        self,
        prepared: PreparedTask,
        environment: EnvironmentHandle,
        model: ModelEndpoint,
        context: AttemptContext,
    ) -> RunResult:
        does = behaviour(self.params, "agent", prepared.task_id, context.attempt, "ok")
        name, _, argument = does.partition(":")
        return {**ACTS, **HOSTILE}[name](argument, prepared, context, environment, model)


def _c_hang(*_: object) -> RunResult:
    signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
    ctypes.PyDLL(None).sleep(3_600)
    raise AssertionError


def _c_wait(*_: object) -> RunResult:
    signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
    ctypes.CDLL(None).sleep(3_600)
    raise AssertionError


def _c_nap(seconds: str, prepared: PreparedTask, context: AttemptContext, *_: object) -> RunResult:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
    try:
        ctypes.CDLL(None).sleep(int(seconds))
        return answer(prepared, context, "too late")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _stop_itself(_: str, prepared: PreparedTask, context: AttemptContext, *__: object) -> RunResult:
    os.kill(os.getpid(), signal.SIGSTOP)
    return right(prepared, context)


def _kill_parent(*_: object) -> RunResult:
    os.kill(os.getppid(), signal.SIGKILL)
    signal.pause()
    raise AssertionError


def _allocate(*_: object) -> RunResult:
    """The limit stands for the end of the machine's memory, which others need."""
    used = resource.getpagesize() * int(open("/proc/self/statm").read().split()[0])  # noqa: SIM115, PTH123
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + _ROOM_BYTES, before[1]))
    try:
        hoard = [bytearray(1 << 20)]
        while True:
            hoard.append(bytearray(1 << 20))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def _print(
    size: str,
    prepared: PreparedTask,
    context: AttemptContext,
    environment: EnvironmentHandle,
    _: ModelEndpoint,
) -> RunResult:
    ended = environment.exec(f"head -c {size} /dev/zero | tr '\\0' x")
    return answer(prepared, context, f"{ended.stdout_bytes} of which {len(ended.stdout)}")


def _trajectory(
    size: str, prepared: PreparedTask, context: AttemptContext, *_: object
) -> RunResult:
    """In steps, because a single text is cut at a megabyte."""
    steps = (Step(step_id=n, observation="x" * _STEP) for n in range(1, int(size) // _STEP + 1))
    return right(prepared, context).model_copy(update={"trajectory": Trajectory(steps=(*steps,))})


def _child(seconds: str, prepared: PreparedTask, context: AttemptContext, *__: object) -> RunResult:
    subprocess.Popen(["sleep", seconds])
    return right(prepared, context)


def _daemon(
    seconds: str, prepared: PreparedTask, context: AttemptContext, *__: object
) -> RunResult:
    fork = f"import os; os.fork() and os._exit(0); os.setsid(); os.execlp('sleep', 'sleep', '{seconds}')"
    subprocess.run([sys.executable, "-I", "-S", "-c", fork], check=True)
    return right(prepared, context)


def _daemon_inside(
    seconds: str,
    prepared: PreparedTask,
    context: AttemptContext,
    environment: EnvironmentHandle,
    _: ModelEndpoint,
) -> RunResult:
    environment.exec(f"setsid sleep {seconds} >/dev/null 2>&1 &")
    return right(prepared, context)


def _twin(_: str, prepared: PreparedTask, context: AttemptContext, *__: object) -> RunResult:
    if not os.fork():
        return answer(prepared, context, "the child's")
    time.sleep(0.5)  # the child would be first
    return right(prepared, context)


def _twin_exit(_: str, prepared: PreparedTask, context: AttemptContext, *__: object) -> RunResult:
    if not os.fork():
        sys.exit("the child's")
    time.sleep(0.5)
    return right(prepared, context)


def _nested(*given: Any) -> RunResult:
    for act in (_child, _daemon, _daemon_inside):
        act(*given)
    return ACTS["hang"](*given)


HOSTILE: Mapping[str, Act] = {
    "c_hang": _c_hang,
    "c_wait": _c_wait,
    "c_nap": _c_nap,
    "stop_itself": _stop_itself,
    "kill_parent": _kill_parent,
    "allocate": _allocate,
    "print": _print,
    "trajectory": _trajectory,
    "child": _child,
    "daemon": _daemon,
    "daemon_inside": _daemon_inside,
    "nested": _nested,
    "twin": _twin,
    "twin_exit": _twin_exit,
}


class NeedyBenchmark(StubBenchmark):
    """Its first two tasks need an image, which a host has not."""

    def load_tasks(self) -> Iterable[TaskSpec]:
        for number, task in enumerate(super().load_tasks()):
            image = TaskResources(image="none:latest") if number < 2 else TaskResources()
            yield task.model_copy(update={"resources": image})


class PatientBenchmark(StubBenchmark):
    """Has a short time-out for some of its tasks only."""

    def load_tasks(self) -> Iterable[TaskSpec]:
        return map(_patient, super().load_tasks())


def _patient(task: TaskSpec) -> TaskSpec:
    """Give what is fine the time that a busy machine may take."""
    if not task.task_id.startswith("fine"):
        return task
    return task.model_copy(update={"timeouts": TaskTimeouts(run_timeout_s=120)})


class ArtifactBenchmark(StubBenchmark):
    """Collects what its agent may leave."""

    def load_tasks(self) -> Iterable[TaskSpec]:
        for task in super().load_tasks():
            yield task.model_copy(update={"artifacts": (ArtifactRequest(path="out"),)})


class WatchedBenchmark(ArtifactBenchmark):
    """Evaluates in the agent's environment what the agent has left there."""

    evaluation_environment_mode = "reuse"

    def load_tasks(self) -> Iterable[TaskSpec]:
        return map(_patient, super().load_tasks())
