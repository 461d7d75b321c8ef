from __future__ import annotations

import pytest

from agentcompass.runtime.delivery.decide import Decision, Facts, alone_deaths, decide
from agentcompass.store.marks import KillNote, StartMark
from tests.builders import T0


def a_mark(*, alone: bool = False, closed: str | None = None, leg: int = 1) -> StartMark:
    return StartMark("t", "w", leg, T0, alone=alone, closed=closed)


def a_note(reason: str = "run_timeout", leg: int = 1) -> KillNote:
    return KillNote("t", reason, "", leg)


OPEN, CLOSED = a_mark(), a_mark(closed="handed_back")
DEAD_ALONE = a_mark(alone=True)


@pytest.mark.parametrize(
    ("facts", "decision"),
    [
        (Facts(1), Decision("execute")),
        (Facts(1, is_published=True, planning_failed=True), Decision("done")),
        (Facts(1, planning_failed=True, is_needed=False), Decision("publish_planning_failure")),
        (Facts(1, is_needed=False, kill_note=a_note()), Decision("publish_skipped")),
        (Facts(1, kill_note=a_note(), has_usable_snapshot=True), Decision("publish_killed")),
        (Facts(1, kill_note=a_note("evaluation_timeout")), Decision("publish_killed")),
        (Facts(1, kill_note=a_note("cancelled")), Decision("execute")),
        (Facts(2, kill_note=a_note(leg=1), valid_from_leg=2), Decision("execute")),
        (Facts(2, kill_note=a_note(leg=1), valid_from_leg=1), Decision("publish_killed")),
        (Facts(1, kill_note=a_note(leg=0)), Decision("execute")),
        (Facts(1, marks=(CLOSED, CLOSED, CLOSED, CLOSED)), Decision("execute")),
        (Facts(1, marks=(CLOSED, OPEN)), Decision("execute", alone=True)),
        (Facts(1, marks=(OPEN,) * 9), Decision("execute", alone=True)),
        (Facts(1, marks=(OPEN, DEAD_ALONE, DEAD_ALONE)), Decision("execute", alone=True)),
        (Facts(1, marks=(DEAD_ALONE,) * 3), Decision("publish_worker_lost")),
        (Facts(2, marks=(DEAD_ALONE,) * 3), Decision("execute", alone=True)),
        (Facts(1, has_usable_snapshot=True), Decision("evaluate")),
        (Facts(1, has_usable_snapshot=True, marks=(OPEN,)), Decision("evaluate", alone=True)),
        (
            Facts(1, has_usable_snapshot=True, marks=(DEAD_ALONE,) * 3),
            Decision("publish_worker_lost"),
        ),
    ],
)
def test_the_first_rule_that_fits_decides(facts: Facts, decision: Decision) -> None:
    assert decide(facts) == decision


def test_only_open_marks_of_executions_alone_in_this_leg_count_as_deaths() -> None:
    marks = [OPEN, DEAD_ALONE, a_mark(alone=True, closed="handed_back"), a_mark(alone=True, leg=2)]

    assert (alone_deaths(marks, 1), alone_deaths(marks, 2)) == (1, 1)
