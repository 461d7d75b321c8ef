"""Whether anybody can execute what is about to be sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcompass.coordinator.ports import LiveWorker
from agentcompass.coordinator.refusal import Refusal
from agentcompass.coordinator.serving import refuse_strangers, unserved
from agentcompass.store.root import open_root
from tests.fakes.queue import FakeQueue


def a_worker(root: str, name: str = "w@far") -> LiveWorker:
    return LiveWorker(name, root, "/mnt/theirs")


def served_by(*roots: str) -> FakeQueue:
    queue = FakeQueue()
    queue.living = [a_worker(root) for root in roots]
    return queue


def test_a_run_that_no_living_worker_would_find_is_refused_with_both_folders(
    tmp_path: Path,
) -> None:
    root = open_root(tmp_path / "mine")

    with pytest.raises(Refusal) as raised:
        refuse_strangers(served_by("11111111", "22222222"), "default", root.path)

    said = str(raised.value)
    assert raised.value.code == "other_root"
    assert said.count("\n") < 5
    for part in (str(root.path), root.digest, "/mnt/theirs", "11111111", "w@far, and 1 more"):
        assert part in said
    assert "--queue NAME" in said


def test_a_folder_that_is_yet_to_be_made_is_nobodys(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=r"mine \(new\)"):
        refuse_strangers(served_by("11111111"), "default", tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


def test_one_that_serves_it_is_enough(tmp_path: Path) -> None:
    root = open_root(tmp_path / "mine")

    refuse_strangers(served_by("11111111", root.digest), "default", root.path)


def test_a_worker_without_a_folder_may_be_waiting_for_this_one(tmp_path: Path) -> None:
    refuse_strangers(served_by("11111111", ""), "default", tmp_path / "mine")


def test_where_nobody_lives_attempts_wait_and_that_is_said(tmp_path: Path) -> None:
    nobody = FakeQueue()

    refuse_strangers(nobody, "gpu", tmp_path)

    said = unserved(nobody, "gpu", tmp_path)
    assert f"agentcompass worker --broker … --queue gpu --results-dir {tmp_path}" in said
    assert "\n" not in said
    assert unserved(served_by("11111111"), "gpu", tmp_path) == ""
