"""One run of any writer, opened to be read: what it is, and its results task by task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from agentcompass.errors import RunNotSealed
from agentcompass.models.base import JsonObject
from agentcompass.models.metric import MetricContract
from agentcompass.models.request import AttemptPlan
from agentcompass.store import scan, sealed, tasks
from agentcompass.store.foreign import ForeignRun, foreign_heads, is_foreign, open_foreign
from agentcompass.store.scan import TaskHeads


@dataclass(frozen=True, slots=True)
class ReadableRun:
    """What every reader needs; nothing of it is ever written."""

    run_dir: Path
    run_id: str
    state: str
    """As the run says itself; `unknown` if another writer's never came to an end."""
    benchmark: str
    benchmark_params: JsonObject
    harness: str
    environment: str
    model: str
    contract: MetricContract
    attempts: AttemptPlan
    heads: Callable[[], Iterator[TaskHeads]]
    """Every task of the denominator, in its order, as often as it is asked for.

    Raises RecordCorrupt after the last one, with every result that cannot be relied on."""
    contents: Callable[[], Iterator[tuple[str, bytes]]] | None
    """(task id, digest of the frozen task); None if the writer froze none."""


def open_run(run_dir: Path) -> ReadableRun:
    """Open a sealed run of ours or any run of another writer.

    Raises:
        RunNotFound, RunNotSealed: there is nothing to read.
        RecordCorrupt, FormatUnknown: what it says about itself cannot be relied on.
    """
    return _foreign(open_foreign(run_dir)) if is_foreign(run_dir) else _ours(run_dir)


def _ours(run_dir: Path) -> ReadableRun:
    info = sealed.load_frozen(run_dir)
    if info.metric_contract is None:
        raise RunNotSealed(run_dir)
    request = info.request
    return ReadableRun(
        run_dir=run_dir,
        run_id=info.run_id,
        state=info.status,
        benchmark=request.benchmark.id,
        benchmark_params=request.benchmark.params,
        harness=request.harness.id,
        environment=request.environment.id,
        model=request.model.id,
        contract=info.metric_contract,
        attempts=request.execution.attempts,
        heads=lambda: scan.heads(run_dir, info),
        contents=lambda: tasks.digests(run_dir),
    )


def _foreign(run: ForeignRun) -> ReadableRun:
    benchmark = run.request.get("benchmark")
    params = benchmark.get("params") if isinstance(benchmark, dict) else None
    environment = run.request.get("environment")
    return ReadableRun(
        run_dir=run.run_dir,
        run_id=run.run_id,
        state=run.status or "unknown",
        benchmark=run.benchmark_id,
        benchmark_params=params if isinstance(params, dict) else {},
        harness=run.harness_id,
        environment=str(environment.get("id") or "") if isinstance(environment, dict) else "",
        model=run.model_id,
        contract=run.contract,
        attempts=run.attempts,
        heads=lambda: foreign_heads(run),
        contents=None,
    )
