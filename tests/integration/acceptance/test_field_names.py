"""Field reports P04 to P07: whatever users call things, each has one safe place and keeps its name."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from agentcompass.store.check import check_run
from tests.integration.acceptance.plugins import __name__ as plugins
from tests.support.laboratory import Laboratory, Wanted
from tests.support.tree import paths_in, tree_of

pytestmark = pytest.mark.integration

CJK: Final = "\u6f22"
"""Three bytes of UTF-8."""
LONG_IDS: Final = ("a" * 300, CJK * 200, "b" * 189, "b" * 190, "b" * 188 + "c")
HOSTILE_IDS: Final = (
    *("../x", "/etc/x", "a/../../b", "..", ".", "C:\\x", "-rf", "con", "x.", "a\nb"),
    *("~", "$(id)", "a b", "a_b", "A B", "%2e%2e", "\u202ea", "é", "e\u0301", "*", "'\""),
)


def components_of(folder: Path) -> Iterator[str]:
    return (name for _, folders, files in os.walk(folder) for name in [*folders, *files])


def test_p04_names_stay_below_255_bytes_and_apart_and_are_kept_in_full(
    laboratory: Laboratory,
) -> None:
    model = "m" * 399 + "é"
    run = laboratory.run("p04", Wanted(tasks=LONG_IDS, model=model))

    assert run.said.code == 0, run.said
    assert max(len(os.fsencode(name)) for name in components_of(laboratory.cluster.results)) <= 255
    assert {task_id for task_id, _ in run.results()} == set(LONG_IDS)
    request = json.loads((run.directory / "run_info.json").read_bytes())["request"]
    assert request["model"]["id"] == model
    assert len(paths_in(run.directory, "details/normal/*")) == len(LONG_IDS)
    assert check_run(run.directory) == []


def test_p05_nothing_leaves_the_run_directory_and_each_id_has_one_of_its_own(
    laboratory: Laboratory,
) -> None:
    laboratory.run("before")  # makes the folders that all runs share
    outside = laboratory.cluster.directory
    before = {name for name in tree_of(outside) if not name.startswith(("results", "redis", "wor"))}
    wanted = Wanted(
        tasks=HOSTILE_IDS,
        benchmark=f"{plugins}:Escaping",
        environment="host_process",
        agent={"*": "run:mkdir left; echo hello > 'left/a:b*?.txt'; ln -s / left/root"},
        evaluator={"*": "score:1"},
        more=("--run-id", "../../up"),
    )

    run = laboratory.run("p05", wanted)

    after = {name for name in tree_of(outside) if not name.startswith(("results", "redis", "wor"))}
    assert after - before == {"p05.jsonl"}
    assert run.directory.parent.parent == laboratory.cluster.results / "p05"
    assert {task_id for task_id, _ in run.results()} == set(HOSTILE_IDS)
    assert len(paths_in(run.directory, "details/*/*")) == len(HOSTILE_IDS)
    assert not [path for path in paths_in(run.directory, "**/*") if path.is_symlink()]
    assert not Path("/etc/x").exists()


def test_p05_a_file_outside_is_no_artifact_and_the_agents_own_file_is(
    laboratory: Laboratory,
) -> None:
    wanted = Wanted(
        tasks=("a",),
        benchmark=f"{plugins}:Escaping",
        environment="host_process",
        agent={"*": "run:mkdir left; echo hello > 'left/a:b*?.txt'"},
    )

    run = laboratory.run("p05-artifacts", wanted)

    kept = [
        path for path in paths_in(run.directory, "details/*/*/*/artifacts/*/*") if path.is_file()
    ]
    assert [path.read_text() for path in kept] == ["hello\n"]
    host = Path("/etc/hostname").read_text() if Path("/etc/hostname").exists() else "\0"
    assert not [path for path in kept if path.read_text() == host]
    assert {"error", "fatal"} & {issue["severity"] for issue in run.results()["a", 1]["issues"]}


def test_p06_unsafe_characters_become_safe_and_levels_stay_apart(laboratory: Laboratory) -> None:
    model = "org/name:tag?*|"
    runs = [
        laboratory.run(name, Wanted(model=model), "--run-id", "night")
        for name in ("p06/a b", "p06/a/b", "p06/a-b")
    ]

    assert [run.said.code for run in runs] == [0, 0, 0]
    assert all(one.directory != other.directory for one, other in pairwise(runs))
    below = runs[0].directory.relative_to(laboratory.cluster.results)
    assert below.parts[:2] == ("p06", "a_b")
    assert below.parts[2].startswith("org_name_tag____tests.support.stubs")


def test_p06_names_that_become_the_same_place_refuse_one_another(laboratory: Laboratory) -> None:
    first = laboratory.run("p06/a b", Wanted(), "--run-id", "same")
    second = laboratory.cluster.call(
        "run", *laboratory.flags("p06/a_b", Wanted()), "--run-id", "same", *laboratory.broker
    )

    assert (first.said.code, second.code) == (0, 2)
    assert "'same' exists already" in second.err
    assert not laboratory.ledger("p06/a_b").exists()
