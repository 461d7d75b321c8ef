from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from agentcompass.errors import FormatUnknown, RecordCorrupt
from agentcompass.models.result import AttemptOutcome, AttemptResult
from agentcompass.models.trajectory import Step, Trajectory
from agentcompass.store import results
from tests.builders import T0, a_result, an_issue

TEXT = 'a line\n,\n"trajectory": {} \u2028 é "quoted"'
LONG = Trajectory(steps=(Step(step_id=1, user_content=TEXT * 5_000),), started_at=T0)


def a_full_result(**changes: object) -> AttemptResult:
    issues = (an_issue("warning"), an_issue("error", "evaluate", "evaluate_failed"))
    full = a_result(issues=issues, metrics={"correct": False, "score": 0.25, "n": 3})
    return full.model_copy(update={"trajectory": LONG, "final_answer": TEXT, **changes})


def written(tmp_path: Path, result: AttemptResult) -> Path:
    path = tmp_path / "result.json"
    path.write_bytes(results.to_bytes(result))
    return path


def test_a_result_reads_back_equal(tmp_path: Path) -> None:
    result = a_full_result()
    path = written(tmp_path, result)

    assert results.load_result(path) == result
    assert results.load_without_trajectory(path) == result.model_copy(update={"trajectory": None})
    assert results.load_outcome(path) == results.head_of(result)


def test_the_file_is_plain_json_with_the_trajectory_last(tmp_path: Path) -> None:
    fields = orjson.loads(written(tmp_path, a_full_result()).read_bytes())

    assert list(fields)[-1] == "trajectory"
    always = {"status", "metrics", "final_answer", "error", "issues", "artifacts"}
    assert always | {"analysis_result", "meta", "retry_count"} <= set(fields)


def test_fields_of_a_later_writer_are_kept_before_the_trajectory(tmp_path: Path) -> None:
    later = AttemptResult.model_validate({**a_result().model_dump(), "more": [1]})
    path = written(tmp_path, later)

    assert results.to_bytes(results.load_result(path)) == path.read_bytes()
    assert results.load_outcome(path).token == later.token


@pytest.mark.parametrize("size", [0, 100, 32_768, 70_000, 200_000])
def test_a_head_of_any_size_is_found(size: int, tmp_path: Path) -> None:
    result = a_full_result(final_answer="x" * size)

    assert results.load_outcome(written(tmp_path, result)) == results.head_of(result)


def test_a_head_is_read_without_the_trajectory(tmp_path: Path) -> None:
    path = written(tmp_path, a_full_result())
    data = path.read_bytes()
    at = data.index(results.SPLIT) + 1_000
    path.write_bytes(data[:at] + b"\xff" + data[at + 1 :])

    assert results.load_outcome(path).status == "eval_error"
    with pytest.raises(RecordCorrupt):
        results.load_result(path)


@pytest.mark.parametrize("part", range(20))
def test_a_file_cut_anywhere_is_refused_by_name(part: int, tmp_path: Path) -> None:
    path = written(tmp_path, a_full_result())
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * part // 20])

    for load in (results.load_outcome, results.load_result, results.load_without_trajectory):
        with pytest.raises(RecordCorrupt, match=r"result\.json"):
            load(path)


@pytest.mark.parametrize("length", range(1, 40))
def test_a_file_that_lost_its_end_is_refused(length: int, tmp_path: Path) -> None:
    path = written(tmp_path, a_result())
    path.write_bytes(path.read_bytes()[:-length])

    with pytest.raises(RecordCorrupt, match="not whole"):
        results.load_outcome(path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"correct":true', b'"correct":NaN'),
        (b'"correct":true', b'"correct":"yes"'),
        (b'"correct":true', b'"correct":1e999'),
        (b'"status":"completed"', b'"status":"done"'),
        (b'"leg":1', b'"leg":"1"'),
    ],
)
def test_a_head_that_is_not_one_is_refused(old: bytes, new: bytes, tmp_path: Path) -> None:
    path = written(tmp_path, a_result())
    path.write_bytes(path.read_bytes().replace(old, new))

    with pytest.raises(RecordCorrupt):
        results.load_outcome(path)


def test_a_newer_format_is_refused_by_name(tmp_path: Path) -> None:
    path = written(tmp_path, a_result())
    path.write_bytes(path.read_bytes().replace(b"attempt_result.v1", b"attempt_result.v7"))

    for load in (results.load_outcome, results.load_result):
        with pytest.raises(FormatUnknown, match=r"attempt_result\.v7"):
            load(path)


