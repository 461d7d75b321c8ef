from __future__ import annotations

import os
from errno import EPERM, EROFS
from pathlib import Path

import pytest

from agentcompass.errors import ResultsDirUnusable, UsageError
from agentcompass.store import atomic, root
from tests.fault.faulty_os import FaultyOs


def test_a_new_folder_gets_an_identity_that_stays(tmp_path: Path) -> None:
    first = root.open_root(tmp_path / "results")

    assert root.open_root(tmp_path / "results") == first
    assert root.find_root(tmp_path / "results") == first
    assert len(first.root_id) == 32
    assert first.digest == first.root_id[:8]


def test_the_probe_leaves_nothing(tmp_path: Path) -> None:
    root.open_root(tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == [".agentcompass-root"]


def test_a_worker_creates_nothing(tmp_path: Path) -> None:
    assert root.find_root(tmp_path / "not-mounted") is None
    assert root.find_root(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_a_missing_parent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultsDirUnusable, match="does not exist"):
        root.open_root(tmp_path / "share" / "results")


def test_a_file_is_no_results_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ResultsDirUnusable, match="not a directory"):
        root.open_root(tmp_path / "file")
    with pytest.raises(ResultsDirUnusable, match="cannot be created"):
        root.open_root(tmp_path / "file" / "below")


@pytest.mark.parametrize(
    ("call", "fault", "message"),
    [
        ("link", OSError(EPERM, "Operation not permitted"), "hard-link a file"),
        ("replace", OSError(EPERM, "Operation not permitted"), "rename a file"),
        ("mkdir", OSError(EROFS, "Read-only file system"), "create"),
        ("fsync", OSError(EPERM, "Operation not permitted"), "fsync"),
        ("open", OSError(EROFS, "Read-only file system"), "write"),
    ],
)
def test_a_folder_that_cannot_do_what_publication_needs_is_refused(
    call: str, fault: OSError, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object, **_keywords: object) -> None:
        raise fault

    faulty = FaultyOs(10**9, fault)
    monkeypatch.setattr(faulty, call, fail, raising=False)
    monkeypatch.setattr(atomic, "os", faulty)

    with pytest.raises(ResultsDirUnusable, match=message):
        root.open_root(tmp_path / "results" if call == "mkdir" else tmp_path)


def test_a_file_system_whose_links_replace_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", os.replace)
    monkeypatch.setattr(os, "unlink", lambda _path: None)

    with pytest.raises(ResultsDirUnusable, match="second hard link"):
        root.open_root(tmp_path)


@pytest.mark.parametrize("content", [b"", b"abc\n", b"\xff" * 32, b"g" * 32])
def test_a_root_file_that_is_none_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / ".agentcompass-root").write_bytes(content)

    with pytest.raises(ResultsDirUnusable, match="32 hex digits"):
        root.find_root(tmp_path)


class TestReferences:
    def test_a_run_is_found_by_its_reference(self, tmp_path: Path) -> None:
        folder = root.open_root(tmp_path)
        run_dir = tmp_path / "space" / "run-1"

        assert root.run_ref(folder, run_dir) == "space/run-1"
        assert root.resolve_ref(folder, "space/run-1") == run_dir

    @pytest.mark.parametrize("ref", ["../x", "/etc", "a/../../b", "", "a//b", ".", "a\\b", "a\0b"])
    def test_a_reference_stays_inside(self, ref: str, tmp_path: Path) -> None:
        with pytest.raises(UsageError):
            root.resolve_ref(root.open_root(tmp_path), ref)

    def test_a_link_leads_nowhere_else(self, tmp_path: Path) -> None:
        folder = root.open_root(tmp_path / "results")
        (tmp_path / "elsewhere").mkdir()
        (folder.path / "space").symlink_to(tmp_path / "elsewhere")

        with pytest.raises(UsageError, match="leaves the results folder"):
            root.resolve_ref(folder, "space/run-1")

    def test_a_run_elsewhere_has_no_reference(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="not below the results folder"):
            root.run_ref(root.open_root(tmp_path / "results"), tmp_path / "other" / "run")

    def test_a_reference_has_at_most_160_bytes(self) -> None:
        root.check_ref("a" * 160)
        with pytest.raises(UsageError, match="160 bytes"):
            root.check_ref("a" * 161)


def test_a_root_file_that_cannot_be_read_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / ".agentcompass-root").mkdir()

    with pytest.raises(ResultsDirUnusable, match="cannot be read"):
        root.find_root(tmp_path)
