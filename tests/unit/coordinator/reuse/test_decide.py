"""What becomes of a task of a source, rule by rule."""

from __future__ import annotations

import pytest

from agentcompass.coordinator.reuse.decide import Rules, TaskChoice, TaskFacts, decide
from agentcompass.models.request import AttemptPlan
from agentcompass.models.result import AttemptOutcome
from agentcompass.store.foreign_results import UNCLASSIFIED
from tests.builders import a_contract, an_issue

RIGHT = AttemptOutcome(metrics={"correct": True})
WRONG = AttemptOutcome(metrics={"correct": False})
WARNED = AttemptOutcome(metrics={"correct": True}, issues=(an_issue("warning"),))
ERRED = AttemptOutcome(metrics={}, issues=(an_issue("error"),))
FATAL = AttemptOutcome(metrics={}, issues=(an_issue("fatal"),))
VALUED = AttemptOutcome(metrics={"correct": True}, issues=(an_issue("error"),))
OLD = AttemptOutcome(metrics={}, issues=(an_issue(code=UNCLASSIFIED),))
SKIPPED = AttemptOutcome(metrics={}, skipped=True)


def rules(k: int = 3, strategy: str = "avg", **asked: bool) -> Rules:
    return Rules(AttemptPlan(k=k, strategy=strategy), a_contract(), **asked)


def facts(*outcomes: AttemptOutcome | None, **known: object) -> TaskFacts:
    found = {n: each for n, each in enumerate(outcomes, start=1) if each is not None}
    return TaskFacts("t", outcomes=found, **known)  # type: ignore[arg-type]


def told(choice: TaskChoice) -> tuple[str, str, str]:
    return choice.code, " ".join(choice.deeds), choice.state


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ((RIGHT, WRONG, RIGHT), ("complete", "take take take", "normal")),
        ((RIGHT, WARNED, RIGHT), ("complete", "take take take", "normal")),
        ((RIGHT, ERRED, RIGHT), ("errored", "run run run", "running")),
        ((RIGHT, VALUED, RIGHT), ("errored", "run run run", "running")),  # D5
        ((RIGHT, FATAL, RIGHT), ("errored", "run run run", "running")),
        ((RIGHT, OLD, RIGHT), ("unclassified", "run run run", "running")),
        ((RIGHT, WRONG, None), ("interrupted", "take take run", "running")),
        ((None, None, RIGHT), ("interrupted", "run run take", "running")),
        ((RIGHT, ERRED, None), ("interrupted", "take run run", "running")),
        ((None, None, None), ("interrupted", "run run run", "running")),
    ],
)
def test_a_task_is_taken_whole_or_attempt_by_attempt_or_not(
    outcomes: tuple[AttemptOutcome | None, ...], expected: tuple[str, str, str]
) -> None:
    assert told(decide(facts(*outcomes), rules())) == expected


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ((RIGHT, ERRED, WRONG), ("errors_kept", "take take take", "error")),
        ((RIGHT, ERRED, FATAL), ("errors_kept", "take take take", "fatal")),
        ((RIGHT, OLD, WRONG), ("unclassified", "run run run", "running")),
        ((RIGHT, ERRED, None), ("interrupted", "take take run", "running")),
        ((RIGHT, OLD, None), ("interrupted", "take run run", "running")),
    ],
)
def test_errors_are_kept_if_asked_and_if_their_severity_is_known(
    outcomes: tuple[AttemptOutcome | None, ...], expected: tuple[str, str, str]
) -> None:
    assert told(decide(facts(*outcomes), rules(keep_errors=True))) == expected


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ((WRONG, RIGHT, SKIPPED), ("complete", "take take take", "normal")),
        ((WRONG, RIGHT, None), ("complete", "take take skip", "normal")),  # of other writers
        ((RIGHT, None, None), ("complete", "take skip skip", "normal")),
        ((WRONG, None, None), ("interrupted", "take run run", "running")),
        ((WRONG, None, RIGHT), ("interrupted", "take run take", "running")),
        ((ERRED, RIGHT, SKIPPED), ("errored", "run run run", "running")),
        ((RIGHT, ERRED, WRONG), ("complete", "take take take", "normal")),  # later ones never count
    ],
)
def test_what_strategy_pass_did_not_need_is_complete(
    outcomes: tuple[AttemptOutcome | None, ...], expected: tuple[str, str, str]
) -> None:
    assert told(decide(facts(*outcomes), rules(strategy="pass"))) == expected


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ((RIGHT, ERRED, RIGHT), ("errored", "evaluate run run", "running")),
        ((RIGHT, WRONG, RIGHT), ("complete", "take take take", "normal")),
        ((None, RIGHT, None), ("interrupted", "evaluate take run", "running")),
    ],
)
def test_a_usable_snapshot_saves_the_agent_of_what_is_done_again(
    outcomes: tuple[AttemptOutcome | None, ...], expected: tuple[str, str, str]
) -> None:
    snapshots = {1: "", 2: "the agent did not run cleanly"}

    assert told(decide(facts(*outcomes, snapshots=snapshots), rules())) == expected


def test_why_a_snapshot_is_useless_is_said() -> None:
    choice = decide(facts(ERRED, snapshots={1: "its evaluation mode was fresh"}), rules(k=1))

    assert choice.reason == (
        "attempt 1 has run run_failed; no snapshot is usable: its evaluation mode was fresh"
    )


@pytest.mark.parametrize(
    ("known", "code"),
    [
        ({"malformed": "result.json is empty"}, "malformed"),
        ({"is_there": False}, "not_in_source"),
        ({"is_changed": True}, "content_changed"),
        ({"why_again": "errored: attempt 1: run run_failed"}, "asked_for"),
    ],
)
def test_whole_tasks_run_again_for_a_reason(known: dict[str, object], code: str) -> None:
    choice = decide(facts(RIGHT, **known), rules(k=1, require_same_tasks=True))

    assert told(choice) == (code, "run", "running")


def test_whoever_wants_another_verdict_of_the_agents_does_not_get_their_snapshots() -> None:
    wanted = {"why_again": "failed: attempt 1: correct is 0.0", "snapshots": {1: ""}}

    assert decide(facts(WRONG, **wanted), rules(k=1)).deeds == ("evaluate",)
    assert decide(facts(WRONG, **wanted, why_agent_again="failed"), rules(k=1)).deeds == ("run",)


def test_changed_tasks_are_taken_unless_they_must_be_the_same() -> None:
    assert decide(facts(RIGHT, is_changed=True), rules(k=1)).code == "complete"
