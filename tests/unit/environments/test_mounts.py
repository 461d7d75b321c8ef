"""Paths inside of a sandbox, and where they are for us."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcompass.environments.mounts import Mounts


@pytest.fixture
def mounts(tmp_path: Path) -> Mounts:
    for name in ("work", "tmp"):
        (tmp_path / name).mkdir()
    (tmp_path / "work" / "file").touch()
    links = {
        "absolute": "/inside/file", "relative": "./file", "chain": "absolute", "tmp": "/scratch/x",
        "up": "../inside/file", "out": "/etc/passwd", "far": "../../../../etc/passwd", "loop": "loop",
        "host": str(tmp_path / "secret"),
    }  # fmt: skip
    for name, target in links.items():
        (tmp_path / "work" / name).symlink_to(target)
    return Mounts({"/inside": tmp_path / "work", "/scratch": tmp_path / "tmp"})


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("file", "work/file"),
        ("/inside/file", "work/file"),
        ("../scratch/new", "tmp/new"),
        ("not/there", "work/not/there"),
        ("absolute", "work/file"),
        ("relative", "work/file"),
        ("chain", "work/file"),
        ("up", "work/file"),
        ("tmp", "tmp/x"),
        (".", "work"),
    ],
)
def test_a_path_means_what_it_means_inside(
    mounts: Mounts, tmp_path: Path, name: str, found: str
) -> None:
    assert mounts.find("/inside", name) == tmp_path / found


@pytest.mark.parametrize("name", ["/etc/x", "..", "out", "far", "host", "out/x", "/inside2/x"])
def test_what_is_not_ours_is_refused(mounts: Mounts, name: str) -> None:
    with pytest.raises(ValueError, match="outside"):
        mounts.find("/inside", name)


def test_a_circle_of_links_is_refused(mounts: Mounts) -> None:
    with pytest.raises(ValueError, match="circle"):
        mounts.find("/inside", "loop")


def test_a_link_of_ours_is_seen_from_inside(mounts: Mounts, tmp_path: Path) -> None:
    assert mounts.resolve(tmp_path / "work" / "absolute") == tmp_path / "work" / "file"
    with pytest.raises(ValueError, match="not in the environment"):
        mounts.resolve(tmp_path / "elsewhere")