def test_a_missing_result_is_missing_and_a_link_is_not_followed(tmp_path: Path) -> None:
    written(tmp_path, a_result())
    (tmp_path / "link").symlink_to("result.json")

    with pytest.raises(FileNotFoundError):
        results.load_outcome(tmp_path / "gone")
    with pytest.raises(OSError, match="symbolic"):
        results.load_outcome(tmp_path / "link")


def test_a_skipped_attempt_says_so() -> None:
    skipped = a_result(metrics={}).model_copy(update={"status": "skipped"})

    assert results.head_of(skipped).outcome == AttemptOutcome(metrics={}, skipped=True)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
    | st.integers(-(2**63), 2**64 - 1),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)  # fmt: skip


@given(JSON)
def test_any_answer_comes_back_as_it_was(answer: JsonValue) -> None:
    result = a_result().model_copy(update={"final_answer": answer})
    data = results.to_bytes(result)

    head, trajectory = results.split(data, Path("x"))

    assert data.count(b"\n") == 2
    assert results.join(head, trajectory) == data
    assert orjson.loads(head)["final_answer"] == answer


class TestOtherWriters:
    def read(self, tmp_path: Path, **fields: object) -> AttemptResult:
        path = tmp_path / "result.json"
        path.write_bytes(orjson.dumps(fields, option=orjson.OPT_INDENT_2))
        assert results.load_outcome(path).outcome.issues == results.load_result(path).issues
        assert results.load_without_trajectory(path).trajectory is None
        return results.load_result(path)

    def test_a_result_without_identity_is_read(self, tmp_path: Path) -> None:
        result = self.read(
            tmp_path,
            status="completed",
            metrics={"correct": True, "tokens": 10.0},
            final_answer="42",
            trajectory={
                "schema_version": "ACTF_v1.0",
                "steps": [{"step_id": 1, "started_at": "2026-01-02 03:04:05.5"}],
                "started_at": "2026-01-02T03:04:05Z",
            },
            issues=[],
            artifacts={},
            analysis_result={"A": {"score": 1}},
            meta={"benchmark": {}, "harness": {"telemetry": {"n": 1}}},
            retry_count=2,
        )

        assert (result.task_id, result.attempt, result.leg, result.token) == ("", 0, 1, "")
        assert (result.retry_count, result.is_terminal) == (2, True)
        assert result.trajectory is not None
        assert result.trajectory.steps[0].started_at is not None

    @pytest.mark.parametrize("trajectory", [{}, None, "text"])
    def test_an_empty_trajectory_is_none(self, trajectory: object, tmp_path: Path) -> None:
        result = self.read(tmp_path, status="completed", trajectory=trajectory, meta=None)

        assert result.trajectory is None

    @pytest.mark.parametrize(
        ("status", "error", "phases"),
        [
            ("run_error", "boom\nat line 3", ["run"]),
            ("eval_error", "boom", ["evaluate"]),
            ("run_error_or_eval_error", "boom", ["run", "evaluate"]),
            ("run_error", "", ["run"]),
            ("completed", "boom", ["run"]),
            ("completed", "", []),
            ("skipped", "", []),
        ],
    )
    def test_a_failure_that_nobody_classified_is_an_error(
        self, status: str, error: str, phases: list[str], tmp_path: Path
    ) -> None:
        result = self.read(tmp_path, status=status, error=error)

        assert [issue.phase for issue in result.issues] == phases
        assert all(issue.code == "unclassified" for issue in result.issues)

    def test_issues_of_theirs_are_taken_as_they_are(self, tmp_path: Path) -> None:
        issue = {"severity": "fatal", "phase": "run", "code": "Env-Failed!", "message": "gone"}

        (read,) = self.read(tmp_path, status="run_error", issues=[issue]).issues

        assert (read.severity, read.code, read.message) == ("fatal", "env_failed_", "gone")

    @pytest.mark.parametrize("status", ["cancelled", "interrupted"])
    def test_what_was_stopped_is_no_end(self, status: str, tmp_path: Path) -> None:
        assert not self.read(tmp_path, status=status).is_terminal

    @pytest.mark.parametrize(
        "fields", [{"status": "odd"}, {"metrics": {"a": "x"}}, {"issues": ["text"]}]
    )
    def test_what_is_no_result_is_refused_by_name(
        self, fields: dict[str, object], tmp_path: Path
    ) -> None:
        with pytest.raises(RecordCorrupt, match=r"result\.json"):
            self.read(tmp_path, **{"status": "completed", **fields})
