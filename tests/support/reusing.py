"""Sources of reuse and the runs that are to have them, without any plug-in."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agentcompass.coordinator.planning.plan import Planned
from agentcompass.coordinator.planning.spool import TaskSpool
from agentcompass.coordinator.planning.start import SealedRun, start
from agentcompass.coordinator.reuse.choose import Activity, Chosen, Probe, Where, choose
from agentcompass.models.checkpoint import ArtifactManifest, Checkpoint
from agentcompass.models.plan import ResolvedPlans
from agentcompass.models.request import (
    ComponentSpec,
    ModelSpec,
    OutputSettings,
    Request,
    ReuseSettings,
)
from agentcompass.models.task import TaskSpec
from agentcompass.store import attempts
from agentcompass.store.attempts import AttemptView
from agentcompass.store.names import namespace_of
from agentcompass.store.root import open_root
from tests.builders import T0, a_contract, a_plan, a_request, a_result, a_task, an_issue
from tests.support.store_runs import a_checkpoint, begin, publish
from tests.support.tree import paths_in, tree_of

TASKS = ("whole", "errored", "half", "absent")


def fingerprint(folder: Path) -> Mapping[str, tuple[str, str]]:
    """Return name -> (content, mode) of everything below a folder."""
    modes = {
        str(path.relative_to(folder)): stat.filemode(path.lstat().st_mode)
        for path in paths_in(folder, "**/*")
    }
    return {name: (what, modes[name]) for name, what in tree_of(folder).items()}


def new_request(
    *,
    k: int = 2,
    strategy: str = "avg",
    benchmark: str = "bench",
    model: str = "model",
    reuse: ReuseSettings | None = None,
    run_id: str | None = None,
) -> Request:
    plain = a_request(k=k, strategy=strategy, benchmark=benchmark)
    return plain.model_copy(
        update={
            "benchmark": ComponentSpec(id=benchmark),
            "model": ModelSpec(id=model),
            "reuse": reuse,
            "output": OutputSettings(run_id=run_id),
        }
    )


def planned(request: Request, specs: Iterable[TaskSpec], *, mode: str = "none") -> Planned:
    """Return a plan as the coordinator makes it, but without loading anything."""
    spool = TaskSpool()
    for spec in specs:
        spool.append(spec)
    digest = "0" * 64
    plan = a_plan(request.benchmark.id).model_copy(update={"evaluation_mode": mode})
    return Planned(
        request=request,
        contract=a_contract(),
        aggregation="micro_weighted",
        category_hierarchy=None,
        custom_aggregation=False,
        plans=ResolvedPlans(plans={digest: plan}, default=digest),
        tasks=spool,
    )


def start_new(
    results_dir: Path, request: Request, specs: Sequence[TaskSpec], chosen: Chosen | None = None
) -> SealedRun:
    """Start a run, with what was chosen to be taken over."""
    reuse = chosen.reuse if chosen is not None else None
    with planned(request, specs) as plan:
        whole = replace(plan, reuse=reuse)
        return start(open_root(results_dir), whole, now=lambda: T0, announce=lambda _: None)


def nobody(_run_dir: Path, _broker: str) -> Activity:
    """Answer for a broker that holds nothing."""
    return Activity("idle")


def look(
    results_dir: Path, request: Request, specs: Sequence[TaskSpec], probe: Probe = nobody
) -> Chosen:
    """Look for the source of a request."""
    where = Where(results_dir, namespace_of(request), results_dir, probe)
    with planned(request, specs) as plan:
        return choose(where, plan.new)


def reuse_into(
    results_dir: Path, request: Request, specs: Sequence[TaskSpec]
) -> tuple[SealedRun, Chosen]:
    """Do both."""
    chosen = look(results_dir, request, specs)
    return start_new(results_dir, request, specs, chosen), chosen


def the_source(results_dir: Path, *, run_id: str = "source") -> Path:
    """Return a k=2 run: a whole task, one with an error, one with one attempt over, one untouched.

    Attempt 1 of `whole` and of `errored` have artifacts and a snapshot from which an evaluation
    can start.
    """
    specs = [a_task(task_id) for task_id in TASKS]
    run_dir = start_new(results_dir, new_request(run_id=run_id), specs).address.run_dir
    failed = [an_issue(phase="evaluate", code="evaluate_failed")]
    for task_id, number, has_artifacts, issues in (
        ("whole", 1, True, []),
        ("whole", 2, False, []),
        ("errored", 1, True, failed),
        ("errored", 2, False, []),
        ("half", 1, False, []),
    ):
        view = begin(run_dir, task_id, number, token=f"t-{task_id}-{number}")
        if has_artifacts:
            attempts.write_snapshot(view, with_artifacts(view))
        result = a_result(task_id, number, token=view.token, issues=issues)
        artifacts = {
            "file": f"details/running/{view.directory.parent.name}/attempt-{number}/artifacts"
        }
        publish(run_dir, view, result.model_copy(update={"artifacts": artifacts}))
    return run_dir


def with_artifacts(view: AttemptView) -> Checkpoint:
    """Collect a small folder and return the checkpoint of an agent that has left it."""
    own, relative = attempts.artifacts_directory(view)
    made = view.run_dir / ".made-by-the-agent"
    (made / "deep").mkdir(parents=True, exist_ok=True)
    (made / "deep" / "answer.txt").write_text(view.task_id)
    collected = attempts.collect_tree(made, own / "out")
    entry = collected.entry("out", "out")
    return a_checkpoint(view, manifest=ArtifactManifest(directory=relative, entries=(entry,)))
