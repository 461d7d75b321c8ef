"""Archives into and out of containers; the hostile ones are made by hand."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentcompass.environments.docker.archives import IsLink, of_bytes, pack, unpack

LIMIT = 1 << 30


def archive(*entries: tuple[str, bytes, bytes | str]) -> Iterator[bytes]:
    """Yield an archive in small pieces; an entry is a name, a type, and its content or link."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as made:
        for name, kind, content in entries:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = kind, 0
            if isinstance(content, str):
                entry.linkname = content
                made.addfile(entry)
            else:
                entry.size = len(content)
                made.addfile(entry, io.BytesIO(content))
    data = buffer.getvalue()
    yield from (data[at : at + 700] for at in range(0, len(data), 700))


FOLDER = ("d", tarfile.DIRTYPE, "")
FILE = ("d/x", tarfile.REGTYPE, b"content")


def test_a_folder_comes_out_with_modes_that_we_can_read(tmp_path: Path) -> None:
    unpack(archive(FOLDER, FILE), "/in/d", tmp_path / "out", LIMIT)

    assert (tmp_path / "out" / "x").read_bytes() == b"content"
    assert (tmp_path / "out" / "x").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["/etc/x", "d/../../x", "../x"])
def test_no_name_leads_out(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="leads out"):
        unpack(archive(FOLDER, (name, tarfile.REGTYPE, b"")), "/in/d", tmp_path / "out", LIMIT)

    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    link = ("d/link", tarfile.SYMTYPE, str(tmp_path))
    through = ("d/link/x", tarfile.REGTYPE, b"content")

    with pytest.raises(OSError, match="link"):
        unpack(archive(FOLDER, link, through), "/in/d", tmp_path / "out", LIMIT)

    assert not (tmp_path / "x").exists()


def test_no_file_is_written_twice(tmp_path: Path) -> None:
    with pytest.raises(FileExistsError):
        unpack(archive(FOLDER, FILE, FILE), "/in/d", tmp_path / "out", LIMIT)


@pytest.mark.parametrize("link", ["x", "/in/d/x", "b", "../d/x"])
def test_links_within_the_folder_become_files(tmp_path: Path, link: str) -> None:
    links = ("d/a", tarfile.SYMTYPE, link), ("d/b", tarfile.SYMTYPE, "x")

    unpack(archive(FOLDER, *links, FILE), "/in/d", tmp_path / "out", LIMIT)

    assert (tmp_path / "out" / "a").read_bytes() == b"content"
    assert not (tmp_path / "out" / "a").is_symlink()


@pytest.mark.parametrize("link", ["/etc/passwd", "../x", "a", ".", "none"])
def test_other_links_are_left_out(tmp_path: Path, link: str) -> None:
    unpack(archive(FOLDER, ("d/a", tarfile.SYMTYPE, link), FILE), "/in/d", tmp_path / "o", LIMIT)

    assert [path.name for path in (tmp_path / "o").iterdir()] == ["x"]


def test_hard_links_become_files(tmp_path: Path) -> None:
    unpack(archive(FOLDER, FILE, ("d/y", tarfile.LNKTYPE, "d/x")), "/in/d", tmp_path / "o", LIMIT)

    assert (tmp_path / "o" / "y").read_bytes() == b"content"
    assert (tmp_path / "o" / "y").stat().st_nlink == 1


def test_a_hard_link_does_not_lead_out(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("canary", encoding="utf-8")
    link = ("d/y", tarfile.LNKTYPE, "d/../secret")

    with pytest.raises(ValueError, match="leads out"):
        unpack(archive(FOLDER, link), "/in/d", tmp_path / "out", LIMIT)


def test_devices_and_pipes_are_left_out(tmp_path: Path) -> None:
    special = [("d/p", tarfile.FIFOTYPE, ""), ("d/c", tarfile.CHRTYPE, "")]

    unpack(archive(FOLDER, *special, FILE), "/in/d", tmp_path / "out", LIMIT)

    assert [path.name for path in (tmp_path / "out").iterdir()] == ["x"]


def test_what_is_asked_for_may_be_a_link_or_no_file_at_all(tmp_path: Path) -> None:
    with pytest.raises(IsLink) as found:
        unpack(archive(("d", tarfile.SYMTYPE, "other")), "/in/d", tmp_path / "out", LIMIT)
    with pytest.raises(ValueError, match="neither"):
        unpack(archive(("d", tarfile.FIFOTYPE, "")), "/in/d", tmp_path / "out", LIMIT)

    assert found.value.leads_to == "other"


def test_too_much_is_refused_before_it_is_written(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="larger"):
        unpack(archive(FOLDER, FILE), "/in/d", tmp_path / "out", 6)

    assert list((tmp_path / "out").iterdir()) == []


def test_what_goes_in_is_a_whole_archive(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "tool").write_bytes(b"x" * 3_000_000)
    (source / "sub" / "tool").chmod(0o755)
    (source / "link").symlink_to("sub/tool")
    os.mkfifo(source / "pipe")

    with tarfile.open(fileobj=io.BytesIO(b"".join(pack(source, "", (7, 8))))) as found:
        members = {member.name: member for member in found}

    assert sorted(members) == ["link", "sub", "sub/tool"]
    assert members["link"].linkname == "sub/tool"
    tool = members["sub/tool"]
    assert (tool.size, tool.mode, tool.uid, tool.gid) == (3_000_000, 0o755, 7, 8)


def test_a_single_file_goes_in_under_its_new_name(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("text", encoding="utf-8")

    with tarfile.open(fileobj=io.BytesIO(b"".join(pack(tmp_path / "old", "new", (0, 0))))) as found:
        assert found.getnames() == ["new"]


def test_bytes_go_in_as_a_private_file() -> None:
    with tarfile.open(fileobj=io.BytesIO(of_bytes("name", b"text", (7, 8)))) as found:
        member = found.getmember("name")

        assert (member.mode, member.uid, member.size) == (0o600, 7, 4)
