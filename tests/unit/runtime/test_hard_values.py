"""Values that are hard to write (field reports P02, P09, P10, P13), from the agent to the disk."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest

from agentcompass.models.result import RunResult
from agentcompass.models.task import PreparedTask
from agentcompass.models.trajectory import AssistantContent, Step, StepMetric, Trajectory
from agentcompass.runtime.normalize import Problem
from agentcompass.runtime.values.cleaning import (
    INLINE_LIMIT,
    clean_prepared,
    clean_result,
    shortened,
    unwritable,
)
from agentcompass.store.check import check_run
from agentcompass.store.records import compact, json_object
from tests.support.delivering import Lab, a_lab


def strict(lab: Lab) -> object:
    """Read `result.json` as strictly as it can be done: no NaN, no duplicate key, valid UTF-8."""

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        assert len({key for key, _ in pairs}) == len(pairs)
        return dict(pairs)

    data = (lab.attempt_dir() / "result.json").read_bytes().decode("utf-8")
    return json.loads(data, parse_constant=pytest.fail, object_pairs_hook=unique)


def extra(lab: Lab) -> object:
    return lab.result().meta.benchmark["odd"]


def test_text_that_utf8_cannot_hold_is_written_by_the_marked_rule(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, agent={"t0": "surrogate"})

    lab.deliver()

    assert lab.result().final_answer == "a\\udc00b\0\u2028\ufeff"
    assert (strict(lab) is not None, lab.codes()) == (True, [])


def test_what_is_not_finite_becomes_null_and_costs_nothing(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, agent={"t0": "nan"})

    lab.deliver()

    assert (extra(lab), lab.codes()) == ({"x": [None, None]}, [])
    assert strict(lab) is not None


def test_number_like_values_are_written_by_the_table(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, agent={"t0": "odd"})

    lab.deliver()

    assert extra(lab) == {
        "decimal": 0.5,
        "when": "2026-01-02T00:00:00+00:00",
        "path": "/a",
        "set": [1, 2],
        "colour": "red",
        "bytes": "\\udcff!",
        "large": 1e30,
    }


def test_what_cannot_be_written_costs_an_error_with_its_path_and_nothing_else(
    tmp_path: Path,
) -> None:
    lab = a_lab(tmp_path, agent={"t0": "lambda"})

    lab.deliver()

    assert lab.result().error == (
        "extra.odd.fn: a function cannot be written as JSON (null was written)"
    )
    assert (extra(lab), lab.result().metrics) == ({"fn": None, "kept": 1}, {"correct": True})


def test_long_evidence_is_cut_with_a_marker_and_the_answer_is_not(tmp_path: Path) -> None:
    answer = "y" * (INLINE_LIMIT + 1)
    lab = a_lab(tmp_path, agent={"t0": "huge", "t1": f"answer:{answer}"})

    lab.deliver("t0")
    lab.deliver("t1")

    assert len(str(extra(lab))) <= INLINE_LIMIT
    assert sha256(b"x" * 3_000_000).hexdigest() in str(extra(lab))
    assert lab.result("t1").final_answer == answer
    assert check_run(lab.run_dir) == []


def test_text_of_just_the_limit_is_whole() -> None:
    text = "x" * INLINE_LIMIT

    assert shortened(text) is text
    assert len(shortened(text + "x")) <= INLINE_LIMIT


def test_a_trajectory_may_hold_what_tools_report() -> None:
    step = Step(
        step_id=1,
        observation={"x": [float("nan")]},
        metric=StepMetric(llm_infer_ms=float("inf")),
        assistant_content=AssistantContent(content="a\udc00"),
    )

    found, problems = clean_result(RunResult(task_id="t", trajectory=Trajectory(steps=(step,))))

    assert found.trajectory is not None
    cleaned = found.trajectory.steps[0]
    assert cleaned.observation == {"x": [None]}
    assert (cleaned.metric.llm_infer_ms, cleaned.assistant_content.content) == (None, "a\\udc00")
    assert problems == []


def test_a_clean_trajectory_is_not_copied() -> None:
    trajectory = Trajectory(steps=(Step(step_id=1, observation="é"),))

    found, _ = clean_result(RunResult(task_id="t", trajectory=trajectory))

    assert found.trajectory is trajectory


def test_a_prepared_task_is_cleaned_and_never_cut() -> None:
    long = "x" * (INLINE_LIMIT + 1)

    found = clean_prepared(PreparedTask(task_id="t", metadata={"a": "\udc00", "long": long}))

    assert found.metadata == {"a": "\\udc00", "long": long}


@pytest.mark.timeout(300)
@pytest.mark.slow
def test_ten_megabytes_on_a_line_and_a_million_keys_survive_the_round_trip(tmp_path: Path) -> None:
    answer, keys = "line without an end " * 500_000, {f"key-{n}": n for n in range(10**6)}
    found, problems = clean_result(RunResult(task_id="t", final_answer=answer, telemetry=keys))
    path = tmp_path / "record.json"
    path.write_bytes(compact({"answer": found.final_answer, "telemetry": found.telemetry}))

    read = json_object(path.read_bytes(), path)

    assert problems == []
    assert (read["answer"] == answer, read["telemetry"] == keys) == (True, True)


def test_only_the_first_problems_are_told_one_by_one() -> None:
    issues = unwritable([Problem(f"extra[{n}]", "no") for n in range(30)], "run")

    assert len(issues) == 11
    assert issues[-1].message == "and 20 more values that cannot be written"
