"""Runs as a worker process knows them: parsed once, plug-ins included.

What is sealed never changes, so it is read again only when `run_info.json` is another file than
before, and even then the plug-ins stay if the seal is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from agentcompass.benchmarks.base import HarnessFreeBenchmark
from agentcompass.errors import RunNotFound, RunNotSealed
from agentcompass.models.metric import MetricContract
from agentcompass.models.plan import ExecutionPlan
from agentcompass.models.request import AttemptPlan, ComponentSpec, ExecutionSettings
from agentcompass.models.run_info import RunInfo
from agentcompass.models.task import TaskSpec
from agentcompass.runtime import components, policy
from agentcompass.runtime.bookkeeping import others_go_on
from agentcompass.runtime.execution.attempt import Parts
from agentcompass.runtime.site import Site
from agentcompass.runtime.values.references import on_worker, references
from agentcompass.store import layout, root, sealed
from agentcompass.store.legs import Legs
from agentcompass.store.root import ResultsRoot

_LIMIT: Final = 32
_LOOK_EVERY_S: Final = 2.0


@dataclass(slots=True)
class LoadedRun:
    """One sealed run."""

    run_dir: Path
    info: RunInfo
    contract: MetricContract
    attempt_plan: AttemptPlan
    stamp: tuple[int, int, int]
    """Of the file that `info` was read from."""
    _parts: dict[str, Parts] = field(default_factory=dict)
    _secret_names: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def plan_of(self, task: TaskSpec, attempt: int, legs: Legs) -> ExecutionPlan:
        """Return the attempt's plan under the policy of the newest leg."""
        resolved = self.info.resolved_execution_plans
        if resolved is None:
            raise RunNotSealed(self.run_dir)
        plan = resolved.plan_of(task.task_id, attempt)
        return policy.under(plan, self.info.request.execution, legs.execution, task.timeouts)

    def settings_under(self, legs: Legs) -> ExecutionSettings:
        """Return the policy in force: as sealed, or as a later leg changed it."""
        return legs.execution or self.info.request.execution

    def parts_of(self, task_id: str, attempt: int, plan: ExecutionPlan, site: Site) -> Parts:
        """Return the plug-ins of a plan, with their secrets in place.

        Raises:
            UsageError: this worker cannot load one of them.
            AttemptFailure: FATAL setup `secret_missing`.
        """
        digest = self._digest_of(task_id, attempt)
        if digest not in self._parts:
            self._parts[digest] = _load(plan, site)
        return self._parts[digest]

    def secret_names_of(self, task_id: str, attempt: int, plan: ExecutionPlan) -> tuple[str, ...]:
        """Return the environment variables whose values are secrets under this plan."""
        digest = self._digest_of(task_id, attempt)
        if digest not in self._secret_names:
            found = references(plan.model_dump(mode="json"))
            self._secret_names[digest] = tuple(sorted(set(found)))
        return self._secret_names[digest]

    def _digest_of(self, task_id: str, attempt: int) -> str:
        resolved = self.info.resolved_execution_plans
        if resolved is None:
            raise RunNotSealed(self.run_dir)
        own = resolved.tasks.get(task_id)
        return own.attempts.get(str(attempt), resolved.default) if own else resolved.default


_runs: dict[Path, LoadedRun] = {}
_places: dict[tuple[Path, str], Path] = {}


def located(results: ResultsRoot, ref: str) -> Path:
    """Return the directory that a reference names; checked for tricks once per process.

    Raises:
        UsageError: it leaves the results folder.
    """
    key = (results.path, ref)
    if key not in _places:
        if len(_places) >= _LIMIT:
            _places.clear()
        _places[key] = root.resolve_ref(results, ref)
    return _places[key]


def loaded(run_dir: Path) -> LoadedRun:
    """Return the run, read at most once per seal.

    Raises:
        RunNotFound, RunNotSealed, RecordCorrupt, FormatUnknown: there is no work in it for us.
    """
    stamp = _stamp(run_dir)
    known = _runs.get(run_dir)
    if known is not None and known.stamp == stamp:
        sealed.refuse_edited(run_dir, known.info)
        return known
    info = sealed.load_frozen(run_dir)
    if info.metric_contract is None or info.resolved_execution_plans is None:
        raise RunNotSealed(run_dir)
    if known is not None and _same_seal(known.info, info):
        known.info, known.stamp = info, stamp
        return known
    run = LoadedRun(run_dir, info, info.metric_contract, info.request.execution.attempts, stamp)
    while len(_runs) >= _LIMIT:
        _runs.pop(next(iter(_runs)), None)
    _runs[run_dir] = run
    return run


def awaited(run_dir: Path, patience_s: float, sleep: Callable[[float], object]) -> LoadedRun | None:
    """Return the run, or None if it has not appeared: a share may hide what is new for a while.

    Raises:
        RunNotSealed: it stayed unsealed all the time, though messages are sent after the seal.
    """
    waited_s = 0.0
    while True:
        try:
            return loaded(run_dir)
        except RunNotFound:
            if waited_s >= patience_s:
                return None
        except RunNotSealed:
            if waited_s >= patience_s:
                raise
        with others_go_on():
            sleep(_LOOK_EVERY_S)
        waited_s += _LOOK_EVERY_S


def _stamp(run_dir: Path) -> tuple[int, int, int]:
    try:
        found = (run_dir / layout.RUN_INFO).stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise RunNotFound(run_dir) from error
    return found.st_ino, found.st_mtime_ns, found.st_size


def _same_seal(one: RunInfo, other: RunInfo) -> bool:
    return (one.sealed_at, one.tasks_sha256) == (other.sealed_at, other.tasks_sha256)


def _load(plan: ExecutionPlan, site: Site) -> Parts:
    def here(spec: ComponentSpec) -> ComponentSpec:
        return on_worker(spec, site.environ)

    trusted = site.trusted_roots
    benchmark = components.load("benchmark", here(plan.benchmark), trusted_roots=trusted)
    brings_its_own = isinstance(benchmark, HarnessFreeBenchmark)
    harness = (
        None
        if brings_its_own
        else components.load("harness", here(plan.harness), trusted_roots=trusted)
    )
    analyzers = tuple(
        components.load("analyzer", here(spec), trusted_roots=trusted) for spec in plan.analyzers
    )
    return Parts(benchmark, harness, analyzers)
