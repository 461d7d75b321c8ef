"""What becomes of a task that a source may have. Pure; the first rule that fits decides.

1. A record of it cannot be read: all attempts run (`malformed`).
2. The source has nothing of it: all attempts run (`not_in_source`).
3. Its content changed and that matters: all attempts run (`content_changed`).
4. It was asked for: its attempts are done again, or all agents run (`asked_for`).
5. All attempts are over without an error: taken as a unit (`complete`).
6. All are over, some with errors: taken if that was asked for and their severity is known
   (`errors_kept`), else done again (`errored`, `unclassified`).
7. Some are over: those without an error are taken one by one, the others are done (`interrupted`).

Where only evaluations are to run, rule 1 is followed by another one instead: what can be evaluated
is evaluated (`evaluated_again`); of the other attempts nothing is left but what the source says.

*Done again* means: an attempt with a clean, usable snapshot is only evaluated, the others run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from agentcompass.metrics.per_task.strategies import STRATEGIES, succeeded
from agentcompass.models.metric import MetricContract
from agentcompass.models.request import AttemptPlan
from agentcompass.models.result import AttemptOutcome
from agentcompass.store.foreign_results import UNCLASSIFIED
from agentcompass.store.layout import State
from agentcompass.store.reuse.materialize import Deed

Code: TypeAlias = Literal[
    "malformed",
    "not_in_source",
    "content_changed",
    "asked_for",
    "complete",
    "errors_kept",
    "errored",
    "unclassified",
    "interrupted",
    "evaluated_again",
]
_SKIPPED: Final = AttemptOutcome(metrics={}, skipped=True)
Outcomes: TypeAlias = Sequence[AttemptOutcome | None]


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds for all tasks."""

    plan: AttemptPlan
    contract: MetricContract
    keep_errors: bool = False
    require_same_tasks: bool = False
    only_evaluate: bool = False
    keep_missing: bool = False


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """What is known of one task."""

    task_id: str
    is_there: bool = True
    """The source has something of it."""
    malformed: str = ""
    is_changed: bool = False
    why_again: str = ""
    """Why it was asked for; "" if it was not."""
    why_agent_again: str = ""
    """Why then no snapshot of it is used."""
    outcomes: Mapping[int, AttemptOutcome] = field(default_factory=dict)
    """Of attempts that are over, with the observations that the contract declares."""
    snapshots: Mapping[int, str] = field(default_factory=dict)
    """Attempt -> why its snapshot cannot be evaluated; "" if it can; absent without one."""


@dataclass(frozen=True, slots=True)
class TaskChoice:
    """What becomes of one task, and why."""

    task_id: str
    deeds: tuple[Deed, ...]
    """Of attempts 1..k."""
    code: Code
    reason: str
    state: State = "running"
    """Where it is filed at once; `running` if anything is left to do."""
    missing: tuple[tuple[int, str], ...] = ()
    """Where only evaluations are to run: attempts whose agent would, and why."""

    def numbers(self, deed: Deed) -> tuple[int, ...]:
        """Return the attempts with which this is done."""
        return tuple(number for number, each in enumerate(self.deeds, start=1) if each == deed)

    @property
    def is_whole(self) -> bool:
        """True if nothing of it is left to do."""
        return not {"run", "evaluate"} & set(self.deeds)


def decide(facts: TaskFacts, rules: Rules) -> TaskChoice:
    """Return what the rules above say."""
    if rules.only_evaluate:
        return _evaluated_again(facts, rules)
    anew = _anew(facts, rules)
    if anew is not None:
        return anew
    outcomes = _with_skipped(facts, rules)
    if facts.why_again:
        return _asked_for(facts, rules)
    if None in outcomes:
        return _interrupted(facts, rules)
    return _of_complete(facts, rules, outcomes)


def _asked_for(facts: TaskFacts, rules: Rules) -> TaskChoice:
    if not facts.why_agent_again:
        return _again(facts, rules, "asked_for", facts.why_again)
    return _all_run(facts, rules, "asked_for", facts.why_again)


def _evaluated_again(facts: TaskFacts, rules: Rules) -> TaskChoice:
    def deed(number: int) -> Deed:
        if not facts.malformed and facts.snapshots.get(number) == "":
            return "evaluate"
        outcome = facts.outcomes.get(number)
        is_kept = rules.keep_missing and outcome is not None and not outcome.skipped
        return "take" if is_kept else "run"

    numbers = range(1, rules.plan.k + 1)
    deeds = tuple(deed(number) for number in numbers)
    missing = tuple(
        (number, _why_missing(facts, number))
        for number, each in zip(numbers, deeds, strict=True)
        if each == "run"
    )
    if set(deeds) == {"take"}:
        outcomes = [facts.outcomes.get(number) for number in numbers]
        why = f"nothing is left to evaluate: {_why_missing(facts, 1)}"
        return _whole(facts, rules, outcomes, "evaluated_again", why)
    why = "what the agent left is evaluated again"
    return TaskChoice(facts.task_id, deeds, "evaluated_again", why, missing=missing)


