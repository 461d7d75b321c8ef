from __future__ import annotations

from pathlib import Path

import pytest

from agentcompass.store.check import check_run
from tests.unit.cli.conftest import Shell
from tests.unit.cli.test_reuse import run_dir_of


class TestRefusing:
    def test_r23_a_malformed_neighbour_is_no_concern_of_a_fresh_run(self, shell: Shell) -> None:
        shell.run("--run-id", "one")
        spoiled(run_dir_of(shell, "one"), "checkpoint.json", "a")

        assert shell.run("--run-id", "two") == 0

    @pytest.mark.parametrize("name", ["result.json", "task.json", "checkpoint.json"])
    def test_every_malformed_record_is_named_and_nothing_is_reserved(
        self, shell: Shell, name: str
    ) -> None:
        shell.run("--run-id", "one", ids=("a", "b", "c"))
        broken = spoiled(run_dir_of(shell, "one"), name, "a", "b")

        assert shell.run("--reuse", ids=("a", "b", "c")) == 2

        assert all(str(path) in shell.err for path in broken)
        assert "[record_corrupt]" in shell.err
        assert "Traceback" not in shell.err
        assert len(list(shell.results.rglob("run_info.json"))) == 1

    @pytest.mark.parametrize("name", ["result.json", "task.json", "checkpoint.json"])
    def test_skipping_them_runs_exactly_their_tasks_again(self, shell: Shell, name: str) -> None:
        shell.run("--run-id", "one", ids=("a", "b", "c"))
        spoiled(run_dir_of(shell, "one"), name, "a", "b")
        shell.queue.executed.clear()

        assert shell.run("--reuse", "--skip-malformed", "--run-id", "two", ids=("a", "b", "c")) == 0

        assert shell.queue.executed == [("a", 1), ("b", 1)]
        assert check_run(run_dir_of(shell, "two")) == []

    def test_a_malformed_run_info_is_named(self, shell: Shell) -> None:
        shell.run("--run-id", "one")
        (run_dir_of(shell, "one") / "run_info.json").write_text('{"schema')

        assert shell.run("--reuse") == 2
        assert "run_info.json" in shell.err
        assert shell.run("--reuse", "--skip-malformed") == 0
        assert "passed over one" in shell.err

    def test_json_gives_the_reason_a_code(self, shell: Shell) -> None:
        shell.run("--run-id", "one")

        shell.run("--reuse", "--json", "-k", "2")

        refused = shell.objects()[0]
        assert (refused["event"], refused["code"]) == ("refused", "attempts_differ")


def spoiled(run_dir: Path, name: str, *task_ids: str) -> list[Path]:
    """Cut records short, in the middle."""
    paths = []
    for task_id in task_ids:
        task = next(run_dir.glob(f"details/*/{task_id}--*"))
        path = task / name if name == "task.json" else task / "attempt-1" / name
        data = path.read_bytes() if path.exists() else b'{"schema_version": "agent'
        path.write_bytes(data[: len(data) // 2])
        paths.append(path)
    return paths
