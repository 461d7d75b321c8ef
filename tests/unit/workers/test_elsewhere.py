"""Messages of other results folders: is the worker in the wrong place, or the message?"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentcompass.models.message import AttemptMessage
from agentcompass.runtime.ports import Delivered, Done, HandBack, Park
from agentcompass.runtime.site import Site
from agentcompass.store.root import ResultsRoot, open_root
from workers import wiring
from workers.keeping.instance import Instance, open_instance
from workers.keeping.reaper import bury
from workers.serving.options import ServeOptions
from workers.tasks import ELSEWHERE_S
from workers.wiring import RealParts

OTHER = "0" * 8
INVISIBLE_S = 4.0


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    made = open_instance(tmp_path / "base", "w")
    yield made
    bury(made)


@pytest.fixture
def root(tmp_path: Path) -> ResultsRoot:
    return open_root(tmp_path / "results")


@pytest.fixture
def parts(instance: Instance, root: ResultsRoot) -> RealParts:
    return parts_of(instance, root)


def parts_of(instance: Instance, root: ResultsRoot) -> RealParts:
    """Return what one process of the worker has."""
    options = ServeOptions("attempts", "w@h", str(root.path), str(instance.path.parent))
    bench: Any = SimpleNamespace(options=options, worker="w@h", secrets={}, instance=instance)
    bench.leases = bench.keeper = None
    return RealParts(bench, invisible_s=INVISIBLE_S, sleep=lambda _: None)


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> dict[str, Delivered]:
    """How the delivery of each run ends; anything else cannot be seen."""
    found: dict[str, Delivered] = {}

    def deliver(message: AttemptMessage, site: Site, *_: object) -> Delivered:
        assert site.root.digest == message.root
        unseen = HandBack("run_not_visible", f"after {site.invisible_s:g} s", stops_consuming=True)
        return found.get(message.run, unseen)

    monkeypatch.setattr(wiring, "deliver", deliver)
    return found


def a_message(root: str, run: str = "r") -> AttemptMessage:
    return AttemptMessage(run=run, root=root, leg=1, offset=0, attempt=1)


def test_a_worker_that_has_never_done_anything_takes_it_for_a_sign(
    parts: RealParts, root: ResultsRoot, ends: dict[str, Delivered]
) -> None:
    ends["held"] = Park(1.0)
    parts.deliver(a_message(root.digest, "held"))

    back = parts.deliver(a_message(OTHER))

    assert isinstance(back, HandBack)
    assert back.stops_consuming


def test_one_that_has_ended_an_attempt_of_its_own_leaves_it_to_others_and_says_so_once(
    parts: RealParts,
    root: ResultsRoot,
    ends: dict[str, Delivered],
    instance: Instance,
    caplog: pytest.LogCaptureFixture,
) -> None:
    ends["mine"] = Done()
    parts.deliver(a_message(root.digest, "mine"))
    sibling = parts_of(instance, root)  # another process of the same worker

    for _ in range(3):
        for each in (parts, sibling):
            assert each.deliver(a_message(OTHER)) == Park(ELSEWHERE_S, "elsewhere")
    assert caplog.text.count("left to other workers") == 2


def test_a_run_that_is_gone_costs_a_proven_worker_one_wait(
    parts: RealParts, root: ResultsRoot, ends: dict[str, Delivered]
) -> None:
    ends["mine"] = Done()
    parts.deliver(a_message(root.digest, "mine"))

    for _ in range(2):
        assert parts.deliver(a_message(root.digest, "gone")) == Park(INVISIBLE_S, "elsewhere")
    shutil.rmtree(root.path)
    back = parts.deliver(a_message(root.digest, "gone"))

    assert back == HandBack("run_not_visible", "after 0 s", stops_consuming=True)


def test_a_worker_whose_folder_was_exchanged_stops_whatever_it_has_done(
    parts: RealParts, root: ResultsRoot, ends: dict[str, Delivered]
) -> None:
    ends["mine"] = Done()
    parts.deliver(a_message(root.digest, "mine"))
    shutil.rmtree(root.path)
    fresh = open_root(root.path)

    back = parts.deliver(a_message(OTHER))

    assert isinstance(back, HandBack)
    assert back.stops_consuming
    assert parts.deliver(a_message(fresh.digest, "mine")) == Done(), "unless it is what is meant"
