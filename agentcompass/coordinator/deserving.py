"""Which results deserve to be made again: the same words for `resume --rerun` and for reuse. Pure.

`errored`: an ERROR or FATAL issue. `failed`: a verdict that is no success: wrong, or a score of 0.
`unscored`: no verdict. Anything else is a task's id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from agentcompass.errors import UsageError
from agentcompass.models.metric import MetricContract
from agentcompass.models.result import AttemptOutcome

KINDS: Final = ("errored", "unscored", "failed")


def why_again(
    task_id: str,
    outcomes: Mapping[int, AttemptOutcome],
    wanted: Sequence[str],
    contract: MetricContract,
) -> str:
    """Return why a task is among the wanted ones; "" if it is not."""
    if task_id in wanted and task_id not in KINDS:
        return "asked for"
    for kind in KINDS:
        for number, outcome in outcomes.items() if kind in wanted else ():
            reason = _deserves(kind, outcome, contract)
            if reason:
                return f"{kind}: attempt {number}: {reason}"
    return ""


def why_agent_again(
    task_id: str,
    outcomes: Mapping[int, AttemptOutcome],
    wanted: Sequence[str],
    contract: MetricContract,
) -> str:
    """Return why a wanted task's agents are to run again though their snapshots could be evaluated.

    An error or a missing verdict may be the evaluator's, and what the agents left is worth a second
    look. A verdict stands until another agent earns another one, for all k attempts: trying again
    only those that failed would make the best of several draws look like one. A task that is named
    is run again whole.
    """
    if task_id in wanted and task_id not in KINDS:
        return "asked for"
    has_failed = any(_deserves("failed", outcome, contract) for outcome in outcomes.values())
    return "failed" if "failed" in wanted and has_failed else ""


def refuse_unknown(wanted: Iterable[str], known: Sequence[str], where: str) -> None:
    """Raise UsageError if a wanted task is not among the known ones."""
    unknown = sorted(set(wanted).difference(known, KINDS))
    if unknown:
        near = get_close_matches(unknown[0], (*KINDS, *known), n=1, cutoff=0.6)
        raise UsageError(
            f"the run has no task {unknown[0]!r}",
            where=where,
            hint=f"did you mean {near[0]!r}?" if near else f"name a task, or {', '.join(KINDS)}",
        )


def _deserves(kind: str, outcome: AttemptOutcome, contract: MetricContract) -> str:
    """Return why an attempt makes its task one of this kind; "" if it does not."""
    metric_id = contract.primary.metric_id
    verdict = outcome.metrics.get(metric_id)
    match kind:
        case "errored":
            issue = next((each for each in outcome.issues if each.is_failure), None)
            return f"{issue.phase} {issue.code}" if issue else ""
        case "failed":
            return f"{metric_id} is {verdict}" if verdict is not None and verdict <= 0 else ""
        case _:
            has_none = verdict is None and not outcome.skipped
            return f"no value of {metric_id}" if has_none else ""
