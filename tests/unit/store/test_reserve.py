from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from agentcompass.errors import ResultsDirUnusable, RunExists, UsageError
from agentcompass.store.reserve import reserve
from agentcompass.store.root import open_root
from tests.builders import T0


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_run_gets_the_time_as_its_name(tmp_path: Path) -> None:
    run_dir = reserve(open_root(tmp_path), ("a", "b"), None, T0)

    assert run_dir == tmp_path / "a" / "b" / "20260102_030405"
    assert names_in(run_dir) == ["control", "details"]
    assert names_in(run_dir / "details") == ["error", "fatal", "normal", "running"]


def test_runs_of_the_same_second_advance(tmp_path: Path) -> None:
    root = open_root(tmp_path)
    late = T0 + timedelta(seconds=54)

    names = [reserve(root, ("a",), None, late).name for _ in range(3)]

    assert names == ["20260102_030459", "20260102_030500", "20260102_030501"]


def test_an_explicit_id_is_taken_once_in_any_case(tmp_path: Path) -> None:
    root = open_root(tmp_path)
    reserve(root, ("a",), "Run-1", T0)

    for taken in ("Run-1", "run-1"):
        with pytest.raises(RunExists):
            reserve(root, ("a",), taken, T0)
    assert reserve(root, ("b",), "run-1", T0).name == "run-1"
    assert names_in(tmp_path / "a") == ["Run-1"]


def test_ids_that_differ_in_case_at_the_same_moment_are_both_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = open_root(tmp_path)
    real = os.mkdir

    def mkdir_beside_another(path: str, mode: int = 0o777) -> None:
        if str(path).endswith("run-1"):
            real(tmp_path / "a" / "RUN-1")
        real(path, mode)

    monkeypatch.setattr(os, "mkdir", mkdir_beside_another)

    with pytest.raises(RunExists):
        reserve(root, ("a",), "run-1", T0)
    assert names_in(tmp_path / "a") == ["RUN-1"]


@pytest.mark.parametrize("run_id", ["../x", "..", "a/b", "/etc/x", ""])
def test_an_id_never_leaves_its_namespace(run_id: str, tmp_path: Path) -> None:
    run_dir = reserve(open_root(tmp_path / "results"), ("a",), run_id, T0)

    assert run_dir.parent == tmp_path / "results" / "a"
    assert names_in(tmp_path) == ["results"]


def test_a_path_too_long_for_a_message_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    root = open_root(tmp_path)

    with pytest.raises(UsageError, match="160 bytes"):
        reserve(root, ("n" * 100, "m" * 60), "run-1", T0)
    assert names_in(tmp_path) == [".agentcompass-root"]


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    root = open_root(tmp_path)
    (tmp_path / "a").write_text("")

    with pytest.raises(ResultsDirUnusable, match="not a directory"):
        reserve(root, ("a",), None, T0)
    with pytest.raises(ResultsDirUnusable, match="not a directory"):
        reserve(root, ("a", "b"), None, T0)


def test_a_link_in_the_namespace_is_not_followed(tmp_path: Path) -> None:
    root = open_root(tmp_path / "results")
    (tmp_path / "elsewhere").mkdir()
    (root.path / "a").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(ResultsDirUnusable, match="not a directory"):
        reserve(root, ("a",), None, T0)
    assert list((tmp_path / "elsewhere").iterdir()) == []
