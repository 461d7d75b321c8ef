"""What dead executions left outside of their machine's processes, told by notes in their folders."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agentcompass.environments.base import OUTSIDE
from workers.keeping import leftovers

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    for token in ("dead", "alive"):
        (folder / token).touch()
        (tmp_path / "work" / f"{token}.environment-0").mkdir(parents=True)
    monkeypatch.setenv("TEST_OUTSIDE", str(folder))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return folder


def note(work: Path, token: str, text: str) -> None:
    (work / f"{token}.environment-0" / OUTSIDE).write_text(text, encoding="utf-8")


def test_only_what_the_dead_left_is_removed(outside: Path, tmp_path: Path) -> None:
    for token in ("dead", "alive"):
        note(tmp_path / "work", token, "tests.support.outside:OutsideEnvironment")

    leftovers.clear(tmp_path / "work", ["dead", "other"])

    assert [path.name for path in outside.iterdir()] == ["alive"]


def test_without_a_note_no_process_is_started(
    outside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", None)

    leftovers.clear(tmp_path / "work", ["dead"])


def test_a_failure_is_a_line_in_the_log(
    outside: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    note(tmp_path / "work", "dead", "tests.support.outside:NoSuchEnvironment")

    leftovers.clear(tmp_path / "work", ["dead"])

    assert "is not removed" in caplog.text


def test_a_note_that_cannot_be_read_any_more_is_passed_over(outside: Path, tmp_path: Path) -> None:
    note(tmp_path / "work", "dead", "tests.support.outside:OutsideEnvironment")
    gone = tmp_path / "work" / "dead.environment-1" / OUTSIDE
    gone.mkdir(parents=True)

    leftovers.clear(tmp_path / "work", ["dead"])

    assert [path.name for path in outside.iterdir()] == ["alive"]
