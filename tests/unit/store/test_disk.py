"""Looking at a lock without taking it."""

from __future__ import annotations

from pathlib import Path

from agentcompass.store import atomic, disk


def test_a_lock_is_seen_while_it_is_held_and_the_file_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "lock"

    assert not disk.is_locked(path)
    with atomic.lock(path):
        assert disk.is_locked(path)
    path.chmod(0o400)
    assert not disk.is_locked(path)
    assert path.read_bytes() == b""
