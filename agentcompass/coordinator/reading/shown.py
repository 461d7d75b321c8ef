"""A run, a task or an attempt as lines for people. Reads; computes no number."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from agentcompass.coordinator.reading.run import ReadableRun
from agentcompass.errors import UsageError
from agentcompass.models.issue import Issue
from agentcompass.models.result import AttemptResult
from agentcompass.models.trajectory import Step, Trajectory
from agentcompass.store import layout, results
from agentcompass.store.results import ResultHead
from agentcompass.store.scan import TaskHeads

_CUT: Final = 2_000
"""Characters of one text in a trajectory; `--full` shows all of them."""
_PER_LINE: Final = 10
"""Tasks with more attempts than this are shown by their counts."""


def find_task(run: ReadableRun, task_id: str) -> TaskHeads:
    """Return one task of the denominator.

    Raises:
        UsageError: the run has no such task; names the nearest one.
    """
    names = []
    for task in run.heads():
        if task.task_id == task_id:
            return task
        names.append(task.task_id)
    raise UsageError(f"run {run.run_id} has no task {task_id!r}", hint=_nearest(task_id, names))


def load_attempt(
    run: ReadableRun, task: TaskHeads, attempt: int
) -> tuple[TaskHeads, AttemptResult]:
    """Return one attempt, trajectory included, with its task as it stands by now.

    Raises:
        UsageError: the task has no result of that number.
        RecordCorrupt, FormatUnknown: it has one that cannot be relied on.
    """
    result = _load(task, attempt)
    if result is None:  # it has none, or its task was moved after the heads were read
        task = find_task(run, task.task_id)
        result = _load(task, attempt)
    if result is not None:
        return task, result
    there = ", ".join(str(n) for n, head in enumerate(task.heads, 1) if head is not None) or "none"
    raise UsageError(
        f"attempt {attempt} of task {task.task_id!r} has no result",
        hint=f"attempts with a result: {there}",
    )


def _load(task: TaskHeads, attempt: int) -> AttemptResult | None:
    is_known = attempt <= len(task.heads) and task.heads[attempt - 1] is not None
    if not is_known or task.directory is None:
        return None
    directory = Path(task.directory) / layout.attempt_dirname(attempt)
    try:
        return results.load_result(directory / layout.RESULT)
    except FileNotFoundError:
        return None


def run_lines(run: ReadableRun) -> Iterator[str]:
    """Yield what a run is and how each attempt of each task ended."""
    yield f"{run.run_id}  {run.state}"
    yield f"  path:        {run.run_dir}"
    yield f"  benchmark:   {run.benchmark} {_inline(run.benchmark_params)}".rstrip()
    yield f"  harness:     {run.harness}"
    yield f"  environment: {run.environment or '–'}"
    yield f"  model:       {run.model}"
    yield f"  attempts:    k={run.attempts.k}, strategy {run.attempts.strategy}"
    yield ""
    for task in run.heads():
        yield f"{task.task_id}  {_attempts(task)}"


def task_lines(task: TaskHeads) -> Iterator[str]:
    """Yield one task with its attempts, their observations and issues."""
    yield f"{task.task_id}  ({task.category})"
    yield f"  directory: {task.directory or '– (nothing of it was begun)'}"
    for number, head in enumerate(task.heads, 1):
        yield from _head_lines(number, head)


def attempt_lines(
    task: TaskHeads, attempt: int, result: AttemptResult, *, full: bool
) -> Iterator[str]:
    """Yield one attempt: verdict, issues, answer, artifacts and the trajectory step by step.

    Args:
        task: names the attempt: other writers' results do not say whose they are.
        full: False cuts texts at 2,000 characters, and says so.
    """
    cut = None if full else _CUT
    took = ""
    if result.started_at and result.finished_at:
        took = f" in {(result.finished_at - result.started_at).total_seconds():.1f} s"
    yield f"{task.task_id} attempt {attempt}  {result.status}{took}"
    yield f"  directory: {task.directory}/{layout.attempt_dirname(attempt)}"
    yield f"  worker:    {result.worker or '–'}, leg {result.leg}, {result.retry_count} retries"
    yield f"  metrics:   {_inline(dict(result.metrics)) or '– (no observation)'}"
    for issue in result.issues:
        yield f"  {_issue(issue)}"
    yield from _block("answer", result.final_answer, cut)
    if result.artifacts:
        yield from _block("artifacts", result.artifacts, cut)
    if result.meta.harness:
        yield from _block("harness", result.meta.harness, cut)
    if result.meta.benchmark:
        yield from _block("benchmark", result.meta.benchmark, cut)
    yield from _trajectory(result.trajectory, cut)


def _attempts(task: TaskHeads) -> str:
    marks = [_mark(head) for head in task.heads]
    if len(marks) <= _PER_LINE:
        return "  ".join(marks)
    return ", ".join(f"{mark} x {marks.count(mark)}" for mark in dict.fromkeys(marks))


def _mark(head: ResultHead | None) -> str:
    if head is None:
        return "–"
    if head.outcome.skipped:
        return "skipped"
    seen = _inline(dict(head.outcome.metrics)) or "no observation"
    codes = [issue.code for issue in head.outcome.issues if issue.is_failure]
    return f"{seen} [{', '.join(codes)}]" if codes else seen


def _head_lines(number: int, head: ResultHead | None) -> Iterator[str]:
    if head is None:
        yield f"  attempt {number}: – (no result)"
        return
    seen = _inline(dict(head.outcome.metrics)) or "no observation"
    yield f"  attempt {number}: {head.status}, {seen}, {head.retry_count} retries"
    for issue in head.outcome.issues:
        yield f"    {_issue(issue)}"


def _issue(issue: Issue) -> str:
    return f"{issue.severity.upper()} {issue.phase} {issue.code}: {issue.message}"


def _trajectory(trajectory: Trajectory | None, cut: int | None) -> Iterator[str]:
    if trajectory is None or not trajectory.steps:
        yield "  trajectory: – (no step was recorded)"
        return
    for step in trajectory.steps:
        yield f"--- step {step.step_id}{_measured(step)}"
        said = step.assistant_content
        yield from _block("system", step.system_prompt, cut)
        yield from _block("user", step.user_content, cut)
        yield from _block("reasoning", said.reasoning_content, cut)
        yield from _block("assistant", said.content, cut)
        for call in said.tool_calls:
            yield from _block("tool call", call, cut)
        yield from _block("observation", step.observation, cut)


def _measured(step: Step) -> str:
    metric = step.metric
    parts = [
        f"{metric.prompt_tokens_len} tokens in" if metric.prompt_tokens_len is not None else "",
        f"{metric.completion_tokens_len} out" if metric.completion_tokens_len is not None else "",
        f"{metric.llm_infer_ms:.0f} ms" if metric.llm_infer_ms is not None else "",
        metric.stop_reason or "",
    ]
    shown = ", ".join(part for part in parts if part)
    return f"  ({shown})" if shown else ""


def _block(name: str, value: JsonValue, cut: int | None) -> Iterator[str]:
    """Yield a named text, indented; nothing for nothing."""
    if value in (None, "", [], {}):
        return
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
    shown = text if cut is None else text[:cut]
    lines = shown.splitlines() or [""]
    if len(lines) == 1 and shown == text:
        yield f"  {name}: {_printable(lines[0])}"
        return
    yield f"  {name}:"
    yield from (f"    {_printable(line)}" for line in lines)
    if shown != text:
        yield f"    … {len(text) - len(shown):,} more characters (--full)"


def _printable(line: str) -> str:
    """Return a line without what could steer a terminal: the text comes from a model."""
    return "".join(
        char if char.isprintable() or char == "\t" else "\N{REPLACEMENT CHARACTER}" for char in line
    )


def _inline(fields: object) -> str:
    if not isinstance(fields, dict):
        return ""
    return ", ".join(
        f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in fields.items()
    )


def _nearest(task_id: str, names: list[str]) -> str:
    from difflib import get_close_matches  # only a mistake needs it

    near = get_close_matches(task_id, names, n=1)
    return f"did you mean {near[0]!r}?" if near else "`agentcompass show RUN` lists its tasks"
