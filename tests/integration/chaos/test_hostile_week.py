"""A run that everything happens to gives the report of one that nothing happens to."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.chaos.__main__ import told
from tests.support.broker import server_binary
from tests.support.chaos_week import Plan, live_through

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize("plan", [Plan(1), Plan(3, strategy="pass")], ids=str)
def test_a_hostile_week_costs_only_what_was_executing_when_it_struck(
    tmp_path: Path, plan: Plan
) -> None:
    if server_binary() is None:
        pytest.skip("no Redis or Valkey server is installed")

    outcome = live_through(tmp_path / "week", plan)

    assert outcome.wrong == [], told(outcome)
