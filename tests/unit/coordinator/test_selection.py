from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentcompass.coordinator.planning.selection import checked, selected
from agentcompass.errors import UsageError
from agentcompass.models.request import Selection
from agentcompass.models.task import TaskSpec
from tests.builders import a_task


def tasks(*ids: str) -> list[TaskSpec]:
    return [a_task(task_id) for task_id in ids]


def ids(selection: Selection, *given: str) -> list[str]:
    return [task.task_id for task in selected(tasks(*given), selection)]


class TestSelection:
    def test_without_ids_the_first_tasks_are_taken_and_no_more_are_loaded(self) -> None:
        def load() -> Iterator[TaskSpec]:
            yield from tasks("a", "b")
            raise AssertionError("read on")

        assert [t.task_id for t in selected(load(), Selection(limit=2))] == ["a", "b"]

    def test_ids_keep_the_order_in_which_they_were_asked_for(self) -> None:
        assert ids(Selection(task_ids=("c", "a")), "a", "b", "c") == ["c", "a"]

    def test_a_limit_takes_the_first_of_the_ids(self) -> None:
        assert ids(Selection(task_ids=("c", "a"), limit=1), "a", "b", "c") == ["c"]

    def test_an_unknown_id_is_named_with_the_nearest_one(self) -> None:
        with pytest.raises(UsageError, match=r"'task_1'") as caught:
            ids(Selection(task_ids=("task_1",)), "task-1", "other")

        assert "did you mean 'task-1'" in str(caught.value)

    def test_an_unknown_id_beyond_the_limit_is_still_refused(self) -> None:
        with pytest.raises(UsageError, match="'x'"):
            ids(Selection(task_ids=("a", "x"), limit=1), "a")

    def test_a_second_task_of_a_selected_id_is_found_wherever_it_stands(self) -> None:
        with pytest.raises(UsageError, match="positions 1 and 3"):
            ids(Selection(task_ids=("a",)), "a", "b", "a")

    def test_an_id_selected_twice_is_refused(self) -> None:
        with pytest.raises(UsageError, match="positions 1 and 2"):
            ids(Selection(task_ids=("a", "a")), "a")


class TestIds:
    def test_a_duplicate_names_both_positions(self) -> None:
        with pytest.raises(UsageError, match="positions 1 and 3"):
            list(checked(tasks("a", "b", "a")))

    @pytest.mark.parametrize(
        ("raw", "complaint"),
        [
            ([1, "1"], "position 1 is 1, not text .*confused with the id at position 2"),
            (["1", 1], "position 2 is 1, not text .*confused with the id at position 1"),
            ([None], "position 1 is None"),
            ([True, 1], "position 1 is True, not text"),
            (["a", ""], "position 2 is empty"),
            (["a", " b"], "position 2 is padded with white space: ' b'"),
            (["a", "b\0"], r"position 2 is one with a NUL character: 'b\\x00'"),
            (["a", " a"], "position 2 is padded .*confused with the id at position 1"),
            ([" a", "b", "a"], "position 1 is padded .*confused with the id at position 3"),
        ],
    )
    def test_what_is_no_usable_text_names_its_position(
        self, raw: list[object], complaint: str
    ) -> None:
        with pytest.raises(UsageError, match=complaint):
            list(checked({"task_id": task_id} for task_id in raw))

    def test_a_plugin_that_skips_validation_is_caught(self) -> None:
        built = [TaskSpec.model_construct(task_id=task_id) for task_id in ("a", "b ")]

        with pytest.raises(UsageError, match="position 2 is padded"):
            list(checked(built))

    def test_an_id_that_utf8_cannot_hold_is_refused(self) -> None:
        with pytest.raises(UsageError, match="not Unicode"):
            list(checked([TaskSpec.model_construct(task_id="\ud800")]))

    def test_a_plugin_that_fails_validation_while_loading_names_the_position(self) -> None:
        def load() -> Iterator[TaskSpec]:
            yield a_task("a")
            yield a_task(" padded")

        with pytest.raises(UsageError, match="task at position 2 is not valid: task_id"):
            list(checked(load()))

    def test_anything_else_than_a_task_is_refused(self) -> None:
        with pytest.raises(UsageError, match="position 1"):
            list(checked([object()]))
