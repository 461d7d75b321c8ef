"""A sealed run of stubs in a temporary folder, and everything that `deliver` needs around it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from agentcompass.models.message import AttemptMessage
from agentcompass.models.plan import (
    Deadlines,
    EvaluationMode,
    ExecutionPlan,
    ResolvedPlans,
    RetryPolicy,
)
from agentcompass.models.request import (
    AttemptPlan,
    ComponentSpec,
    ExecutionSettings,
    ModelSpec,
    Request,
    SecretRef,
)
from agentcompass.models.result import AttemptResult
from agentcompass.models.run_info import RunInfo
from agentcompass.models.task import TaskSpec
from agentcompass.runtime.deliver import deliver
from agentcompass.runtime.ports import (
    Delivered,
    Execution,
    KillReason,
    LeaseHeld,
    LeaseKey,
    LeaseTaken,
    Limits,
    Watch,
)
from agentcompass.runtime.site import Site
from agentcompass.store import attempts, root, run_info, tasks
from agentcompass.store.reserve import reserve
from tests.builders import T0
from tests.support import stubs

DIGEST = "0" * 64
NO_RETRY = RetryPolicy(max_retries=0)
QUICK = Deadlines(setup_timeout_s=20, run_timeout_s=20, collect_timeout_s=20, evaluate_timeout_s=20)


class FakeLeases:
    """Leases in a dictionary."""

    def __init__(self) -> None:
        self.held: dict[LeaseKey, str] = {}
        self.stolen: set[LeaseKey] = set()

    def take(self, key: LeaseKey, token: str, *, worker: str) -> LeaseTaken | LeaseHeld:
        holder = self.held.setdefault(key, token)
        if holder == token:
            return LeaseTaken()
        return LeaseHeld(worker="other", token=holder, since=0.0, remaining_s=30.0)

    def release(self, key: LeaseKey, token: str) -> None:
        if self.held.get(key) == token:
            del self.held[key]

    def is_lost(self, key: LeaseKey, token: str) -> bool:
        return key in self.stolen or self.held.get(key, token) != token


@dataclass
class FakeKeeper:
    """Notes what it is asked to watch; `on_watch` may stop the execution."""

    executions: list[Execution] = field(default_factory=list)
    deadlines: list[tuple[float, KillReason]] = field(default_factory=list)
    stop_at: KillReason | None = None
    stop_reason: Any = "cancelled"

    @contextmanager
    def watch(self, execution: Execution) -> Iterator[Watch]:
        self.executions.append(execution)
        yield self

    def until(self, deadline_monotonic_s: float, reason: KillReason) -> None:
        self.deadlines.append((deadline_monotonic_s, reason))
        if reason == self.stop_at and deadline_monotonic_s != float("inf"):
            self.executions[-1].stop.request(self.stop_reason)


@dataclass
class Clock:
    """Every look at it is a second later than the one before."""

    at: datetime = T0

    def __call__(self) -> datetime:
        self.at += timedelta(seconds=1)
        return self.at


@dataclass
class Lab:
    """One run and one worker."""

    run_dir: Path
    site: Site
    ledger: Path
    offsets: dict[str, int]
    leases: FakeLeases = field(default_factory=FakeLeases)
    keeper: FakeKeeper = field(default_factory=FakeKeeper)
    slept: list[float] = field(default_factory=list)

    def message(self, task_id: str = "t0", attempt: int = 1, *, leg: int = 1) -> AttemptMessage:
        return AttemptMessage(
            run=root.run_ref(self.site.root, self.run_dir),
            root=self.site.root.digest,
            leg=leg,
            offset=self.offsets[task_id],
            attempt=attempt,
        )

    def deliver(self, task_id: str = "t0", attempt: int = 1, *, leg: int = 1) -> Delivered:
        message = self.message(task_id, attempt, leg=leg)
        return deliver(message, self.site, self.leases, self.keeper)

    def key(self, task_id: str = "t0", attempt: int = 1) -> LeaseKey:
        own = self.message(task_id, attempt)
        return LeaseKey(own.root, own.run, own.offset, own.attempt)

    def result(self, task_id: str = "t0", attempt: int = 1) -> AttemptResult:
        path = attempts.result_of(self.run_dir, task_id, attempt)
        assert path is not None, f"{task_id} attempt {attempt} has no result"
        return attempts.load_result(path)

    def executed(self, task_id: str = "t0", attempt: int = 1, *, leg: int = 1) -> AttemptResult:
        """Deliver, expect a result, and return it."""
        self.deliver(task_id, attempt, leg=leg)
        return self.result(task_id, attempt)

    def codes(self, task_id: str = "t0", attempt: int = 1) -> list[str]:
        found = self.result(task_id, attempt).issues
        return [f"{each.severity} {each.phase} {each.code}" for each in found]

    def ran(self, who: str, task_id: str | None = None, attempt: int | None = None) -> int:
        return stubs.executions(self.ledger, who, task_id, attempt)

    def attempt_dir(self, task_id: str = "t0", attempt: int = 1) -> Path:
        found = attempts.find_task(self.run_dir, task_id)
        assert found is not None
        return found[1] / f"attempt-{attempt}"


def a_lab(
    tmp_path: Path,
    *,
    agent: Mapping[str, str] | None = None,
    evaluator: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    task_specs: Sequence[TaskSpec] | None = None,
    k: int = 1,
    strategy: str = "avg",
    mode: EvaluationMode = "none",
    deadlines: Deadlines = QUICK,
    retry: RetryPolicy = NO_RETRY,
    host: bool = False,
    harness: str = "StubHarness",
    benchmark: str | None = None,
    environ: Mapping[str, str] | None = None,
    plan_update: Mapping[str, object] | None = None,
    settings: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
) -> Lab:
    """Return a sealed run with the given script, and a worker on it.

    `environment` scripts the stub environment; `host=True` takes `host_process` instead.
    """
    ledger = tmp_path / "ledger"
    note = {"ledger": str(ledger)}
    has_key = "STUB_KEY" in (environ or {})
    name = benchmark or {"none": "", "fresh": "Fresh", "reuse": "Reuse"}[mode] + "StubBenchmark"
    specs = task_specs or [
        TaskSpec(task_id=task_id, question="?", ground_truth=task_id) for task_id in ("t0", "t1")
    ]
    plan = ExecutionPlan(
        benchmark=_stub(name, {**note, "script": dict(evaluator or {})}),
        harness=_stub(harness, {**note, "script": dict(agent or {})}),
        environment=ComponentSpec(id="host_process")
        if host
        else _stub("StubEnvironment", {**note, "script": dict(environment or {})}),
        evaluation_environment=None,
        evaluation_mode=mode,
        model=ModelSpec(id="model", api_key=SecretRef(env="STUB_KEY") if has_key else None),
        deadlines=deadlines,
        retry=retry,
    )
    if plan_update:
        plan = ExecutionPlan.model_validate({**dict(plan), **plan_update})
    results = root.open_root(tmp_path / "results")
    execution = ExecutionSettings.model_validate(
        {"attempts": AttemptPlan(k=k, strategy=strategy), **(settings or {})}
    )
    run_dir = _sealed(results, plan, specs, execution)
    slept: list[float] = []
    site = Site(
        root=results,
        worker="worker@host",
        work_dir=tmp_path / "work",
        now=Clock(),
        trusted_roots=None,
        environ=dict(environ or {}),
        sleep=slept.append,
        random=random.Random(7),
        limits=limits,
    )
    offsets = {entry.task_id: entry.offset for entry in tasks.entries(run_dir)}
    return Lab(run_dir, site, ledger, offsets, slept=slept)


def _stub(name: str, params: dict[str, Any]) -> ComponentSpec:
    return ComponentSpec(id=f"tests.support.stubs:{name}", params=params)


def _sealed(
    results: root.ResultsRoot,
    plan: ExecutionPlan,
    specs: Sequence[TaskSpec],
    execution: ExecutionSettings,
) -> Path:
    run_dir = reserve(results, ("space",), None, T0)
    request = Request(
        benchmark=plan.benchmark,
        harness=plan.harness,
        environment=plan.environment,
        model=plan.model,
        execution=execution.model_copy(update={"analyzers": plan.analyzers}),
    )
    info = RunInfo(run_id=run_dir.name, started_at=T0, request=request)
    run_info.write_reserved(run_dir, info)
    frozen = tasks.freeze(run_dir, specs)
    planned = info.model_copy(
        update={
            "task_count": frozen.count,
            "attempt_count": frozen.count * execution.attempts.k,
            "metric_contract": stubs.StubBenchmark.contract,
            "tasks_sha256": frozen.sha256,
            "resolved_execution_plans": ResolvedPlans(plans={DIGEST: plan}, default=DIGEST),
        }
    )
    run_info.seal(run_dir, planned, T0)
    return run_dir
