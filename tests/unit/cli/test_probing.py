from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from agentcompass.cli import probing
from agentcompass.coordinator.control import pause
from agentcompass.coordinator.ports import PendingAttempt
from agentcompass.coordinator.reuse.choose import Activity
from agentcompass.coordinator.runs import opened
from agentcompass.errors import BrokerUnreachable
from agentcompass.store import atomic, disk
from tests.fakes.queue import FakeQueue
from tests.unit.cli.conftest import Shell
from tests.unit.cli.test_reuse import run_dir_of


class TestProbing:
    def test_a_lock_that_cannot_be_read_leaves_it_open(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuses(_: Path) -> bool:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(disk, "is_locked", refuses)

        found = probing.probe_with(None)(tmp_path, "embedded")

        assert (found.state, "Permission denied" in found.why) == ("unknown", True)

    def test_the_lock_of_an_embedded_broker_is_looked_at_and_not_taken(
        self, tmp_path: Path
    ) -> None:
        probe = probing.probe_with(None)

        assert probe(tmp_path, "embedded") == Activity("idle")
        assert list(tmp_path.iterdir()) == []
        with atomic.lock(tmp_path / ".broker") as is_ours:
            assert is_ours
            assert probe(tmp_path, "embedded").state == "live"
        assert probe(tmp_path, "embedded").state == "idle"

    def test_a_broker_is_asked_what_it_holds(
        self, shell: Shell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shell.run("--run-id", "one")
        run_dir = run_dir_of(shell, "one")
        queue = FakeQueue()
        monkeypatch.setattr(probing, "open_queue", lambda url: queue)
        run = opened(run_dir)

        idle = probing.probe_with(None)(run_dir, "redis://host")
        queue.resend(run.address, 1, [PendingAttempt(0, 1, "a")])
        live = probing.probe_with(None)(run_dir, "redis://host")

        assert idle.state == "idle"
        assert (live.state, live.why) == ("live", "its broker redis://host holds 1 of its attempts")

    def test_of_a_paused_run_only_what_executes_counts(
        self, shell: Shell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shell.run("--run-id", "one")
        run_dir = run_dir_of(shell, "one")
        pause(run_dir, reason="night", by="me@here", at=datetime.now(UTC))
        queue = FakeQueue()
        monkeypatch.setattr(probing, "open_queue", lambda url: queue)
        queue.resend(opened(run_dir).address, 1, [PendingAttempt(0, 1, "a")])
        ask = probing.probe_with(None)

        queued = ask(run_dir, "redis://host")
        queue.leased.add((0, 1))
        leased = ask(run_dir, "redis://host")

        assert (queued.state, leased.state) == ("idle", "live")

    def test_one_that_does_not_answer_or_wants_a_password_leaves_it_open(
        self, shell: Shell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shell.run("--run-id", "one")
        run_dir = run_dir_of(shell, "one")

        def refuses(url: str) -> FakeQueue:
            raise BrokerUnreachable(url, "connection refused")

        monkeypatch.setattr(probing, "open_queue", refuses)

        silent = probing.probe_with(None)(run_dir, "redis://host")
        masked = probing.probe_with(None)(run_dir, "redis://********@host")

        assert (silent.state, masked.state) == ("unknown", "unknown")
        assert "credentials" in masked.why

    def test_a_run_in_no_results_folder_is_nobodys_work(self, tmp_path: Path) -> None:
        assert probing.probe_with("redis://host")(tmp_path, "").state == "idle"
