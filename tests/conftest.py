"""How thorough Hypothesis is (`HYPOTHESIS_PROFILE` names one of four), and what begins first."""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Generator

import pytest
from hypothesis import settings

_LONGEST = (  # the longest first
    "test_hostile_week.py",
    "test_runs.py",
    "test_kills.py",
    "test_hostile_agents.py",
    "test_reuse.py",
    "test_outages.py",
    "test_calls.py",
    "test_going_on.py",
    "test_shell_tasks.py",
)

# No deadline in any: on a busy machine it tells about the machine.
settings.register_profile("dev", max_examples=100, deadline=None)
settings.register_profile("few", max_examples=20, deadline=None)
settings.register_profile("ci", max_examples=1_000, deadline=None, derandomize=True)
settings.register_profile("nightly", max_examples=50_000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


STDERR = pytest.StashKey[int]()
PATIENCE_S = 300
"""So long a test with real services may take, unless it says otherwise: the machine may be busy."""


def pytest_configure(config: pytest.Config) -> None:
    config.stash[STDERR] = os.dup(2)  # nothing is captured yet


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """End a test that hangs though its own time-out should have: our alarms take the place of that one.

    Only beside others: alone, somebody sits before it, and the thread that waits would be the only one.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return (yield)
    own = item.get_closest_marker("timeout")
    bound_s = float(own.args[0] if own else item.config.getini("timeout"))
    faulthandler.dump_traceback_later(2 * bound_s, exit=True, file=item.config.stash[STDERR])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, or all would wait for one of them in the end."""
    for item in items:
        if item.get_closest_marker("integration") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(PATIENCE_S))
    place = {name: number for number, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: place.get(item.path.name, len(place)))
