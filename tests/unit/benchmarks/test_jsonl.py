from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from pydantic import JsonValue, ValidationError

from agentcompass.benchmarks.jsonl import JsonlBenchmark, JsonlParams
from agentcompass.errors import UsageError
from agentcompass.models.issue import Issue
from agentcompass.models.result import RunResult
from agentcompass.models.task import PreparedTask, TaskSpec
from tests.support.process_environment import ProcessEnvironment


def a_file(folder: Path, *rows: dict[str, JsonValue] | str) -> Path:
    path = folder / "questions.jsonl"
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def tasks_of(path: Path, **params: JsonValue) -> list[TaskSpec]:
    benchmark = JsonlBenchmark(JsonlParams.model_validate({"path": str(path), **params}))
    return list(benchmark.load_tasks())


def prepared(task: TaskSpec) -> PreparedTask:
    return JsonlBenchmark(JsonlParams(path="x")).prepare(task, ProcessEnvironment(Path()))


def judged(
    folder: Path, row: dict[str, JsonValue], answer: object, **params: JsonValue
) -> RunResult:
    path = a_file(folder, row)
    task = prepared(tasks_of(path, **params)[0])
    path.unlink()  # a worker does not have it
    benchmark = JsonlBenchmark(JsonlParams.model_validate({"path": str(path), **params}))
    return benchmark.evaluate(task, RunResult(task_id="t", final_answer=answer), None)


class TestLoading:
    def test_columns_become_a_task(self, tmp_path: Path) -> None:
        row: dict[str, JsonValue] = {
            "id": "q1",
            "prompt": "2+2?",
            "answer": "4",
            "category": "sums",
        }

        (task,) = tasks_of(a_file(tmp_path, row))

        assert (task.task_id, task.question, task.category) == ("q1", "2+2?", "sums")
        assert task.ground_truth == "4"

    def test_columns_may_have_other_names(self, tmp_path: Path) -> None:
        row: dict[str, JsonValue] = {"n": 7, "question": "2+2?", "gold": 4, "topic": "sums"}

        (task,) = tasks_of(
            a_file(tmp_path, row), id="n", prompt="question", answer="gold", category="topic"
        )

        assert (task.task_id, task.category, task.ground_truth) == ("7", "sums", 4)

    def test_without_ids_the_line_number_counts_blank_lines_too(self, tmp_path: Path) -> None:
        row: dict[str, JsonValue] = {"prompt": "?", "answer": "!"}

        assert [t.task_id for t in tasks_of(a_file(tmp_path, row, "", row))] == ["line-1", "line-3"]

    def test_a_template_takes_any_column(self, tmp_path: Path) -> None:
        row: dict[str, JsonValue] = {"prompt": "2+2?", "answer": "4", "hint": "{even}"}

        (task,) = tasks_of(
            a_file(tmp_path, row), template="{prompt} ({hint})", system_prompt="Hint: {hint}"
        )

        assert task.question == "2+2? ({even})"
        assert prepared(task).input.system_prompt == "Hint: {even}"

    def test_choices_are_shown_with_letters(self, tmp_path: Path) -> None:
        row: dict[str, JsonValue] = {"prompt": "Which?", "choices": ["x", 2], "answer": "B"}

        assert tasks_of(a_file(tmp_path, row), matcher="choice")[0].question == "Which?\nA) x\nB) 2"

    def test_a_prompt_may_be_a_conversation(self, tmp_path: Path) -> None:
        messages: JsonValue = [{"role": "user", "content": "2+2?"}]

        (task,) = tasks_of(a_file(tmp_path, {"prompt": messages, "answer": "4"}))

        assert list(prepared(task).input.messages) == messages

    def test_gzip_and_a_byte_order_mark_are_read(self, tmp_path: Path) -> None:
        path = tmp_path / "questions.jsonl.gz"
        path.write_bytes(gzip.compress(b'\xef\xbb\xbf{"prompt": "?", "answer": "!"}\n'))

        assert len(tasks_of(path)) == 1

    def test_lines_are_streamed(self, tmp_path: Path) -> None:
        path = a_file(tmp_path, {"prompt": "?", "answer": "!"}, "not JSON")
        tasks = iter(JsonlBenchmark(JsonlParams(path=str(path))).load_tasks())

        assert next(tasks).task_id == "line-1"

    @pytest.mark.parametrize(
        ("row", "problem"),
        [
            ("{", "not JSON"),
            ("[]", "not a JSON object"),
            ('{"prompt":' * 5_000 + "1" + "}" * 5_000, "more than 100 levels deep"),
            ('{"prompt": "?", "prompt": "?"}', "'prompt' is given twice"),
            ('{"prompt": "?", "answer": NaN}', "NaN is not JSON"),
            ({"answer": "!"}, "no prompt in column 'prompt'"),
            ({"prompt": " ", "answer": "!"}, "no prompt in column 'prompt'"),
            ({"prompt": "?"}, "no answer in column 'answer'"),
            ({"prompt": "?", "answer": []}, "no answer in column 'answer'"),
            ({"prompt": "?", "answer": None}, "no answer in column 'answer'"),
            ({"prompt": "?", "answer": "!", "id": " x"}, "padded"),
            ({"prompt": "?", "answer": "!", "id": True}, "neither text nor an integer"),
            ({"prompt": "?", "answer": "!", "category": {}}, "category"),
            ({"prompt": "?", "answer": "!", "choices": "ab"}, "list of 2 to 26"),
        ],
    )
    def test_a_bad_line_is_named_with_its_problem(
        self, row: dict[str, JsonValue] | str, problem: str, tmp_path: Path
    ) -> None:
        path = a_file(tmp_path, {"prompt": "?", "answer": "!"}, row)

        with pytest.raises(UsageError, match=problem) as caught:
            tasks_of(path)
        assert caught.value.where == f"{path}:2"
        assert len(str(caught.value).splitlines()) <= 5

    @pytest.mark.parametrize(
        ("matcher", "answer", "problem"),
        [
            ("numeric", "four", "is not a number"),
            ("regex", "(", "is not a regular expression"),
            ("choice", "C", "is none of the choices"),
            ("choice", 7, "is none of the choices"),
            ("contains", "", "every answer contains it"),
        ],
    )
    def test_an_answer_that_the_matcher_cannot_use_is_refused(
        self, matcher: str, answer: JsonValue, problem: str, tmp_path: Path
    ) -> None:
        row: dict[str, JsonValue] = {"prompt": "?", "answer": answer, "choices": ["a1", "b1"]}

        with pytest.raises(UsageError, match=problem):
            tasks_of(a_file(tmp_path, row), matcher=matcher)

    def test_a_template_that_names_no_column_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"\{hint\}"):
            tasks_of(a_file(tmp_path, {"prompt": "?", "answer": "!"}), template="{hint}")

    def test_a_named_id_column_must_be_there(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="no id in column 'key'"):
            tasks_of(a_file(tmp_path, {"prompt": "?", "answer": "!"}), id="key")

    @pytest.mark.parametrize(
        ("content", "problem"),
        [(None, "No such file"), (b"\n \n", "no question"), (b'{"prompt": "\xff"}', "not UTF-8")],
    )
    def test_an_unusable_file_is_named(
        self, content: bytes | None, problem: str, tmp_path: Path
    ) -> None:
        path = tmp_path / "questions.jsonl"
        if content is not None:
            path.write_bytes(content)

        with pytest.raises(UsageError, match=problem) as caught:
            tasks_of(path)
        assert str(path) in caught.value.where

    def test_a_folder_is_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="cannot be read"):
            tasks_of(tmp_path)


