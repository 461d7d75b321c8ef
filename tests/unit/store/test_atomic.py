from __future__ import annotations

import fcntl
import os
from errno import EACCES, EINVAL, EMLINK, ENOSPC, ENOTTY, EOPNOTSUPP, EPERM, EXDEV
from pathlib import Path

import pytest

from agentcompass.store import atomic
from tests.fault.faulty_os import FaultyOs


def strays(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir() if path.name.startswith(atomic.TEMP_PREFIX)]


class TestPublishOnce:
    def test_the_first_bytes_stay(self, tmp_path: Path) -> None:
        assert atomic.publish_once(tmp_path / "a", b"first")
        assert not atomic.publish_once(tmp_path / "a", b"second")

        assert (tmp_path / "a").read_bytes() == b"first"
        assert strays(tmp_path) == []

    def test_nothing_is_created_for_a_missing_directory(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            atomic.publish_once(tmp_path / "gone" / "a", b"x")

        assert list(tmp_path.iterdir()) == []

    def test_a_link_that_nfs_repeated_counts_as_ours(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def link_whose_reply_was_lost(source: str, target: Path) -> None:
            os.link(source, target)
            raise FileExistsError(target)

        repeating = FaultyOs(10**9, OSError())
        monkeypatch.setattr(repeating, "link", link_whose_reply_was_lost, raising=False)
        monkeypatch.setattr(atomic, "os", repeating)

        assert atomic.publish_once(tmp_path / "a", b"ours")

    def test_a_link_that_is_refused_leaves_no_temporary_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "link", refuse)

        with pytest.raises(PermissionError):
            atomic.publish_once(tmp_path / "a", b"x")

        assert list(tmp_path.iterdir()) == []


def refuse(*_arguments: object) -> None:
    raise PermissionError(EACCES, "refused")


class TestReplace:
    def test_the_last_bytes_stay(self, tmp_path: Path) -> None:
        atomic.replace(tmp_path / "a", b"first")
        atomic.replace(tmp_path / "a", b"second")

        assert (tmp_path / "a").read_bytes() == b"second"

    def test_chunks_that_fail_leave_the_old_file_and_nothing_else(self, tmp_path: Path) -> None:
        atomic.replace(tmp_path / "a", b"old")

        with pytest.raises(ZeroDivisionError):
            atomic.replace_stream(tmp_path / "a", (b"%d" % (1 // n) for n in (1, 0)))

        assert (tmp_path / "a").read_bytes() == b"old"
        assert strays(tmp_path) == []

    def test_a_rename_that_is_refused_leaves_no_temporary_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "replace", refuse)

        with pytest.raises(PermissionError):
            atomic.replace(tmp_path / "a", b"x")

        assert list(tmp_path.iterdir()) == []

    def test_temporary_files_lie_beside_their_target_and_never_elsewhere(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TMPDIR", "/proc")  # nothing can be written there

        atomic.replace(tmp_path / "a", b"x")

        assert (tmp_path / "a").read_bytes() == b"x"


class TestMarksAndMoves:
    def test_a_small_file_is_created_once(self, tmp_path: Path) -> None:
        assert atomic.create(tmp_path / "a", b"first")
        assert not atomic.create(tmp_path / "a", b"second")
        assert (tmp_path / "a").read_bytes() == b"first"

    def test_an_own_file_is_never_shared(self, tmp_path: Path) -> None:
        atomic.write_new(tmp_path / "a", [b"on", b"ce"])

        with pytest.raises(FileExistsError):
            atomic.write_new(tmp_path / "a", [b"twice"])
        assert (tmp_path / "a").read_bytes() == b"once"

    def test_a_directory_is_made_once_and_parents_never(self, tmp_path: Path) -> None:
        assert atomic.make_directory(tmp_path / "a", sync_parent=True)
        assert not atomic.make_directory(tmp_path / "a")
        with pytest.raises(FileNotFoundError):
            atomic.make_directory(tmp_path / "b" / "c")

    def test_a_move_says_whether_it_was_ours(self, tmp_path: Path) -> None:
        (tmp_path / "a").mkdir()
        (tmp_path / "full" / "inside").mkdir(parents=True)

        assert not atomic.move(tmp_path / "a", tmp_path / "full")
        assert atomic.move(tmp_path / "a", tmp_path / "b")
        assert not atomic.move(tmp_path / "a", tmp_path / "c")

    def test_what_is_gone_or_not_empty_is_not_removed(self, tmp_path: Path) -> None:
        (tmp_path / "full" / "inside").mkdir(parents=True)

        assert not atomic.remove(tmp_path / "gone")
        assert not atomic.remove_directory(tmp_path / "gone")
        assert not atomic.remove_directory(tmp_path / "full")
        assert atomic.remove_directory(tmp_path / "full" / "inside")

    def test_other_failures_of_moves_and_removals_are_not_hidden(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "rename", refuse)
        monkeypatch.setattr(os, "rmdir", refuse)

        with pytest.raises(PermissionError):
            atomic.move(tmp_path / "a", tmp_path / "b")
        with pytest.raises(PermissionError):
            atomic.remove_directory(tmp_path)

    def test_a_lock_has_one_holder_and_can_be_taken_again(self, tmp_path: Path) -> None:
        with atomic.lock(tmp_path / "lock") as first, atomic.lock(tmp_path / "lock") as second:
            assert (first, second) == (True, False)
        with atomic.lock(tmp_path / "lock") as third:
            assert third


class TestCopyNew:
    def copied(self, tmp_path: Path) -> Path:
        (tmp_path / "a").write_bytes(b"content" * 100_000)
        fd = os.open(tmp_path / "a", os.O_RDONLY)
        try:
            atomic.copy_new(fd, tmp_path / "b")
        finally:
            os.close(fd)
        return tmp_path / "b"

    @pytest.mark.parametrize("reason", [EXDEV, EPERM, EACCES, EMLINK, EOPNOTSUPP, EINVAL, ENOTTY])
    def test_whatever_keeps_blocks_from_being_shared_the_bytes_are_copied(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: int
    ) -> None:
        def refuses(*_: object) -> None:
            raise OSError(reason, "not here")

        monkeypatch.setattr(fcntl, "ioctl", refuses)

        copy = self.copied(tmp_path)

        assert copy.read_bytes() == (tmp_path / "a").read_bytes()
        assert copy.stat().st_ino != (tmp_path / "a").stat().st_ino

    def test_shared_blocks_are_not_copied_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(fcntl, "ioctl", lambda *_: 0)

        assert self.copied(tmp_path).read_bytes() == b""

    def test_a_full_disk_is_not_hidden(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        full = FaultyOs(10**9, OSError())

        def no_room(*_: object) -> int:
            raise OSError(ENOSPC, "disk full")

        monkeypatch.setattr(full, "write", no_room, raising=False)
        monkeypatch.setattr(atomic, "os", full)

        with pytest.raises(OSError, match="disk full"):
            self.copied(tmp_path)


def test_a_removed_tree_takes_nothing_with_it_that_a_link_leads_to(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    tree = tmp_path / "tree"
    (tree / "deep").mkdir(parents=True)
    (tree / "deep" / "file").write_text("x")
    (tree / "link").symlink_to(outside)

    atomic.remove_tree(tree)

    assert not tree.exists()
    assert (outside / "kept").read_text() == "kept"
