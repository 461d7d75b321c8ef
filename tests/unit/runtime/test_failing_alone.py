"""Law 6: whatever an attempt does becomes its own recorded issue, in both pools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentcompass.models.request import ComponentSpec
from agentcompass.runtime.ports import Done
from agentcompass.store.check import check_run
from tests.builders import an_issue
from tests.support.delivering import QUICK, a_lab

Pool = Callable[[Callable[[], Any]], Any]


@pytest.mark.parametrize(
    ("script", "codes", "metrics"),
    [
        ("ok", [], {"correct": True}),
        ("wrong", [], {"correct": False}),
        ("warning", ["warning run stub_warning"], {"correct": True}),
        ("error", ["error run stub_failed"], {"correct": False}),
        ("fatal:model_failed", ["fatal run model_failed"], {}),
        ("partial", ["error run model_timeout"], {"correct": True}),
        ("empty", [], {"correct": False}),
        ("none", ["error run run_failed"], {"correct": False}),
        ("other_task", ["error run run_failed"], {"correct": False}),
        ("status", ["error run run_failed"], {"correct": True}),
        ("raise", ["error run run_failed"], {"correct": False}),
        ("lock", ["error run run_failed"], {"correct": False}),
        ("init", ["error run run_failed"], {"correct": False}),
        ("str", ["error run run_failed"], {"correct": False}),
        ("group", ["error run run_failed"], {"correct": False}),
        ("exit", ["error run run_failed"], {"correct": False}),
        ("interrupt", ["error run run_failed"], {"correct": False}),
        ("memory", ["error run run_failed"], {"correct": False}),
        ("cancelled", ["error run run_failed"], {"correct": False}),
        ("lambda", ["error run unwritable_value"], {"correct": True}),
        ("deep", ["error run unwritable_value"], {"correct": True}),
    ],
)
def test_what_an_agent_does_is_recorded(
    tmp_path: Path, pool: Pool, script: str, codes: list[str], metrics: dict[str, object]
) -> None:
    lab = a_lab(tmp_path, agent={"t0": script})

    assert pool(lab.deliver) == Done("published")
    assert (lab.codes(), lab.result().metrics) == (codes, metrics)
    assert pool(lambda: lab.deliver("t1")) == Done("published")
    assert (lab.codes("t1"), check_run(lab.run_dir)) == ([], [])


@pytest.mark.parametrize(
    ("script", "codes", "metrics"),
    [
        ("score:0.25", [], {"correct": True, "quality": 0.25}),
        ("bad_observation", ["error evaluate invalid_observation"] * 3, {}),
        ("no_observation", ["warning evaluate no_observation"], {}),
        ("error", ["error evaluate judge_failed"], {"quality": 0.5}),
        ("fatal", ["fatal evaluate judge_failed"], {"quality": 0.5}),
        ("none", ["error evaluate evaluate_failed"], {}),
        ("raise", ["error evaluate evaluate_failed"], {}),
        ("exit", ["error evaluate evaluate_failed"], {}),
        ("str", ["error evaluate evaluate_failed"], {}),
        ("memory", ["error evaluate evaluate_failed"], {}),
    ],
)
def test_what_an_evaluator_does_is_recorded(
    tmp_path: Path, pool: Pool, script: str, codes: list[str], metrics: dict[str, object]
) -> None:
    lab = a_lab(tmp_path, evaluator={"t0": script})

    assert pool(lab.deliver) == Done("published")
    assert (lab.codes(), lab.result().metrics) == (codes, metrics)
    assert lab.result().final_answer == "t0"
    assert pool(lambda: lab.executed("t1")).metrics == {"correct": True}


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ({"start": "raise"}, "fatal setup setup_failed"),
        ({"quiesce": "raise"}, "fatal collect artifact_transfer_failed"),
        ({"close": "raise"}, "warning cleanup cleanup_failed"),
    ],
)
def test_what_an_environment_does_is_recorded(
    tmp_path: Path, pool: Pool, script: dict[str, str], code: str
) -> None:
    lab = a_lab(tmp_path, environment=script)

    assert pool(lab.deliver) == Done("published")
    assert code in lab.codes()
    assert lab.ran("environment close") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "limits", "code"),
    [
        ({"start": "hang"}, {"setup_timeout_s": 0.3}, "fatal setup setup_failed"),
        ({"quiesce": "hang"}, {"collect_timeout_s": 0.3}, "fatal collect artifact_transfer_failed"),
    ],
)
def test_set_up_and_collection_end_at_deadlines_of_their_own(
    tmp_path: Path, pool: Pool, script: dict[str, str], limits: dict[str, float], code: str
) -> None:
    lab = a_lab(tmp_path, environment=script, deadlines=QUICK.model_copy(update=limits))

    assert pool(lab.deliver) == Done("published")

    assert lab.codes() == [code]
    assert "0.3 s" in lab.result().error
    assert lab.ran("evaluator") == 0


@pytest.mark.parametrize("script", ["raise", "none", "other_task"])
def test_a_benchmark_that_prepares_wrongly_is_recorded(
    tmp_path: Path, pool: Pool, script: str
) -> None:
    lab = a_lab(tmp_path, benchmark="WrongStubBenchmark", evaluator={"prepare": script})

    assert pool(lab.deliver) == Done("published")

    assert lab.codes() == ["fatal setup setup_failed"]
    assert (lab.ran("agent"), lab.ran("environment close")) == (0, 1)


def test_an_evaluation_environment_that_does_not_start_is_an_error(
    tmp_path: Path, pool: Pool
) -> None:
    bad = {"id": "tests.support.stubs:StubEnvironment", "params": {"script": {"start": "raise"}}}
    lab = a_lab(tmp_path, mode="fresh", plan_update={"evaluation_environment": bad})

    pool(lab.deliver)

    assert (lab.codes(), lab.result().metrics) == (["error evaluate evaluate_failed"], {})


def test_an_async_agent_awaits_its_environment(tmp_path: Path, pool: Pool) -> None:
    lab = a_lab(tmp_path, agent={"t0": "run:echo t0"}, harness="AsyncStubHarness", host=True)

    pool(lab.deliver)

    assert lab.result().final_answer == "t0\n"


def test_what_an_async_agent_leaves_in_the_loop_does_not_write_on(
    tmp_path: Path, pool: Pool
) -> None:
    ticks = tmp_path / "ticks"
    lab = a_lab(tmp_path, agent={"t0": f"stray:{ticks}"}, harness="AsyncStubHarness")

    pool(lab.deliver)
    before = ticks.read_bytes() if ticks.exists() else b""
    pool(lambda: lab.deliver("t1"))

    assert (ticks.read_bytes() if ticks.exists() else b"") == before


def test_an_environment_that_fails_under_the_agent_is_fatal(tmp_path: Path, pool: Pool) -> None:
    lab = a_lab(tmp_path, agent={"t0": "run:make"}, environment={"exec": "raise"})

    pool(lab.deliver)

    assert lab.codes() == ["fatal run environment_failed"]
    assert lab.result().error == "RuntimeError: the environment broke"
    assert lab.ran("evaluator") == 0


SHORT_RUN = QUICK.model_copy(update={"run_timeout_s": 0.3})
SHORT_EVALUATION = QUICK.model_copy(update={"evaluate_timeout_s": 0.3})


@pytest.mark.parametrize("harness", ["StubHarness", "AsyncStubHarness"])
def test_an_agent_past_its_deadline_is_still_evaluated(
    tmp_path: Path, pool: Pool, harness: str
) -> None:
    scores = {"t0": "score:0.8"}
    hangs = {"t0": "hang"}
    lab = a_lab(tmp_path, agent=hangs, evaluator=scores, deadlines=SHORT_RUN, harness=harness)

    pool(lab.deliver)

    assert lab.codes() == ["error run run_timeout"]
    assert lab.result().metrics == {"correct": True, "quality": 0.8}
    assert lab.result().status == "run_error"


def test_an_evaluator_past_its_deadline_leaves_no_value(tmp_path: Path, pool: Pool) -> None:
    lab = a_lab(tmp_path, evaluator={"t0": "hang"}, deadlines=SHORT_EVALUATION)

    pool(lab.deliver)

    assert lab.codes() == ["error evaluate evaluation_timeout"]
    assert (lab.result().metrics, lab.result().final_answer) == ({}, "t0")


def test_the_keeper_is_told_each_phases_deadline_with_some_grace(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, deadlines=QUICK)

    lab.deliver()

    reasons = [reason for _, reason in lab.keeper.deadlines]
    assert reasons[:3] == ["setup_timeout", "run_timeout", "collect_timeout"]
    assert lab.keeper.deadlines[-1][0] == float("inf")
    assert lab.keeper.executions[0].attempt_dir.parent.parent.name == "running"


def test_one_bad_task_in_a_worker_does_not_spoil_the_next(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, evaluator={"t0": "raise"}, k=2)

    codes = [lab.executed(task, n).status for n in (1, 2) for task in ("t0", "t1")]

    assert codes == ["eval_error", "completed", "eval_error", "completed"]


def test_five_attempts_give_five_answers(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, agent={"*": "nonce"}, k=5)

    answers = {str(lab.executed("t0", n).final_answer) for n in range(1, 6)}

    assert len(answers) == 5


def test_a_harness_free_benchmark_acts_itself(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, benchmark="HarnessFreeStub")

    assert lab.executed().metrics == {"correct": True}


def test_planning_that_failed_is_recorded_and_nothing_is_executed(tmp_path: Path) -> None:
    failure = an_issue("fatal", "setup", "setup_failed", "no GPU")
    lab = a_lab(tmp_path, plan_update={"failure": failure})

    lab.deliver()

    assert (lab.codes(), lab.ran("agent")) == (["fatal setup setup_failed"], 0)


def test_analyzers_look_at_the_result_and_their_failure_is_a_warning(tmp_path: Path) -> None:
    name = "tests.support.stubs:StubAnalyzer"
    good, bad = ComponentSpec(id=name), ComponentSpec(id=name, params={"script": {"*": "raise"}})
    lab = a_lab(tmp_path, plan_update={"analyzers": (good, bad)})

    lab.deliver()

    assert lab.result().analysis_result == {"stub": {"characters": 2}}
    assert lab.codes() == ["warning evaluate analyzer_failed"]
