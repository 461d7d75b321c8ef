from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentcompass.models.checkpoint import ArtifactManifest
from agentcompass.store import artifacts, attempts
from agentcompass.store.artifacts import (
    AttemptOver,
    CollectLimitExceeded,
    CollectLimits,
    collect_tree,
)
from tests.support.store_runs import TOKEN, a_run, begin, publish


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "b" / "c").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "a.txt").write_text("alpha")
    (folder / "b" / "c" / "d.bin").write_bytes(bytes(range(256)) * 2_000)
    return folder


def test_a_folder_is_copied_and_digested(source: Path, tmp_path: Path) -> None:
    found = collect_tree(source, tmp_path / "copy")

    assert (found.kind, found.file_count, found.size_bytes) == ("directory", 2, 5 + 512_000)
    assert (tmp_path / "copy" / "b" / "c" / "d.bin").stat().st_size == 512_000
    assert artifacts.digest_tree(tmp_path / "copy") == found
    assert artifacts.digest_tree(source).sha256 == found.sha256


def test_a_file_is_copied_and_digested(source: Path, tmp_path: Path) -> None:
    found = collect_tree(source / "a.txt", tmp_path / "copy")

    assert (found.kind, found.file_count, found.size_bytes) == ("file", 1, 5)
    assert artifacts.digest_tree(tmp_path / "copy") == found


