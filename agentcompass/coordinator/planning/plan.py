"""A request becomes a plan: components loaded, tasks chosen, one `ExecutionPlan` per attempt.

Nothing is reserved here. What is wrong with the request as a whole is refused; what is wrong with
one task is frozen as that task's failure, and its siblings run.
"""

from __future__ import annotations

import inspect
import json
import os
from collections import ChainMap
from collections.abc import AsyncIterable, Awaitable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final, Self, TypeVar

from pydantic import BaseModel, JsonValue, ValidationError

from agentcompass.analyzers.base import Analyzer
from agentcompass.benchmarks.base import Benchmark, HarnessFreeBenchmark
from agentcompass.coordinator.planning.recipes import Recipes, recipes_of, setup_failed
from agentcompass.coordinator.planning.selection import selected
from agentcompass.coordinator.planning.spool import TaskSpool
from agentcompass.coordinator.reuse.examine import New, Reuse
from agentcompass.environments.base import Environment
from agentcompass.errors import AgentCompassError, UsageError
from agentcompass.harnesses.base import Harness
from agentcompass.metrics.report import check_plan
from agentcompass.models.issue import MESSAGE_LIMIT, Issue
from agentcompass.models.metric import MetricContract
from agentcompass.models.plan import ExecutionPlan, ResolvedPlans, TaskPlans
from agentcompass.models.request import ComponentSpec, Request
from agentcompass.models.task import TaskSpec, TaskTimeouts
from agentcompass.recipes.base import Recipe
from agentcompass.runtime import components
from agentcompass.runtime.policy import deadlines, retry_policy
from agentcompass.runtime.values import live
from agentcompass.runtime.values.references import as_far_as_known
from agentcompass.store.foreign import is_foreign
from agentcompass.store.tasks import entries, read_at

NO_HARNESS: Final = "none"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Machine:
    """What is known of the machine that will execute; all null if it is another one."""

    gpus: int | None = None


@dataclass(frozen=True, slots=True)
class Planned:
    """All that a run needs to be frozen; a context that ends when it has been."""

    request: Request
    contract: MetricContract
    aggregation: str
    category_hierarchy: JsonValue
    custom_aggregation: bool
    plans: ResolvedPlans
    tasks: TaskSpool
    reuse: Reuse | None = None
    """What is taken over from an earlier run, as examined for these very tasks."""
    benchmark_sha256: str | None = None
    """Of the file that defines the benchmark's class; None if there is none."""

    @property
    def new(self) -> New:
        """The run as reuse sees it."""
        return New(self.request, self.contract, self.plans, self.tasks, self.benchmark_sha256)

    @property
    def attempt_count(self) -> int:
        """Tasks times k."""
        return len(self.tasks) * self.request.execution.attempts.k

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.tasks.close()


def plan(
    request: Request, *, trusted_roots: Sequence[Path] | None = None, machine: Machine | None = None
) -> Planned:
    """Load everything once and plan every attempt; nothing is written outside a temporary file.

    Args:
        trusted_roots: folders whose Python files may be executed; None trusts every file, which is
            right only for a request that the user has just typed.
        machine: where the attempts will run, as far as it is known.

    Raises:
        UsageError: a component, a parameter, the contract, an id or the selection is wrong.
    """
    benchmark = _benchmark(request, trusted_roots)
    planner = _Planner(request, benchmark, _recipes(request, trusted_roots), machine or Machine())
    with ExitStack() as undo:
        tasks = undo.enter_context(TaskSpool())
        loaded = _frozen(request) or _loaded(benchmark, request.benchmark.id)
        for task in selected(loaded, request.selection):
            tasks.append(task)
            planner.add(task)
        if not len(tasks):
            raise UsageError(
                f"benchmark {request.benchmark.id!r} has no tasks", where="--benchmark"
            )
        check_plan(
            benchmark.contract,
            request.execution.attempts,
            planner.categories,
            aggregation=benchmark.aggregation,
            category_hierarchy=benchmark.category_hierarchy,
        )
        undo.pop_all()
    return Planned(
        request=request,
        contract=benchmark.contract,
        aggregation=benchmark.aggregation,
        category_hierarchy=benchmark.category_hierarchy,
        benchmark_sha256=_code_of(benchmark),
        custom_aggregation=type(benchmark).aggregate_metrics is not Benchmark.aggregate_metrics,
        plans=planner.resolved(),
        tasks=tasks,
    )


