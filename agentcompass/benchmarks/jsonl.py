"""Benchmark `jsonl`: the user's own questions, one JSON object per line.

A line needs a prompt and an answer; which columns hold them is a parameter. The prompt is text or a
list of chat messages. The answer is text, a number, or a list of accepted ones. An id is optional:
without one, line 7 is task `line-7`, which stays the same task only as long as no line before it is
added or removed. The file is read by the coordinator only; workers take the tasks from the run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final, cast

from pydantic import AfterValidator, Field, JsonValue
from typing_extensions import override

from agentcompass.benchmarks.answers import text_of, visible
from agentcompass.benchmarks.base import Benchmark
from agentcompass.benchmarks.jsonl_file import Row, rows
from agentcompass.benchmarks.matchers import (
    MatcherName,
    Normal,
    Rules,
    judge,
    letter_of,
    to_number,
)
from agentcompass.environments.base import EnvironmentHandle
from agentcompass.models.base import Frozen, JsonObject
from agentcompass.models.metric import MetricContract, MetricDisplay, MetricSpec
from agentcompass.models.result import RunResult
from agentcompass.models.task import PreparedTask, TaskInput, TaskSpec

_PLACE: Final = re.compile(r"\{(\w+)\}")
_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _is_pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is not a regular expression: {error}") from error
    return text


class JsonlParams(Frozen):
    """Where the questions are, which columns count, and how answers are compared."""

    path: str = Field(min_length=1)
    """JSON lines, UTF-8; a name that ends in .gz is read as gzip."""
    prompt: str = "prompt"
    answer: str = "answer"
    id: str = "id"
    category: str = "category"
    choices: str = "choices"
    """Column with a list of options; they are shown below the prompt as A), B), …"""
    template: str = "{prompt}"
    """What the model is told: `{prompt}` is the prompt with its options, `{column}` any column of the
    line; a name that is no column is refused. A prompt of messages is sent as it is."""
    system_prompt: str = ""
    """Likewise, as the system prompt; "" sends none."""
    matcher: MatcherName = "exact"
    ignore_case: bool = False
    """For exact, contains and regex; choice never minds case."""
    ignore_punctuation: bool = False
    collapse_whitespace: bool = False
    absolute_tolerance: float = Field(default=0.0, ge=0)
    """For numeric: right if within this or within `relative_tolerance` of the expected value."""
    relative_tolerance: float = Field(default=1e-6, ge=0)
    answer_pattern: Annotated[str, AfterValidator(_is_pattern)] = ""
    """Regular expression; the last match's first group (or all of it) is judged instead of the whole
    answer. An answer without a match is wrong."""

    @property
    def rules(self) -> Rules:
        """How answers are compared."""
        return Rules(
            matcher=self.matcher,
            normal=Normal(self.ignore_case, self.ignore_punctuation, self.collapse_whitespace),
            absolute_tolerance=self.absolute_tolerance,
            relative_tolerance=self.relative_tolerance,
        )


class JsonlBenchmark(Benchmark[JsonlParams]):
    """Your own questions from a JSON lines file, with a choice of five matchers."""

    id = "jsonl"
    Params = JsonlParams
    contract = MetricContract(
        metrics=(
            MetricSpec(
                metric_id="correct",
                kind="binary_success",
                primary=True,
                display=MetricDisplay(label="Correct"),
            ),
        )
    )

    def __init__(self, params: JsonlParams) -> None:
        super().__init__(params)
        self._rules = params.rules

    @override
    def load_tasks(self) -> Iterable[TaskSpec]:
        """Yield a task per line, streaming.

        Raises:
            UsageError: the file cannot be read, or a line is no task; names the file and the line.
        """
        return self._tasks(Path(self.params.path))

    def _tasks(self, path: Path) -> Iterator[TaskSpec]:
        for row in rows(path):
            yield self._task(row)

    def _task(self, row: Row) -> TaskSpec:
        choices = self._choices(row)
        metadata: JsonObject = {"expected": self._expected(row, choices)}
        if choices:
            metadata["choices"] = cast("JsonValue", choices)
        if self.params.system_prompt:
            metadata["system_prompt"] = _filled(self.params.system_prompt, row.columns, row)
        return TaskSpec(
            task_id=self._task_id(row),
            question=self._question(row, choices),
            category=self._category(row),
            ground_truth=row.columns[self.params.answer],
            metadata=metadata,
        )

    def _task_id(self, row: Row) -> str:
        if self.params.id not in row.columns:
            if self.params.id != JsonlParams.model_fields["id"].default:
                raise row.problem(f"there is no id in column {self.params.id!r}")
            return f"line-{row.number}"
        value = row.columns[self.params.id]
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise row.problem(f"the id in column {self.params.id!r} is neither text nor an integer")
        task_id = str(value)
        if not task_id.strip() or task_id != task_id.strip():
            raise row.problem(f"the id {task_id!r} is empty or padded with white space")
        return task_id

    def _category(self, row: Row) -> str | None:
        value = row.columns.get(self.params.category)
        if value is None or value == "":
            return None
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise row.problem(f"the category in column {self.params.category!r} is not text")
        return str(value)

    def _choices(self, row: Row) -> list[str]:
        value = row.columns.get(self.params.choices)
        if value is None:
            return []
        if not isinstance(value, list) or not 2 <= len(value) <= len(_LETTERS):
            raise row.problem(f"{self.params.choices!r} is not a list of 2 to 26 options")
        return [text_of(option) for option in value]

    def _question(self, row: Row, choices: list[str]) -> JsonValue:
        asked = row.columns.get(self.params.prompt)
        if isinstance(asked, list) and asked and all(isinstance(m, dict) for m in asked):
            return asked
        if not isinstance(asked, str) or not asked.strip():
            raise row.problem(f"there is no prompt in column {self.params.prompt!r}")
        options = "".join(
            f"\n{letter}) {text}" for letter, text in zip(_LETTERS, choices, strict=False)
        )
        return _filled(self.params.template, {**row.columns, "prompt": asked + options}, row)

    def _expected(self, row: Row, choices: list[str]) -> JsonValue:
        """Return the accepted answers as texts that the matcher can use, at least one."""
        given = row.columns.get(self.params.answer)
        answers = given if isinstance(given, list) else [given]
        if not answers or any(a is None or isinstance(a, list | dict) for a in answers):
            raise row.problem(f"there is no answer in column {self.params.answer!r}")
        texts = [self._accepted(answer, choices) for answer in answers]
        for text in texts:
            self._check_usable(row, text, choices)
        return cast("JsonValue", texts)

    def _accepted(self, answer: JsonValue, choices: list[str]) -> str:
        is_index = isinstance(answer, int) and not isinstance(answer, bool)
        if self.params.matcher == "choice" and is_index and text_of(answer) not in choices:
            # Counted from 0, as the well-known multiple choice files do.
            index = cast("int", answer)
            return _LETTERS[index] if 0 <= index < len(_LETTERS) else str(index)
        return text_of(answer)

    def _check_usable(self, row: Row, text: str, choices: list[str]) -> None:
        problem = ""
        if self.params.matcher == "numeric" and to_number(text) is None:
            problem = "is not a number"
        elif self.params.matcher == "choice" and letter_of(text, choices) is None:
            problem = "is none of the choices"
        elif self.params.matcher == "contains" and not self._rules.normal(text):
            problem = "is empty, and every answer contains it"
        elif self.params.matcher == "regex":
            try:
                re.compile(text)
            except re.error as error:
                problem = f"is not a regular expression: {error}"
        if problem:
            raise row.problem(f"the answer {text!r} {problem}")

    @override
    def prepare(
        self,
        task: TaskSpec,
        environment: EnvironmentHandle,
    ) -> PreparedTask:
        """Hand the question over as a prompt, or as the messages that the line holds."""
        system = task.metadata.get("system_prompt")
        messages: tuple[JsonObject, ...] = ()
        if isinstance(task.question, list):
            messages = tuple(m for m in task.question if isinstance(m, dict))
        return PreparedTask(
            task_id=task.task_id,
            category=task.category,
            ground_truth=task.ground_truth,
            input=TaskInput(
                prompt="" if messages else text_of(task.question),
                system_prompt=system if isinstance(system, str) else None,
                messages=messages,
            ),
            metadata=task.metadata,
        )

    @override
    def evaluate(
        self,
        prepared: PreparedTask,
        result: RunResult,
        environment: EnvironmentHandle | None,
    ) -> RunResult:
        """Observe `correct`; no answer because of a failure is no observation."""
        if result.final_answer is None and any(issue.is_failure for issue in result.issues):
            return result
        answer = self._judged_part(visible(text_of(result.final_answer)))
        if answer is None:
            evidence: JsonObject = {"found": None, "reason": "answer_pattern does not match"}
            correct = False
        else:
            expected = cast("list[str]", prepared.metadata["expected"])
            choices = cast("list[str]", prepared.metadata.get("choices", []))
            verdict = judge(answer, expected, choices, self._rules)
            correct = verdict.correct
            evidence = {"found": verdict.found, "reason": verdict.reason}
        judged = result.observed(correct=correct)
        return judged.model_copy(update={"extra": {**result.extra, "match": evidence}})

    def _judged_part(self, answer: str) -> str | None:
        if not self.params.answer_pattern:
            return answer
        matches = list(re.finditer(self.params.answer_pattern, answer))
        if not matches:
            return None
        return matches[-1][1 if matches[-1].re.groups else 0] or ""


def _filled(template: str, columns: Mapping[str, JsonValue], row: Row) -> str:
    """Replace every `{column}`; braces around anything but a name are text."""
    unknown = [m[1] for m in _PLACE.finditer(template) if m[1] not in columns]
    if unknown:
        raise row.problem(f"the template names {{{unknown[0]}}}, and there is no such column")
    return _PLACE.sub(lambda m: text_of(columns[m[1]]), template)
