"""Field reports R21 and U14: what is matched by what, and why a run is not gone on with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentcompass.coordinator.reuse.choose import Activity
from agentcompass.store import attempts
from agentcompass.store.check import check_run
from tests.builders import a_result
from tests.support import golden_runs as theirs
from tests.unit.cli.conftest import Shell
from tests.unit.cli.test_reuse import probes, run_dir_of
from tests.unit.cli.test_reuse_refused import spoiled

TASKS = tuple("abcdefghij")


@pytest.mark.parametrize("ids", [TASKS[::-1], TASKS[:4] + TASKS[7:], TASKS[8:0:-2]], ids="".join)
def test_r21_results_belong_to_task_ids_whatever_their_place(
    shell: Shell, ids: tuple[str, ...]
) -> None:
    """Every other task is solved; the source was stopped after six of them."""
    shell.queue.result_for = lambda task, number, leg: a_result(
        task, number, leg=leg, metrics={"correct": TASKS.index(task) % 2 == 0}
    )
    shell.run("--run-id", "one", ids=TASKS)
    source = run_dir_of(shell, "one")
    for task_id in TASKS[6:]:
        next(source.glob(f"details/normal/{task_id}--*/attempt-1/result.json")).unlink()
    shell.queue.executed.clear()

    shell.run("--run-id", "two", "--reuse-run-id", "one", "--json", ids=ids)

    assert shell.queue.executed == [(task_id, 1) for task_id in ids if task_id in TASKS[6:]]
    two = run_dir_of(shell, "two")
    for task_id in ids:
        path = attempts.result_of(two, task_id, 1)
        assert path is not None
        result = attempts.load_result(path)
        assert (result.task_id, result.metrics["correct"]) == (
            task_id,
            TASKS.index(task_id) % 2 == 0,
        )
    report = json.loads((two / "metrics.json").read_bytes())
    assert report["series"][0]["counts"]["total"] == len(ids)
    assert check_run(two) == []


def another_writers_run(shell: Shell) -> Path:
    run_dir = shell.results / "space" / "theirs"
    theirs.their_run_info(run_dir, "t")
    return run_dir


def test_u14_each_refusal_has_a_word_of_its_own_and_names_where(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.run("--run-id", "one", "-k", "2")
    one = run_dir_of(shell, "one")
    assert shell.run("--run-id", "live", "-k", "2") == 0
    live = run_dir_of(shell, "live")
    next(live.glob("details/normal/b--*/attempt-1/result.json")).unlink()
    probes(monkeypatch, {"live": Activity("live", "its broker holds 1 of its attempts")})
    foreign = another_writers_run(shell)

    refusals = {
        "attempts_differ": (("run", "--reuse-run-id", str(one), "-k", "3"), "k"),
        "field_frozen": (("resume", str(one), "-k", "3"), "execution.attempts"),
        "source_live": (("run", "--reuse-run-id", str(live), "-k", "2"), "live"),
        "other_writer": (("resume", str(foreign)), str(foreign)),
    }
    for code, (arguments, where) in refusals.items():
        command, *more = arguments
        call = shell.run if command == "run" else lambda *given: shell("resume", *given)
        assert call(*more, "--json") == 2, code
        assert f"[{code}]" in shell.err, code
        assert where in shell.err, code

    spoiled(one, "result.json", "a")
    assert shell.run("--reuse-run-id", str(one), "-k", "2") == 2
    assert "[record_corrupt]" in shell.err
    assert "result.json" in shell.err


def test_u14_of_several_those_that_are_refused_are_all_listed(shell: Shell, tmp_path: Path) -> None:
    shell.run("--run-id", "one")
    one = run_dir_of(shell, "one")
    foreign, nothing = another_writers_run(shell), tmp_path / "nothing"

    assert shell("resume", str(foreign), str(one), str(nothing), "--json") == 2

    refused = [each for each in shell.objects() if each["event"] == "refused"]
    assert [(each["path"], each["code"]) for each in refused] == [
        (str(foreign), "other_writer"),
        (str(nothing), "run_not_found"),
    ]
    assert all(f"{path} is not resumed" in shell.err for path in (foreign, nothing))
