"""Policies by id, plug-ins included."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import EntryPoint

import pytest

from agentcompass.errors import UsageError
from agentcompass.metrics.per_task import registry
from agentcompass.metrics.per_task.registry import Registry


@dataclass(frozen=True)
class Thing:
    id: str


ONE = Thing("one")
FROM_PLUGIN = Thing("plugged")


def a_registry() -> Registry[Thing]:
    return Registry("thing", "agentcompass.things", (ONE,))


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("plugged", f"{__name__}:FROM_PLUGIN", "agentcompass.things"),
        EntryPoint("mislabelled", f"{__name__}:FROM_PLUGIN", "agentcompass.things"),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)


def test_a_registered_policy_is_found() -> None:
    things = a_registry()

    two = things.register(Thing("two"))

    assert things.get("two") is two
    assert things.known() == ("one", "two")


def test_an_id_belongs_to_one_policy_for_ever() -> None:
    with pytest.raises(ValueError, match="'one' is registered already"):
        a_registry().register(Thing("one"))


@pytest.mark.usefixtures("installed")
def test_an_installed_plugin_is_found_by_its_entry_point() -> None:
    things = a_registry()

    assert things.get("plugged") is FROM_PLUGIN
    assert things.get("plugged") is FROM_PLUGIN
    assert things.known() == ("mislabelled", "one", "plugged")


@pytest.mark.usefixtures("installed")
def test_an_entry_point_must_name_the_id_of_its_policy() -> None:
    with pytest.raises(UsageError, match="has another id: 'plugged'"):
        a_registry().get("mislabelled")


def test_an_unknown_id_gets_the_nearest_and_all_known_ones() -> None:
    with pytest.raises(UsageError, match=r"did you mean 'one'.*known: one"):
        a_registry().get("onee")


def test_nothing_is_guessed_for_an_id_that_is_like_none() -> None:
    with pytest.raises(UsageError) as caught:
        a_registry().get("zzz")

    assert "did you mean" not in str(caught.value)
