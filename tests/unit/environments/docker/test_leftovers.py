"""Whose container may be removed: only of the dead, and only of this machine's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from agentcompass.environments.docker import leftovers

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


class Engine:
    """Knows containers by name: (state, labels)."""

    def __init__(self, **containers: tuple[str, Mapping[str, str]]) -> None:
        self.listed = containers
        self.removed: list[str] = []

    def containers(self, **_: object) -> Sequence[Mapping[str, Any]]:
        return [
            {"Id": name, "State": state, "Labels": labels}
            for name, (state, labels) in self.listed.items()
        ]

    def remove_container(self, container: str, **_: object) -> None:
        self.removed.append(container)


def removed(engine: Engine, *dead_tokens: str) -> list[str]:
    leftovers.remove(cast("Any", engine), dead_tokens)
    return engine.removed


def owner_that_has_ended() -> str:
    script = "from agentcompass.environments.docker import leftovers; print(leftovers.owner())"
    return subprocess.check_output([sys.executable, "-c", script], text=True).strip()


@linux
def test_an_owner_is_dead_when_its_process_is() -> None:
    assert not leftovers.is_dead(leftovers.owner())
    assert leftovers.is_dead(owner_that_has_ended())


@linux
@pytest.mark.parametrize("name", ["", "other-boot:pid:[1]/1/1", "nonsense"])
def test_who_is_of_another_machine_is_never_dead(name: str) -> None:
    assert not leftovers.is_dead(name)


@linux
def test_only_the_ownerless_are_removed() -> None:
    mine, gone = leftovers.owner(), owner_that_has_ended()
    engine = Engine(
        mine=("running", {leftovers.TOKEN: "a", leftovers.OWNER: mine}),
        foreign=("running", {leftovers.TOKEN: "b", leftovers.OWNER: "elsewhere/1/1"}),
        dead=("running", {leftovers.TOKEN: "c", leftovers.OWNER: gone}),
        named=("running", {leftovers.TOKEN: "d", leftovers.OWNER: "elsewhere/1/1"}),
        over=("exited", {leftovers.TOKEN: "e", leftovers.OWNER: "elsewhere/1/1"}),
    )

    assert removed(engine, "d") == ["dead", "named", "over"]
