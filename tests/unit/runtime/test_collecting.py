"""Declared artifacts: copied, digested, restored; and what a missing or broken one means."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcompass.models.plan import EvaluationMode
from agentcompass.models.task import ArtifactRequest, TaskSpec
from agentcompass.runtime.ports import Done
from agentcompass.store import attempts
from agentcompass.store.check import check_run
from tests.support.delivering import Lab, a_lab


def a_task(*requests: ArtifactRequest) -> TaskSpec:
    return TaskSpec(task_id="t0", ground_truth="t0", artifacts=requests)


def entries(lab: Lab) -> list[tuple[str, str]]:
    manifest = lab.result().artifacts["manifest"]
    assert isinstance(manifest, dict)
    found = manifest["entries"]
    assert isinstance(found, list)
    return [(str(each["source"]), str(each["status"])) for each in found if isinstance(each, dict)]


def collected(lab: Lab) -> dict[str, bytes]:
    files = [path for path in lab.attempt_dir().glob("artifacts/*/**/*") if path.is_file()]
    return {path.name: path.read_bytes() for path in files}


def test_declared_files_and_folders_are_collected_and_named_by_the_result(tmp_path: Path) -> None:
    requests = [ArtifactRequest(path="out.txt"), ArtifactRequest(path="d", command="echo made")]
    make = "mkdir d; echo a > out.txt; echo b > d/b; ln -s /etc/passwd d/link; ln -s b d/near"
    lab = a_lab(tmp_path, agent={"t0": f"run:{make}"}, task_specs=[a_task(*requests)], host=True)

    lab.deliver()

    assert entries(lab) == [("out.txt", "collected"), ("d", "collected")]
    assert collected(lab) == {"1-out.txt": b"a\n", "b": b"b\n", "near": b"b\n"}
    assert check_run(lab.run_dir) == []


@pytest.mark.parametrize(
    ("script", "required", "codes"),
    [
        ("missing", False, []),
        ("missing", True, ["error collect artifact_missing"]),
        ("unreadable", False, ["warning collect artifact_unreadable"]),
        ("unreadable", True, ["fatal collect artifact_transfer_failed"]),
        ("raise", False, ["fatal collect artifact_transfer_failed"]),
    ],
)
def test_an_artifact_that_cannot_be_had_means_what_its_kind_says(
    tmp_path: Path, script: str, codes: list[str], *, required: bool
) -> None:
    task = a_task(ArtifactRequest(path="x/out.txt", required=required))
    lab = a_lab(tmp_path, environment={"download": script}, task_specs=[task])

    lab.deliver()

    assert lab.codes() == codes
    assert all("x/out.txt" in each.message for each in lab.result().issues)
    assert (lab.ran("evaluator") == 0) == (bool(codes) and codes[0].startswith("fatal"))


def test_a_command_that_fails_is_a_broken_transfer(tmp_path: Path) -> None:
    task = a_task(ArtifactRequest(path="out", command="echo no room >&2; exit 3"))
    lab = a_lab(tmp_path, task_specs=[task], host=True)

    lab.deliver()

    assert lab.codes() == ["fatal collect artifact_transfer_failed"]
    assert "no room" in lab.result().error


def test_a_full_disk_at_the_collection_is_the_attempts_error_and_not_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(attempts, "collect_tree", refuse)
    lab = a_lab(tmp_path, task_specs=[a_task(ArtifactRequest(path="out.txt"))])

    assert lab.deliver() == Done("published")
    assert lab.codes() == ["fatal collect artifact_transfer_failed"]
    assert "No space left on device" in lab.result().error
    assert lab.ran("agent") == 1


@pytest.mark.parametrize("mode", ["reuse", "fresh"])
def test_an_evaluation_finds_what_the_agent_left(tmp_path: Path, mode: EvaluationMode) -> None:
    lab = a_lab(
        tmp_path,
        agent={"t0": "run:mkdir sub; echo 42 > sub/answer"},
        evaluator={"t0": "run:grep -q 42 sub/answer"},
        mode=mode,
        task_specs=[a_task(ArtifactRequest(path="sub"))],
        host=True,
    )

    assert lab.executed().metrics == {"correct": True}


def test_a_fresh_evaluation_does_not_see_what_was_not_declared(tmp_path: Path) -> None:
    lab = a_lab(
        tmp_path,
        agent={"t0": "run:echo 42 > answer"},
        evaluator={"t0": "run:test -e answer"},
        mode="fresh",
        task_specs=[a_task()],
        host=True,
    )

    assert lab.executed().metrics == {"correct": False}


def test_what_an_agent_forks_does_not_write_once_it_is_over(tmp_path: Path) -> None:
    writer = "(setsid sh -c 'while :; do echo x >> log; sleep 0.01; done' &)"
    began = "until test -s log; do sleep 0.01; done"
    grade = "a=$(wc -c < log); sleep 0.3; b=$(wc -c < log); test $a = $b && test $a -gt 0"
    lab = a_lab(
        tmp_path,
        agent={"t0": f"run:{writer}; {began}"},
        evaluator={"t0": f"run:{grade}"},
        mode="reuse",
        task_specs=[a_task(ArtifactRequest(path="log"))],
        host=True,
    )

    assert lab.executed().metrics == {"correct": True}
    assert check_run(lab.run_dir, deep=True) == []


def test_files_that_nobody_may_read_are_collected_and_removed(tmp_path: Path) -> None:
    lab = a_lab(
        tmp_path,
        agent={"t0": "run:mkdir -p d/e; echo a > d/e/f; chmod 000 d/e/f d/e d"},
        task_specs=[a_task(ArtifactRequest(path="d"))],
        host=True,
    )

    lab.deliver()

    assert (collected(lab), lab.codes()) == ({"f": b"a\n"}, [])
    assert list((tmp_path / "work").iterdir()) == []