def test_links_and_special_files_are_left_out_and_named(source: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (source / "link").symlink_to(tmp_path / "secret")
    (source / "folder").symlink_to(tmp_path)
    os.mkfifo(source / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(source / "socket"))
        found = collect_tree(source, tmp_path / "copy")

    assert found.skipped == ("folder", "link", "pipe", "socket")
    assert not (tmp_path / "copy" / "link").is_symlink()
    assert found.file_count == 2


def test_a_link_in_place_of_the_source_is_refused(source: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(source)

    with pytest.raises(FileNotFoundError, match="neither a file nor a folder"):
        collect_tree(tmp_path / "link", tmp_path / "copy")
    with pytest.raises(FileNotFoundError):
        collect_tree(tmp_path / "gone", tmp_path / "copy")


@pytest.mark.parametrize(
    ("limits", "limit"),
    [(CollectLimits(max_bytes=100_000), "100000 bytes"), (CollectLimits(max_files=1), "1 files")],
)
def test_what_is_too_large_is_refused(
    limits: CollectLimits, limit: str, source: Path, tmp_path: Path
) -> None:
    with pytest.raises(CollectLimitExceeded, match=limit):
        collect_tree(source, tmp_path / "copy", limits=limits)


@pytest.mark.parametrize("name", ["", "a.txt"])
def test_nothing_stays_of_what_did_not_fit_on_the_disk(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    fsync = os.fsync
    left = iter([True, False] if not name else [False])

    def full(descriptor: int) -> None:
        if not next(left):
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(OSError, match="No space left"):
        collect_tree(source / name, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_taken_target_is_never_mixed_into(source: Path, tmp_path: Path) -> None:
    collect_tree(source, tmp_path / "copy")

    with pytest.raises(FileExistsError):
        collect_tree(source, tmp_path / "copy")
    with pytest.raises(FileExistsError):
        collect_tree(source / "a.txt", tmp_path / "copy")


def test_a_filter_sees_the_bytes_before_they_are_digested(source: Path, tmp_path: Path) -> None:
    def masked(chunks: Iterator[bytes]) -> Iterator[bytes]:
        return (chunk.replace(b"alpha", b"*****!") for chunk in chunks)

    found = collect_tree(source / "a.txt", tmp_path / "copy", chunk_filter=masked)

    assert (tmp_path / "copy").read_bytes() == b"*****!"
    assert artifacts.digest_tree(tmp_path / "copy") == found


def test_a_place_that_was_moved_says_that_the_attempt_is_over(source: Path, tmp_path: Path) -> None:
    for each in (source, source / "a.txt"):
        with pytest.raises(AttemptOver, match="another execution"):
            collect_tree(each, tmp_path / "gone" / "copy")


class TestVerify:
    def collected(self, tmp_path: Path, source: Path) -> tuple[Path, ArtifactManifest]:
        run_dir = a_run(tmp_path)
        view = begin(run_dir)
        directory, recorded = attempts.artifacts_directory(view)
        entries = (
            collect_tree(source, directory / "logs").entry("logs", "logs"),
            collect_tree(source / "a.txt", directory / "a").entry("a.txt", "a"),
        )
        publish(run_dir, view)
        return run_dir, ArtifactManifest(directory=recorded, entries=entries)

    def place(self, run_dir: Path) -> Path:
        (found,) = (run_dir / "details" / "normal").iterdir()
        return found / "attempt-1" / "artifacts" / TOKEN

    def test_what_was_collected_is_found_where_its_task_stands_now(
        self, tmp_path: Path, source: Path
    ) -> None:
        run_dir, manifest = self.collected(tmp_path, source)

        assert manifest.directory.startswith("details/running/")
        assert artifacts.verify_artifacts(run_dir, manifest) == []

    def test_a_task_that_is_filed_while_its_files_are_digested_is_looked_for_again(
        self, tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run_dir = a_run(tmp_path)
        view = begin(run_dir)
        directory, recorded = attempts.artifacts_directory(view)
        entry = collect_tree(source, directory / "logs").entry("logs", "logs")
        real = artifacts.digest_tree

        def overtaken(path: Path) -> artifacts.Collected:
            monkeypatch.undo()
            publish(run_dir, view)
            return real(path)

        monkeypatch.setattr(artifacts, "digest_tree", overtaken)
        manifest = ArtifactManifest(directory=recorded, entries=(entry,))

        assert artifacts.verify_artifacts(run_dir, manifest) == []

    def test_every_change_is_noticed(self, tmp_path: Path, source: Path) -> None:
        run_dir, manifest = self.collected(tmp_path, source)
        place = self.place(run_dir)

        (place / "logs" / "b" / "c" / "d.bin").write_bytes(b"")
        (place / "a").unlink()

        problems = artifacts.verify_artifacts(run_dir, manifest)
        assert problems[0] == "logs: its checksum differs"
        assert problems[1].startswith("a: cannot be read")

    def test_a_file_in_place_of_a_folder_is_noticed(self, tmp_path: Path, source: Path) -> None:
        run_dir, manifest = self.collected(tmp_path, source)
        place = self.place(run_dir)
        (place / "a").unlink()
        (place / "a").mkdir()

        assert artifacts.verify_artifacts(run_dir, manifest) == ["a: its checksum differs"]

    def test_an_incomplete_collection_is_said_to_be(self, tmp_path: Path) -> None:
        manifest = ArtifactManifest(complete=False)

        assert artifacts.verify_artifacts(a_run(tmp_path), manifest) == [
            "the collection was not complete"
        ]

    def test_what_failed_or_was_missing_is_not_looked_for(
        self, tmp_path: Path, source: Path
    ) -> None:
        run_dir, manifest = self.collected(tmp_path, source)
        missing = manifest.entries[0].model_copy(update={"status": "missing", "sha256": None})

        left = manifest.model_copy(update={"entries": (missing,)})
        assert artifacts.verify_artifacts(run_dir, left) == []

    @pytest.mark.parametrize("directory", ["../elsewhere", "/etc", ""])
    def test_a_manifest_does_not_lead_out_of_the_run(
        self, directory: str, tmp_path: Path, source: Path
    ) -> None:
        run_dir, manifest = self.collected(tmp_path, source)
        moved = manifest.model_copy(update={"directory": directory})

        assert "leaves the run" in artifacts.verify_artifacts(run_dir, moved)[0]

    def test_a_destination_does_not_either(self, tmp_path: Path, source: Path) -> None:
        run_dir, manifest = self.collected(tmp_path, source)
        entry = manifest.entries[0].model_copy(update={"destination": "../x"})
        moved = manifest.model_copy(update={"entries": (entry,)})

        assert artifacts.verify_artifacts(run_dir, moved) == ["../x: its path leaves the run"]

    def test_a_file_outside_of_the_run_is_held_to_its_checksum(
        self, tmp_path: Path, source: Path
    ) -> None:
        outside = source / "a.txt"
        entry = artifacts.digest_tree(outside).entry("data", str(outside))
        manifest = ArtifactManifest(entries=(entry,))
        run_dir = a_run(tmp_path)
        assert artifacts.verify_artifacts(run_dir, manifest) == []

        outside.write_text("other")

        assert "checksum differs" in artifacts.verify_artifacts(run_dir, manifest)[0]