class TestEvaluating:
    def test_an_answer_is_judged_without_the_file(self, tmp_path: Path) -> None:
        result = judged(tmp_path, {"prompt": "?", "answer": ["4", "four"]}, "four")

        assert result.metrics == {"correct": True}

    def test_reasoning_is_not_judged(self, tmp_path: Path) -> None:
        row: dict[str, JsonValue] = {"prompt": "?", "answer": "4"}

        result = judged(tmp_path, row, "<think>4?</think>5", matcher="contains")

        assert result.metrics == {"correct": False}

    def test_a_number_is_compared_as_a_number(self, tmp_path: Path) -> None:
        row: dict[str, JsonValue] = {"prompt": "?", "answer": 1234}

        assert judged(tmp_path, row, "1,234.0", matcher="numeric").metrics == {"correct": True}

    def test_a_choice_may_be_an_index_from_0(self, tmp_path: Path) -> None:
        row: dict[str, JsonValue] = {"prompt": "?", "choices": ["x", "y"], "answer": 1}

        assert judged(tmp_path, row, "Answer: B", matcher="choice").metrics == {"correct": True}

    def test_only_what_the_pattern_finds_is_judged(self, tmp_path: Path) -> None:
        row: dict[str, JsonValue] = {"prompt": "?", "answer": "4"}

        result = judged(tmp_path, row, "Answer: 3\nAnswer: 4", answer_pattern=r"Answer: (\d+)")

        assert result.metrics == {"correct": True}

    def test_an_answer_that_cannot_be_parsed_is_wrong_and_says_why(self, tmp_path: Path) -> None:
        row: dict[str, JsonValue] = {"prompt": "?", "answer": "4"}

        result = judged(tmp_path, row, "no idea", matcher="numeric")

        assert result.metrics == {"correct": False}
        assert result.extra["match"] == {"found": None, "reason": "no number in the answer"}

    @pytest.mark.parametrize("answer", ["", None, [], {"x": 1}])
    def test_an_odd_answer_is_wrong_and_nothing_breaks(
        self, answer: object, tmp_path: Path
    ) -> None:
        result = judged(tmp_path, {"prompt": "?", "answer": "4"}, answer)

        assert result.metrics == {"correct": False}

    def test_no_answer_because_of_a_failure_is_no_observation(self, tmp_path: Path) -> None:
        (task,) = tasks_of(a_file(tmp_path, {"prompt": "?", "answer": "4"}))
        issue = Issue(severity="error", phase="run", code="model_timeout", message="late")

        result = JsonlBenchmark(JsonlParams(path="x")).evaluate(
            prepared(task), RunResult(task_id="t", issues=(issue,)), None
        )

        assert result.metrics == {}


def test_a_broken_answer_pattern_is_refused_before_anything_runs() -> None:
    with pytest.raises(ValidationError, match="not a regular expression"):
        JsonlParams(path="x", answer_pattern="(")
