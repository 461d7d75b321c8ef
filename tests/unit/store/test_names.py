from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcompass.models.request import ComponentSpec, ModelSpec, OutputSettings
from agentcompass.store import layout, names
from tests.builders import a_request


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("model-a", "model-a"),
        ("org/name:tag?*|", "org_name_tag___"),
        ("a b", "a_b"),
        ("", "_"),
        (".", "_"),
        ("..", "_."),
        ("../x", "_._x"),
        (".agentcompass-root", "_agentcompass-root"),  # hidden names are ours
        ("C:\\x", "C__x"),
        ("a\x00b\n", "a_b_"),
        ("-rf", "-rf"),
        ("température", "temp_rature"),
    ],
)
def test_a_component_is_made_safe(text: str, safe: str) -> None:
    assert names.safe_component(text) == safe


@given(st.text(max_size=600))
def test_any_text_gives_one_visible_component_of_at_most_255_bytes(text: str) -> None:
    safe = names.safe_component(text)

    assert 1 <= len(safe.encode()) <= 255
    assert not safe.startswith(".")
    assert "/" not in safe


def test_texts_that_are_cut_stay_distinct() -> None:
    one, other = names.safe_component("m" * 400 + "1"), names.safe_component("m" * 400 + "2")

    assert one != other
    assert len(one) == len(other) == 255


@given(st.text(min_size=1, max_size=300).filter(lambda text: text.strip() == text))
def test_any_task_id_has_a_directory_that_reads_back_as_one(task_id: str) -> None:
    dirname = names.task_dirname(task_id)

    assert layout.is_task_dirname(dirname)
    assert len(dirname.encode()) <= 146


@pytest.mark.parametrize(
    ("task_id", "readable"),
    [
        ("task/with spaces é", "task_with_spaces"),
        ("...", "task"),
        ("漢字", "task"),
        ("a" * 300, "a" * 80),
        ("../../etc/passwd", "etc_passwd"),
        ("HumanEval/0", "HumanEval_0"),
    ],
)
def test_the_readable_part_of_a_task_id(task_id: str, readable: str) -> None:
    assert names.readable(task_id) == readable
    assert names.task_dirname(task_id).startswith(f"{readable}--")


def test_ids_that_look_alike_have_different_directories() -> None:
    alike = ["a b", "a/b", "a_b", "1", "1 "]

    assert len({names.task_dirname(task_id) for task_id in alike}) == len(alike)


def test_a_run_lies_under_its_name_and_what_it_evaluates() -> None:
    request = a_request().model_copy(
        update={
            "model": ModelSpec(id="org/m1"),
            "harness": ComponentSpec(id="none"),
            "output": OutputSettings(run_name="nightly/a b"),
        }
    )

    assert names.namespace_of(request) == ("nightly", "a_b", "org_m1_bench_none")
    assert names.namespace_of(request, "my request") == ("nightly", "a_b", "my_request")


def test_a_long_model_id_leaves_room_in_a_message() -> None:
    request = a_request().model_copy(update={"model": ModelSpec(id="m" * 400)})

    (level,) = names.namespace_of(request)

    assert len(level) == names.NAMESPACE_BYTES


@pytest.mark.parametrize(
    ("token", "is_one"),
    [("a" * 32, True), ("A_b-9", True), ("", False), ("a/b", False), ("a.b", False)],
)
def test_a_token_can_be_part_of_a_file_name(token: str, *, is_one: bool) -> None:
    assert names.is_token(token) is is_one


@pytest.mark.parametrize(
    ("name", "mark"),
    [
        ("started-abc.json", ("started", "abc", None)),
        ("closed-abc.handed_back.json", ("closed", "abc", "handed_back")),
        ("killed-abc.json", ("killed", "abc", None)),
        ("result.json", None),
        (".tmp-started-abc.json", None),
    ],
)
def test_marks_are_told_by_their_names(name: str, mark: tuple[str, str, str | None] | None) -> None:
    assert layout.mark_of(name) == mark


@pytest.mark.parametrize(
    ("recorded", "mapped"),
    [
        ("details/running/T/attempt-1/artifacts/x", "details/error/T/attempt-1/artifacts/x"),
        ("details/normal/T/attempt-1", "details/error/T/attempt-1"),
        ("details/running/U/attempt-1", "details/running/U/attempt-1"),  # another task's
        ("details/gone/T/attempt-1", "details/gone/T/attempt-1"),
        ("said: details/running/T/", "said: details/running/T/"),
    ],
)
def test_paths_of_a_task_follow_it_and_nothing_else_does(recorded: str, mapped: str) -> None:
    assert layout.with_state(recorded, "T", "error") == mapped


@pytest.mark.parametrize("name", ["attempt-0", "attempt-01", "attempt-", "attempt-1x", "x"])
def test_other_names_are_no_attempts(name: str) -> None:
    assert layout.attempt_number(name) is None


def test_numbers_read_back_from_their_names() -> None:
    assert layout.attempt_number(layout.attempt_dirname(12)) == 12
    assert layout.control_number(layout.control_name(12)) == 12
    assert layout.control_number(layout.control_name(12_345)) == 12_345
    assert layout.control_number("0001.json.bak") is None
