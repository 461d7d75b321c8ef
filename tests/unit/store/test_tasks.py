from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentcompass.errors import RecordCorrupt, RunNotSealed
from agentcompass.models.task import TaskSpec
from agentcompass.store import layout, sealed, tasks
from tests.builders import a_task
from tests.support.store_runs import a_reserved_run, a_run

TRICKY = 'x,"question":1,"category":"no"}\n{"task_id":"z"'


def test_frozen_tasks_read_back_equal_by_their_offsets(tmp_path: Path) -> None:
    specs = [
        a_task("a", category="x"),
        TaskSpec(task_id=TRICKY, question={"question": ["é", 1.5, None]}, metadata={"k": "v"}),
        TaskSpec(task_id="漢字", env={"A": "b"}),
    ]
    run_dir = a_run(tmp_path, specs=specs)

    entries = list(tasks.entries(run_dir))

    assert [tasks.read_at(run_dir, entry.offset) for entry in entries] == specs
    assert [(entry.index, entry.task_id, entry.category) for entry in entries] == [
        (0, "a", "x"),
        (1, TRICKY, "__uncategorized__"),
        (2, "漢字", "__uncategorized__"),
    ]


def test_a_line_says_the_same_however_it_was_written(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path, specs=[a_task("a")])
    (run_dir / layout.TASKS).write_bytes(b'{"question":"What is a?","task_id":"a"}\n')
    same = TaskSpec(task_id="a", question="What is a?")

    assert tasks.is_at(run_dir, 0, same)
    assert not tasks.is_at(run_dir, 0, same.model_copy(update={"ground_truth": "A"}))


def test_an_interrupted_freeze_is_replaced_as_a_whole(tmp_path: Path) -> None:
    run_dir = a_reserved_run(tmp_path)
    tasks.freeze(run_dir, [a_task("a"), a_task("b")])

    frozen = tasks.freeze(run_dir, [a_task("c")])

    assert [entry.task_id for entry in tasks.entries(run_dir)] == ["c"]
    assert frozen == tasks.FrozenTasks(1, sealed.digest(run_dir))


def test_a_sealed_list_stays(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path, "a")

    with pytest.raises(tasks.TasksFrozen, match="is sealed"):
        tasks.freeze(run_dir, [a_task("b")])


def test_a_task_that_json_cannot_say_stops_the_freeze(tmp_path: Path) -> None:
    run_dir = a_reserved_run(tmp_path)

    with pytest.raises(TypeError):
        tasks.freeze(run_dir, [a_task("a"), TaskSpec(task_id="b", metadata={"n": 10**30})])
    assert not (run_dir / layout.TASKS).exists()


@pytest.mark.parametrize("offset", [1, 5, 10_000])
def test_an_offset_that_is_no_beginning_is_refused(offset: int, tmp_path: Path) -> None:
    run_dir = a_run(tmp_path, "a", "b")

    with pytest.raises(RecordCorrupt, match=f"byte {offset}"):
        tasks.read_at(run_dir, offset)


def test_before_the_freeze_there_is_no_list(tmp_path: Path) -> None:
    run_dir = a_reserved_run(tmp_path)

    with pytest.raises(RunNotSealed):
        tasks.read_at(run_dir, 0)
    with pytest.raises(RunNotSealed):
        list(tasks.entries(run_dir))


def test_the_list_of_a_sealed_run_does_not_just_go_missing(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    (run_dir / layout.TASKS).unlink()

    with pytest.raises(RecordCorrupt, match="is not there, and the run is sealed"):
        list(tasks.entries(run_dir))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda data: data[:-1], "line 2 is not a whole task"),
        (lambda data: data[:-10], "line 2 is not a whole task"),
        (lambda data: data + b"\n", "line 3 is not a task"),
        (lambda data: data + b"[]\n", "line 3 is not a task"),
        (lambda data: data + b'{"task_id":1,"category":null}\n', "line 3 is not a whole task"),
        (lambda data: data + b'{"task_id":"c","category":["x"]}\n', "line 3 is not a whole task"),
    ],
)
def test_a_damaged_list_is_refused_with_the_line(
    damage: Callable[[bytes], bytes], reason: str, tmp_path: Path
) -> None:
    run_dir = a_run(tmp_path, "a", "b")
    path = run_dir / layout.TASKS
    path.write_bytes(damage(path.read_bytes()))

    with pytest.raises(RecordCorrupt, match=reason):
        list(tasks.entries(run_dir))


def test_a_line_that_is_no_task_is_refused_where_it_is_read(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path, "a")
    (run_dir / layout.TASKS).write_bytes(b'{"task_id":""}\n')

    with pytest.raises(RecordCorrupt, match="byte 0: task_id"):
        tasks.read_at(run_dir, 0)


def test_a_listing_reads_the_head_of_a_line_and_not_its_question(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path, specs=[TaskSpec(task_id="a", question="q" * 1_000, category="c")])
    path = run_dir / layout.TASKS
    path.write_bytes(path.read_bytes().replace(b"qqq", b'"{['))

    (entry,) = tasks.entries(run_dir)

    assert (entry.task_id, entry.category) == ("a", "c")


def test_a_digest_tells_whether_a_task_has_the_same_content(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    changed = a_task("b").model_copy(update={"ground_truth": "5"})
    one = dict(tasks.digests(a_run(tmp_path / "one", "a", "b")))
    other = dict(tasks.digests(a_run(tmp_path / "other", specs=[changed, a_task("a")])))

    assert one.keys() == other.keys() == {"a", "b"}
    assert (one["a"] == other["a"], one["b"] == other["b"]) == (True, False)
