"""A child's questions about limits, and its parent's answers, as the lines that travel."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agentcompass.models.limits import Limits, ModelLimits
from agentcompass.runtime.delivery.alone_limits import AskingParent, answer
from agentcompass.runtime.ports import (
    Admitted,
    Bounds,
    LeaseKey,
    LimitsUnreachable,
    NotYet,
    Slot,
)
from tests.support import store_runs
from tests.support.delivering import a_lab
from tests.support.turnstile import FakeLimits

KEY = LeaseKey("root", "run", 0, 1)
SLOT = Slot("model:a", KEY, "token", 3)
BOUNDS = Bounds(4, 60, 1_000, is_adaptive=True)


@dataclass
class Wire:
    """Carries every line as text, and answers at once."""

    limits: FakeLimits = field(default_factory=FakeLimits)
    seen: list[Bounds] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.child = AskingParent(self.say)

    def say(self, **line: Any) -> None:
        told = answer(self.limits, KEY, "token", json.loads(json.dumps(line)))
        if told is not None:
            self.child.hear(json.loads(json.dumps(told)))


def test_a_child_is_let_in_by_whoever_its_parent_asks() -> None:
    wire = Wire()

    assert wire.child.enter(SLOT, BOUNDS, 17) == Admitted(4)
    assert wire.limits.did == [("enter", "model", 3)]


def test_a_child_is_told_when_to_ask_again() -> None:
    wire = Wire(FakeLimits([NotYet(0.25)]))

    assert wire.child.enter(SLOT, BOUNDS) == NotYet(0.25)


def test_a_child_learns_that_nobody_counts() -> None:
    with pytest.raises(LimitsUnreachable):
        Wire(FakeLimits(is_reachable=False)).child.enter(SLOT, BOUNDS)


def test_what_a_child_gives_back_or_says_of_the_server_arrives() -> None:
    wire = Wire()

    wire.child.slow_down(SLOT, BOUNDS, 2.0)
    wire.child.leave(SLOT, BOUNDS, 99)

    assert wire.limits.did == [("slow_down", 3, 2.0), ("leave", "model", 3, 99)]


def test_an_execution_in_a_process_of_its_own_takes_its_turn_like_all_others(
    tmp_path: Path,
) -> None:
    limits = FakeLimits([NotYet(0.01)])
    settings = {"limits": Limits(concurrent_environments=1, model=ModelLimits())}
    lab = a_lab(tmp_path, environ=dict(os.environ), limits=limits, settings=settings)
    store_runs.begin(lab.run_dir, "t0", token="gone")

    result = lab.executed()

    assert lab.keeper.executions[0].pid != os.getpid()
    asked = ["enter", "enter", "leave"]
    assert limits.did == [(what, "environment", 1, *([None] * (what == "leave"))) for what in asked]
    assert "slot_wait_s" in str(result.meta.harness)
    assert float("inf") in [at_s for at_s, _ in lab.keeper.deadlines]
