"""`ls` and `show`: many runs in a line each, and one of them in full."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentcompass.cli.main import main
from agentcompass.models.trajectory import AssistantContent, Step, StepMetric, Trajectory
from agentcompass.store.overview import overview
from tests.builders import a_result, an_issue
from tests.support.store_runs import a_run, begin, publish

STEP = Step(
    step_id=1,
    user_content="2 + 2?",
    assistant_content=AssistantContent(content="4\x1b[2J", reasoning_content="x" * 3_000),
    metric=StepMetric(prompt_tokens_len=7, stop_reason="stop"),
)


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    run_dir = a_run(tmp_path, "task-1", "task-2")
    result = a_result(issues=[an_issue(message="it broke")]).model_copy(
        update={"trajectory": Trajectory(steps=(STEP,))}
    )
    assert publish(run_dir, begin(run_dir), result)
    return run_dir


class TestLs:
    def test_a_run_is_one_line_with_what_is_done_and_what_is_planned(
        self, run_dir: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["ls", str(run_dir.parents[1])]) == 0

        (_, line) = capsys.readouterr().out.splitlines()
        assert "running" in line
        assert "1/2" in line
        assert run_dir.name in line

    def test_a_run_that_cannot_be_read_is_listed_with_the_reason(
        self, run_dir: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (run_dir / "run_info.json").write_bytes(b"{")

        assert main(["ls", "--json", str(run_dir.parents[1])]) == 1

        found = json.loads(capsys.readouterr().out)
        assert found["state"] == "unreadable"
        assert found["problem"]
        assert found["value"] is None

    def test_a_layout_without_attempt_directories_has_no_count_instead_of_none_done(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "details").mkdir()
        (tmp_path / "details" / "task-1.json").write_bytes(b"{}")
        (tmp_path / "run_info.json").write_bytes(b'{"status": "completed"}')

        assert overview(tmp_path).attempts_done is None

    def test_a_folder_that_is_none_is_a_mistake(self, tmp_path: Path) -> None:
        assert main(["ls", str(tmp_path / "nowhere")]) == 2


class TestShow:
    def test_a_run_shows_every_task_and_what_is_missing(
        self, run_dir: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["show", str(run_dir)]) == 0

        lines = capsys.readouterr().out.splitlines()
        assert "task-1  correct=true [run_failed]" in lines
        assert "task-2  –" in lines

    def test_an_attempt_shows_its_steps_cut_and_without_terminal_controls(
        self, run_dir: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["show", str(run_dir), "task-1", "1"]) == 0

        out = capsys.readouterr().out
        assert "ERROR run run_failed: it broke" in out
        assert "step 1  (7 tokens in, stop)" in out
        assert "1,000 more characters" in out
        assert "\x1b" not in out

    def test_full_cuts_nothing(self, run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["show", str(run_dir), "task-1", "1", "--full"]) == 0

        assert "x" * 3_000 in capsys.readouterr().out

    def test_an_unknown_task_is_answered_with_the_nearest_one(
        self, run_dir: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["show", str(run_dir), "tsk-1"]) == 2

        assert "did you mean 'task-1'?" in capsys.readouterr().err