def check_components(request: Request, *, trusted_roots: Sequence[Path] | None = None) -> None:
    """Load every component that a request names, and nothing else of its plan.

    Raises:
        UsageError: a component or a parameter is wrong.
    """
    _benchmark(request, trusted_roots)


class _Planner:
    """Resolves one plan per task and stores each distinct one once."""

    def __init__(
        self,
        request: Request,
        benchmark: Benchmark[BaseModel],
        recipes: Recipes,
        machine: Machine,
    ) -> None:
        self.categories: set[str] = set()
        self._request = request
        self._recipes = recipes
        self._machine = machine
        self._numbers = tuple(str(n) for n in range(1, request.execution.attempts.k + 1))
        self._default = ExecutionPlan(
            benchmark=request.benchmark,
            harness=request.harness,
            environment=request.environment,
            evaluation_environment=request.evaluation_environment,
            evaluation_mode=benchmark.evaluation_environment_mode,
            model=request.model,
            deadlines=deadlines(request.execution, TaskTimeouts()),
            retry=retry_policy(request.execution),
            analyzers=request.execution.analyzers,
            recipes=recipes.ids,
        )
        self._digest = digest_of(self._default)
        self._plans = {self._digest: self._default}
        self._tasks: dict[str, TaskPlans] = {}
        self._plain_timeouts = TaskTimeouts()

    def add(self, task: TaskSpec) -> None:
        """Plan all attempts of one task; equal for all of them."""
        self.categories.add(task.category_name)
        own = self._plan_of(task)
        if own is self._default:
            return
        digest = digest_of(own)
        self._plans.setdefault(digest, own)
        if digest != self._digest:
            self._tasks[task.task_id] = TaskPlans(attempts=dict.fromkeys(self._numbers, digest))

    def resolved(self) -> ResolvedPlans:
        return ResolvedPlans(plans=self._plans, default=self._digest, tasks=self._tasks)

    def _plan_of(self, task: TaskSpec) -> ExecutionPlan:
        own = self._default
        if task.timeouts != self._plain_timeouts:
            limits = deadlines(self._request.execution, task.timeouts)
            own = own.model_copy(update={"deadlines": limits})
        failure = self._unmet(task)
        if failure is not None:
            return own.model_copy(update={"failure": failure})
        return self._recipes.applied(own, task)

    def _unmet(self, task: TaskSpec) -> Issue | None:
        wanted, there = task.resources.gpus or 0, self._machine.gpus
        if there is None or wanted <= there:
            return None
        return setup_failed(f"the task needs {wanted} GPUs, and this machine has {there}")


def digest_of(plan: ExecutionPlan) -> str:
    """Return the SHA-256 of a plan's canonical JSON: sorted keys, no white space."""
    content = plan.model_dump(mode="json")
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256(canonical.encode()).hexdigest()


def _benchmark(request: Request, trusted_roots: Sequence[Path] | None) -> Benchmark[BaseModel]:
    """Load every component of a request, so that a wrong one is refused now and not on a worker."""
    benchmark = _load("benchmark", request.benchmark, Benchmark, trusted_roots)
    _load("harness", request.harness, Harness, trusted_roots)
    _load("environment", request.environment, Environment, trusted_roots)
    if request.evaluation_environment is not None:
        _load("environment", request.evaluation_environment, Environment, trusted_roots)
    _load_analyzers(request, trusted_roots)
    brings_its_own = isinstance(benchmark, HarnessFreeBenchmark)
    if brings_its_own and request.harness.id != NO_HARNESS:
        raise UsageError(
            f"benchmark {request.benchmark.id!r} brings its own agent",
            where="--harness",
            hint=f"leave --harness {request.harness.id} out",
        )
    if not brings_its_own and request.harness.id == NO_HARNESS:
        raise UsageError(
            f"benchmark {request.benchmark.id!r} has no agent of its own",
            where="--harness",
            hint="name one, such as --harness openai_chat (see `agentcompass list harnesses`)",
        )
    return benchmark


