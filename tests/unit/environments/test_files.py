"""Copying into a folder that a hostile program has arranged."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcompass.environments.files import copy_in


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "source" / "sub").mkdir(parents=True)
    (tmp_path / "source" / "sub" / "x").write_text("ours", encoding="utf-8")
    (tmp_path / "source" / "link").symlink_to("sub/x")
    return tmp_path / "source"


def test_nothing_is_written_through_a_link(source: Path, tmp_path: Path) -> None:
    victim, target = tmp_path / "victim", tmp_path / "target"
    victim.mkdir()
    (victim / "x").write_text("theirs", encoding="utf-8")
    target.mkdir()
    (target / "sub").symlink_to(victim)
    (target / "link").symlink_to(victim / "x")

    copy_in(source, target)

    assert (victim / "x").read_text("utf-8") == "theirs"
    assert (target / "sub" / "x").read_text("utf-8") == "ours"
    assert (target / "link").readlink() == Path("sub/x")


def test_a_file_replaces_a_link_to_a_file(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    (target / "sub").mkdir(parents=True)
    (tmp_path / "victim").write_text("theirs", encoding="utf-8")
    (target / "sub" / "x").symlink_to(tmp_path / "victim")

    copy_in(source, target)

    assert (tmp_path / "victim").read_text("utf-8") == "theirs"
    assert not (target / "sub" / "x").is_symlink()


def test_what_was_there_beside_it_stays(source: Path, tmp_path: Path) -> None:
    (tmp_path / "target" / "sub").mkdir(parents=True)
    (tmp_path / "target" / "sub" / "other").touch()

    copy_in(source, tmp_path / "target")

    assert sorted(path.name for path in (tmp_path / "target" / "sub").iterdir()) == ["other", "x"]


def test_a_file_goes_into_a_folder_that_is_there(source: Path, tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()

    copy_in(source / "sub" / "x", tmp_path / "target")

    assert (tmp_path / "target" / "x").read_text("utf-8") == "ours"
