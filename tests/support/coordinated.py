"""Plug-ins and fakes for tests of whoever coordinates. Nothing here executes anything."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import cast

from pydantic import Field

from agentcompass.benchmarks.base import Benchmark, HarnessFreeBenchmark
from agentcompass.coordinator.planning.start import SealedRun
from agentcompass.coordinator.watching.decide import WatchPolicy
from agentcompass.coordinator.watching.progress import Progress
from agentcompass.coordinator.watching.watch import Tools
from agentcompass.environments.base import Environment
from agentcompass.harnesses.base import Harness
from agentcompass.models.base import Frozen, JsonObject, NoParams
from agentcompass.models.metric import MetricContract, MetricSpec
from agentcompass.models.task import TaskResources, TaskSpec, TaskTimeouts
from tests.builders import T0
from tests.fakes.queue import FakeQueue

MODULE = "tests.support.coordinated"
CORRECT = MetricContract(
    metrics=(MetricSpec(metric_id="correct", kind="binary_success", primary=True),)
)


class BenchParams(Frozen):
    ids: tuple[str, ...] = ("a", "b")
    slow: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    breaks: bool = False


class Bench(Benchmark[BenchParams]):
    """Tasks as the parameters say."""

    id = "bench"
    Params = BenchParams
    contract = CORRECT

    def load_tasks(self) -> Iterable[TaskSpec]:
        for task_id in self.params.ids:
            limits = TaskTimeouts(run_timeout_s=7) if task_id in self.params.slow else None
            yield TaskSpec(
                task_id=task_id,
                resources=TaskResources(gpus=1 if task_id in self.params.gpus else None),
                timeouts=limits or TaskTimeouts(),
            )
        if self.params.breaks:
            raise OSError("the data set is on fire")


class AsyncBench(Bench):
    """The same, loaded asynchronously."""

    async def load_tasks(self) -> Iterable[TaskSpec]:  # type: ignore[override]  # both are allowed
        return list(super().load_tasks())


class FreeBench(HarnessFreeBenchmark[NoParams]):
    """Brings its own agent."""

    id = "free"
    contract = CORRECT

    def load_tasks(self) -> Iterable[TaskSpec]:
        yield TaskSpec(task_id="only")


class HarnessParams(Frozen):
    size: int = Field(default=1, ge=1)


class Agent(Harness[HarnessParams]):
    """Never acts."""

    id = "agent"
    Params = HarnessParams


class Place(Environment[NoParams]):
    """Is nowhere."""

    id = "place"


def request_fields(**benchmark: object) -> JsonObject:
    """Return a request over the plug-ins above, shaped like a request file."""
    params = cast("JsonObject", benchmark)
    return {
        "benchmark": {"id": f"{MODULE}:Bench", "params": params},
        "harness": {"id": f"{MODULE}:Agent"},
        "environment": {"id": f"{MODULE}:Place"},
        "model": {"id": "org/m"},
    }


class FakeClock:
    """Stands still until somebody waits; may act at a given moment."""

    def __init__(self) -> None:
        self.at_s = 0.0
        self.plans: list[tuple[float, object]] = []

    def now(self) -> datetime:
        return T0 + timedelta(seconds=self.at_s)

    def monotonic(self) -> float:
        return self.at_s

    def wait(self, seconds: float) -> None:
        self.at_s += seconds
        due = [plan for plan in self.plans if plan[0] <= self.at_s]
        self.plans = [plan for plan in self.plans if plan[0] > self.at_s]
        for _, act in due:
            act()  # type: ignore[operator]


class Recorder:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.seen: list[Progress] = []

    def progress(self, run: SealedRun, progress: Progress) -> None:
        self.seen.append(progress)

    def say(self, run: SealedRun, message: str) -> None:
        self.lines.append(message)


class World:
    """Tools for watching, with everything faked but the directory."""

    def __init__(self) -> None:
        self.queue = FakeQueue()
        self.clock = FakeClock()
        self.observer = Recorder()
        self.finalized: list[Path] = []
        self.is_asked = False

    def tools(self, policy: WatchPolicy | None = None) -> Tools:
        return Tools(
            queue=self.queue,
            clock=self.clock,
            observer=self.observer,
            policy=policy or WatchPolicy(),
            finalize=self.finalized.append,
            is_asked_to_leave=lambda: self.is_asked or self.clock.at_s > 7_200,
            by="me@here",
        )