def _load_analyzers(request: Request, trusted_roots: Sequence[Path] | None) -> None:
    seen = set[str]()
    for spec in request.execution.analyzers:
        own = _load("analyzer", spec, Analyzer, trusted_roots).id
        if own in seen:
            raise UsageError(
                f"analyzer {own!r} is asked for twice",
                where="--analyzer",
                hint="what it says of an attempt has one place, under its id",
            )
        seen.add(own)


def _load(
    kind: components.Kind, spec: ComponentSpec, base: type[T], trusted_roots: Sequence[Path] | None
) -> T:
    known = as_far_as_known(spec, ChainMap(dict(os.environ), dict(live.known())))
    loaded = components.load(kind, known, trusted_roots=trusted_roots)
    if not isinstance(loaded, base):
        raise UsageError(f"{spec.id} is not a {kind}", where=f"--{kind}")
    return loaded


def _recipes(request: Request, trusted_roots: Sequence[Path] | None) -> Recipes:
    def load(name: str) -> Recipe:
        return _load("recipe", ComponentSpec(id=name), Recipe, trusted_roots)

    known = [name for name, _ in components.known("recipe")]
    return recipes_of(request, load, known, partial(_check_environments, trusted_roots))


def _check_environments(trusted_roots: Sequence[Path] | None, plan: ExecutionPlan) -> None:
    _load("environment", plan.environment, Environment, trusted_roots)
    if plan.evaluation_environment is not None:
        _load("environment", plan.evaluation_environment, Environment, trusted_roots)


def _frozen(request: Request) -> Iterator[object] | None:
    """Return the tasks of the run whose agents' work is evaluated again; None if there is none.

    The data set may be gone or changed since; the agents worked on what was frozen.
    """
    reuse = request.reuse
    if reuse is None or not reuse.only_evaluate:
        return None
    source = Path(reuse.run_id)
    if is_foreign(source):
        raise UsageError(
            f"run {source.name!r} froze no task list, so it cannot be evaluated again",
            where=str(source),
            hint="`agentcompass run --reuse-run-id PATH --rerun …` takes over what it has",
        )
    return (read_at(source, entry.offset) for entry in entries(source))


def _code_of(benchmark: Benchmark[BaseModel]) -> str | None:
    try:
        return sha256(Path(inspect.getfile(type(benchmark))).read_bytes()).hexdigest()
    except (OSError, TypeError):  # of a class that was made without a file
        return None


def _loaded(benchmark: Benchmark[BaseModel], name: str) -> Iterator[object]:
    """Yield what the benchmark loads; what it raises becomes one line about its data."""
    try:
        yield from _iterated(benchmark.load_tasks())
    except (AgentCompassError, ValidationError):
        raise
    except Exception as error:  # a plug-in may raise anything: it is the user's data or code
        reason = " ".join(str(error).split())[:MESSAGE_LIMIT]
        raise UsageError(
            f"benchmark {name!r} cannot load its tasks: {type(error).__name__}: {reason}",
            where="--benchmark",
        ) from error


def _iterated(loaded: object) -> Iterable[object]:
    """Return tasks as an iterable, however `load_tasks` is written."""
    if isinstance(loaded, Iterable):
        return loaded
    import asyncio  # most benchmarks load their tasks without

    if inspect.isawaitable(loaded):
        return _iterated(asyncio.run(_awaited(loaded)))
    if isinstance(loaded, AsyncIterable):
        return asyncio.run(_gathered(loaded))
    raise UsageError(f"load_tasks returned a {type(loaded).__name__}, not tasks")


async def _awaited(loaded: Awaitable[object]) -> object:
    return await loaded


async def _gathered(loaded: AsyncIterable[object]) -> list[object]:
    return [task async for task in loaded]
