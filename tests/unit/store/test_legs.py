from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcompass.models.request import ExecutionSettings, RuntimeSettings
from agentcompass.models.run_info import AttemptRef, ControlAction, ControlRecord, PolicyChange
from agentcompass.store.legs import Legs, fold
from tests.builders import T0

ONE, OTHER = ("task-1", 1), ("task-2", 1)


def a_record(
    action: ControlAction, leg: int = 1, *names: tuple[str, int], policy: PolicyChange | None = None
) -> ControlRecord:
    refs = tuple(AttemptRef(task_id=task, attempt=attempt) for task, attempt in names)
    return ControlRecord(leg=leg, action=action, attempts=refs, reason=action, at=T0, policy=policy)


def opened(legs: Legs) -> list[int]:
    return [leg for leg in range(1, 5) if leg <= legs.current and legs.is_open(leg)]


@pytest.mark.parametrize(
    ("records", "state", "open_legs"),
    [
        ([], "open", [1]),
        ([a_record("resume", 2)], "open", [1, 2]),  # a plain resume leaves earlier legs open
        ([a_record("pause", 1)], "paused", []),
        ([a_record("pause", 1), a_record("resume", 2)], "open", [2]),
        ([a_record("cancel", 1)], "cancelled", []),
        ([a_record("resume", 2), a_record("cancel", 2), a_record("resume", 3)], "open", [3]),
        ([a_record("cancel", 1), a_record("pause", 1)], "cancelled", []),
        ([a_record("pause", 1), a_record("cancel", 1)], "cancelled", []),
        # Written by somebody who had not seen leg 2 yet: it means what there is by now.
        ([a_record("resume", 2), a_record("cancel", 1)], "cancelled", []),
        # A resume that a cancellation overtook opens nothing.
        ([a_record("resume", 2), a_record("cancel", 2), a_record("resume", 2)], "cancelled", []),
        ([a_record("interrupt", 1)], "open", [1]),
        ([a_record("cancel", 1, ONE)], "open", [1]),
        ([a_record("reuse", 1)], "open", [1]),
    ],
)
def test_which_legs_are_open(
    records: list[ControlRecord], state: str, open_legs: list[int]
) -> None:
    legs = fold(records)

    assert (legs.state, opened(legs)) == (state, open_legs)


def test_a_leg_whose_record_the_share_hides_is_open() -> None:
    assert fold([a_record("pause", 1)]).is_open(2)


@pytest.mark.parametrize("action", ["rerun", "quarantine"])
def test_a_rerun_takes_the_results_of_its_attempts_only(action: ControlAction) -> None:
    legs = fold([a_record(action, 2, ONE)])

    assert legs.current == 2
    assert legs.valid_from_leg(*ONE) == 2
    assert legs.valid_from_leg(*OTHER) == 1
    assert legs.valid_from_leg("task-1", 2) == 1


def test_a_rerun_of_everything_takes_all_results() -> None:
    legs = fold([a_record("rerun", 2, ONE), a_record("rerun", 3)])

    assert legs.valid_from_leg(*ONE) == legs.valid_from_leg(*OTHER) == 3


def test_an_attempt_cancelled_by_name_stays_closed_until_it_is_rerun() -> None:
    closed = [a_record("cancel", 1, ONE, OTHER), a_record("resume", 2)]

    assert fold(closed).is_closed(*ONE)
    again = fold([*closed, a_record("rerun", 3, ONE)])
    assert (again.is_closed(*ONE), again.is_closed(*OTHER)) == (False, True)
    assert not fold([*closed, a_record("rerun", 3)]).is_closed(*OTHER)


def test_an_interruption_is_over_with_the_next_leg() -> None:
    stopped = fold([a_record("interrupt")])

    assert (stopped.is_interrupted, stopped.stopped_at, stopped.reason) == (True, T0, "interrupt")
    again = fold([a_record("resume", 2)], stopped)
    assert (again.is_interrupted, again.stopped_at, again.reason) == (False, None, "")


def test_a_second_cancellation_does_not_date_the_first() -> None:
    later = a_record("cancel").model_copy(update={"at": T0 + timedelta(hours=1)})

    assert fold([a_record("cancel"), later]).stopped_at == T0


def test_the_newest_policy_of_each_kind_is_in_force() -> None:
    execution = ExecutionSettings(max_retries=7)
    runtime = RuntimeSettings(workers=3)
    records = [
        a_record("resume", 2, policy=PolicyChange(execution=execution)),
        a_record("resume", 3, policy=PolicyChange(runtime=runtime)),
    ]

    legs = fold(records)

    assert (legs.execution, legs.runtime) == (execution, runtime)


ANY_RECORD = st.builds(
    lambda action, leg, names: a_record(action, leg, *names),
    st.sampled_from(["resume", "rerun", "cancel", "pause", "interrupt", "quarantine", "reuse"]),
    st.integers(1, 6),
    st.lists(st.sampled_from([ONE, OTHER]), max_size=2, unique=True),
)


@given(st.lists(ANY_RECORD, max_size=8), st.integers(0, 8))
def test_folding_in_two_steps_is_folding_at_once(records: list[ControlRecord], at: int) -> None:
    assert fold(records[at:], fold(records[:at])) == fold(records)


@given(st.lists(ANY_RECORD, max_size=8))
def test_a_closed_leg_never_opens_again(records: list[ControlRecord]) -> None:
    closed: set[int] = set()
    for length in range(len(records) + 1):
        legs = fold(records[:length])
        assert not [leg for leg in closed if legs.is_open(leg)]
        closed |= {leg for leg in range(1, 8) if not legs.is_open(leg)}


@given(st.lists(ANY_RECORD, max_size=8))
def test_a_run_is_stopped_exactly_while_its_current_leg_is_closed(
    records: list[ControlRecord],
) -> None:
    legs = fold(records)

    assert (legs.state == "open") == legs.is_open(legs.current)


class TestWhereSnapshotsCount:
    def rerun(self, leg: int, *, evaluated: bool) -> ControlRecord:
        refs = (AttemptRef(task_id="task-1", attempt=1),)
        record = a_record("rerun", leg, ONE, OTHER)
        return record.model_copy(update={"evaluations": refs if evaluated else ()})

    def test_a_rerun_takes_snapshots_but_for_those_that_it_names(self) -> None:
        legs = fold([self.rerun(2, evaluated=True)])

        assert (legs.valid_from_leg(*ONE), legs.snapshot_from_leg(*ONE)) == (2, 1)
        assert (legs.valid_from_leg(*OTHER), legs.snapshot_from_leg(*OTHER)) == (2, 2)

    @pytest.mark.parametrize(
        ("history", "first_leg"),
        [((True, True), 1), ((False, True), 2), ((True, False), 3), ((False, True, True), 2)],
    )
    def test_a_snapshot_that_was_taken_once_does_not_come_back(
        self, history: tuple[bool, ...], first_leg: int
    ) -> None:
        legs = fold(self.rerun(leg, evaluated=each) for leg, each in enumerate(history, start=2))

        assert legs.snapshot_from_leg(*ONE) == first_leg

    def test_a_rerun_of_everything_takes_them_all(self) -> None:
        legs = fold([self.rerun(2, evaluated=True), a_record("rerun", 3)])

        assert legs.snapshot_from_leg(*ONE) == 3
