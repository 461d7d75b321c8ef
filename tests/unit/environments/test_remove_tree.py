from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentcompass.environments.base import remove_tree


def test_a_folder_is_removed_whatever_modes_its_entries_have(tmp_path: Path) -> None:
    deep = tmp_path / "tree" / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "file").write_text("x", encoding="utf-8")
    for path in (deep / "file", deep, deep.parent, tmp_path / "tree"):
        path.chmod(0o000)

    remove_tree(tmp_path / "tree")

    assert not (tmp_path / "tree").exists()


def test_a_folder_that_is_too_deep_for_recursion_is_removed(tmp_path: Path) -> None:
    top = tmp_path / "tree"
    top.mkdir()
    fd = os.open(top, os.O_RDONLY)
    for _ in range(3_000):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)

    remove_tree(top)

    assert not top.exists()


def test_what_a_link_points_at_stays(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    (kept / "inside").mkdir(parents=True)
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "link").symlink_to(kept)
    (tmp_path / "top").symlink_to(kept)

    remove_tree(tmp_path / "tree")
    remove_tree(tmp_path / "top")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept"]
    assert (kept / "inside").exists()


@pytest.mark.parametrize("name", ["missing", "missing/below"])
def test_what_is_not_there_is_fine(tmp_path: Path, name: str) -> None:
    remove_tree(tmp_path / name)