def _why_missing(facts: TaskFacts, number: int) -> str:
    outcome = facts.outcomes.get(number)
    if facts.malformed:
        return facts.malformed
    if outcome is not None and outcome.skipped:
        return "the strategy did not need it"
    if not facts.is_there:
        return "the source has nothing of it"
    return facts.snapshots.get(number) or "there is no snapshot"


def _of_complete(facts: TaskFacts, rules: Rules, outcomes: Outcomes) -> TaskChoice:
    counting = outcomes[: STRATEGIES.get(rules.plan.strategy).needed(rules.contract, outcomes)]
    failure = _first_failure(counting)
    if not failure:
        return _whole(facts, rules, counting, "complete", "all attempts are over without an error")
    if _is_unclassified(counting):
        return _again(facts, rules, "unclassified", f"{failure}; how severe is not recorded")
    if rules.keep_errors:
        return _whole(facts, rules, counting, "errors_kept", f"{failure}; errors are kept")
    return _again(facts, rules, "errored", failure)


def _anew(facts: TaskFacts, rules: Rules) -> TaskChoice | None:
    """Return the choice for a task of which nothing is used."""
    if facts.malformed:
        return _all_run(facts, rules, "malformed", facts.malformed)
    if not facts.is_there:
        return _all_run(facts, rules, "not_in_source", "the source has nothing of it")
    if facts.is_changed and rules.require_same_tasks:
        return _all_run(facts, rules, "content_changed", "its content is not what the source had")
    return None


def _all_run(facts: TaskFacts, rules: Rules, code: Code, reason: str) -> TaskChoice:
    every: list[Deed] = ["run"] * rules.plan.k
    return TaskChoice(facts.task_id, tuple(every), code, reason)


def _with_skipped(facts: TaskFacts, rules: Rules) -> list[AttemptOutcome | None]:
    """Return the k outcomes; what a sequential strategy did not need counts as skipped.

    Other writers leave no record of it: attempts 1..m without a gap whose last one succeeded.
    """
    found = [facts.outcomes.get(number) for number in range(1, rules.plan.k + 1)]
    done = next((n for n, outcome in enumerate(found) if outcome is None), len(found))
    is_sequential = STRATEGIES.get(rules.plan.strategy).is_sequential
    if not is_sequential or not done or any(found[done:]):
        return found
    if not succeeded(rules.contract, found[done - 1]):
        return found
    return [*found[:done], *(_SKIPPED for _ in found[done:])]


def _whole(
    facts: TaskFacts, rules: Rules, counting: Outcomes, code: Code, reason: str
) -> TaskChoice:
    deeds = tuple[Deed, ...](
        "take" if number in facts.outcomes else "skip" for number in range(1, rules.plan.k + 1)
    )
    found = {issue.severity for outcome in counting if outcome for issue in outcome.issues}
    worst: State = "fatal" if "fatal" in found else "error" if "error" in found else "normal"
    return TaskChoice(facts.task_id, deeds, code, reason, worst)


def _again(facts: TaskFacts, rules: Rules, code: Code, reason: str) -> TaskChoice:
    deeds = tuple(_redone(facts, number) for number in range(1, rules.plan.k + 1))
    return TaskChoice(facts.task_id, deeds, code, _with_snapshots(reason, facts, deeds))


def _interrupted(facts: TaskFacts, rules: Rules) -> TaskChoice:
    def deed(number: int) -> Deed:
        outcome = facts.outcomes.get(number)
        if outcome is None:
            return _redone(facts, number)
        is_kept = rules.keep_errors and not _is_unclassified([outcome])
        return "take" if is_kept or not _first_failure([outcome]) else _redone(facts, number)

    deeds = tuple(deed(number) for number in range(1, rules.plan.k + 1))
    reason = _with_snapshots("not all attempts are over", facts, deeds)
    return TaskChoice(facts.task_id, deeds, "interrupted", reason)


def _redone(facts: TaskFacts, number: int) -> Deed:
    return "evaluate" if facts.snapshots.get(number) == "" else "run"


def _with_snapshots(reason: str, facts: TaskFacts, deeds: Sequence[Deed]) -> str:
    """Say also why the first snapshot that could have saved an agent's work cannot be used."""
    useless = (facts.snapshots.get(n) for n, deed in enumerate(deeds, start=1) if deed == "run")
    why = next(filter(None, useless), None)
    return f"{reason}; no snapshot is usable: {why}" if why else reason


def _failures(outcomes: Outcomes) -> Iterator[tuple[int, str, str]]:
    for number, outcome in enumerate(outcomes, start=1):
        for issue in outcome.issues if outcome is not None else ():
            if issue.is_failure:
                yield number, issue.phase, issue.code


def _first_failure(outcomes: Outcomes) -> str:
    for number, phase, code in _failures(outcomes):
        return f"attempt {number} has {phase} {code}"
    return ""


def _is_unclassified(outcomes: Outcomes) -> bool:
    return any(code == UNCLASSIFIED for _, _, code in _failures(outcomes))
