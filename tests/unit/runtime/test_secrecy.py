"""No live secret in anything that is written; nothing else is altered."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from agentcompass.models.task import ArtifactRequest, TaskSpec
from agentcompass.runtime.ports import Done, HandBack
from tests.support.delivering import a_lab

CANARY = "canary-7f3a9b2c4d5e6f708192a3b4"
ENVIRON = {"STUB_KEY": CANARY, "PATH": "/usr/bin:/bin"}
CONTENT = "password=swordfish; token: abc; api_key: missing"


def canaries(folder: Path) -> list[Path]:
    runs = [CANARY[at : at + 12].encode() for at in range(len(CANARY) - 11)]
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if any(run in path.read_bytes() for run in runs)]


def test_a_secret_in_an_exception_and_its_cause_is_masked(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, agent={"t0": "secret"}, environ=ENVIRON)

    assert lab.deliver() == Done("published")

    assert lab.codes() == ["error run run_failed", "warning cleanup secret_masked"]
    assert lab.result().error == "ValueError: Invalid header value b'Bearer ********\\n'"
    assert "ConnectionError" in str(lab.result().artifacts["execution_diagnostics"])
    assert canaries(tmp_path / "results") == []


def test_the_verdict_is_made_before_the_masking(tmp_path: Path) -> None:
    text = f"my key is {CANARY}, it starts with {CANARY[:14]}"
    task = TaskSpec(task_id="t0", ground_truth=text)
    lab = a_lab(tmp_path, agent={"t0": "says_secret"}, environ=ENVIRON, task_specs=[task])

    lab.deliver()

    assert lab.result().metrics == {"correct": True}
    assert lab.result().final_answer == "my key is ********, it starts with ********"


def test_an_evaluation_from_a_snapshot_sees_the_secret_that_the_snapshot_does_not_hold(
    tmp_path: Path,
) -> None:
    text = f"my key is {CANARY}, it starts with {CANARY[:14]}"
    task = TaskSpec(task_id="t0", ground_truth=text)
    lab = a_lab(tmp_path, agent={"t0": "says_secret"}, environ=ENVIRON, task_specs=[task])
    lab.keeper.stop_at, lab.keeper.stop_reason = "evaluation_timeout", "handed_back"
    assert isinstance(lab.deliver(), HandBack)
    lab.keeper.stop_at = None

    held = [path.name for path in canaries(lab.attempt_dir())]

    assert (held, lab.executed().metrics, lab.ran("agent")) == ([], {"correct": True}, 1)


def test_content_that_only_looks_like_a_secret_is_not_altered(tmp_path: Path) -> None:
    task = TaskSpec(task_id="t0", ground_truth=CONTENT)
    lab = a_lab(tmp_path, environ=ENVIRON, task_specs=[task])

    result = lab.executed()

    assert (result.final_answer, result.metrics, result.issues) == (CONTENT, {"correct": True}, ())
    assert (
        f'"ground_truth":"{CONTENT}"'.encode() in next(lab.run_dir.rglob("task.json")).read_bytes()
    )


def test_telemetry_is_redacted_by_name(tmp_path: Path) -> None:
    result = a_lab(tmp_path).executed()

    assert result.meta.harness == {"telemetry": {"input_tokens": 3, "session_token": "********"}}


@pytest.mark.parametrize("content", ["text", "binary"])
def test_a_collected_text_file_is_masked_before_its_checksum_is_taken(
    tmp_path: Path, content: str
) -> None:
    head = "" if content == "text" else "\\0"
    command = f"printf '{head}key=%s\\n' $STUB_KEY > out.txt"
    task = TaskSpec(
        task_id="t0",
        env={"STUB_KEY": "${STUB_KEY}"},
        artifacts=(ArtifactRequest(path="out.txt"),),
    )
    lab = a_lab(
        tmp_path, agent={"t0": f"run:{command}"}, environ=ENVIRON, task_specs=[task], host=True
    )

    lab.deliver()

    collected = next(lab.attempt_dir().glob("artifacts/*/*")).read_bytes()
    assert collected == (
        b"key=********\n" if content == "text" else b"\0key=" + CANARY.encode() + b"\n"
    )


def test_a_secret_that_the_worker_lacks_is_fatal_and_names_its_variable(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, environ=ENVIRON)
    lab.site = replace(lab.site, environ={})

    lab.deliver()

    assert lab.codes() == ["fatal setup secret_missing"]
    assert "STUB_KEY" in lab.result().error
    assert lab.ran("agent") == 0


def test_what_a_plug_in_logs_is_masked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lab = a_lab(tmp_path, agent={"t0": "logs_secret"}, environ=ENVIRON)

    with caplog.at_level(logging.INFO):
        lab.deliver()

    assert "the key is ******** indeed" in caplog.text
    assert CANARY not in caplog.text
    assert str(caplog.records[0].__dict__["attempt"]).endswith(":t0:a1")
