from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from agentcompass.store import disk, marks
from agentcompass.store.marks import KillNote, Marks
from tests.builders import T0
from tests.support.store_runs import a_mark


def read(directory: Path, *, without: str = "") -> Marks:
    return marks.read(str(directory), disk.names(directory), without=without)


def test_a_mark_reads_back_open_and_without_our_own(tmp_path: Path) -> None:
    marks.put(str(tmp_path), a_mark("one"))
    marks.put(str(tmp_path), a_mark("ours"))

    assert read(tmp_path, without="ours").marks == (a_mark("one"),)


def test_marks_come_in_the_order_of_their_beginnings(tmp_path: Path) -> None:
    later = marks.StartMark("a", "w", 2, T0 + timedelta(seconds=1), alone=True)
    marks.put(str(tmp_path), later)
    marks.put(str(tmp_path), a_mark("b"))

    assert read(tmp_path).marks == (a_mark("b"), later)


def test_a_known_end_closes_a_mark(tmp_path: Path) -> None:
    marks.put(str(tmp_path), a_mark("one"))

    marks.close(tmp_path, "one", "handed_back")
    marks.close(tmp_path, "one", "cancelled")  # the first end stays
    marks.close(tmp_path, "gone", "cancelled")

    (mark,) = read(tmp_path).marks
    assert (mark.token, mark.closed) == ("one", "handed_back")


def test_a_mark_that_was_cut_short_is_open_and_accuses_nobody(tmp_path: Path) -> None:
    (tmp_path / "started-one.json").write_text("")
    (tmp_path / "started-two.json").write_text('{"token": "two", "wor')
    (tmp_path / "started-three.json").write_text("[]")

    found = read(tmp_path).marks

    assert [(mark.leg, mark.alone, mark.closed) for mark in found] == [(0, False, None)] * 3


def test_a_kill_note_closes_its_mark_and_is_handed_on(tmp_path: Path) -> None:
    marks.put(str(tmp_path), a_mark("one", leg=2))

    marks.leave_kill_note(tmp_path, "one", "run_timeout", "after 60 s")

    found = read(tmp_path)
    assert found.kill_note == KillNote("one", "run_timeout", "after 60 s", leg=2)
    assert found.marks[0].closed == "run_timeout"


def test_the_latest_note_counts(tmp_path: Path) -> None:
    for number, reason in enumerate(["cancelled", "run_timeout"]):
        marks.leave_kill_note(tmp_path, f"z{-number}", reason, "")
        os.utime(tmp_path / f"killed-z{-number}.json", ns=(number, number))

    note = read(tmp_path).kill_note
    assert note is not None
    assert (note.reason, note.leg) == ("run_timeout", 0)


def test_our_own_note_is_not_for_us(tmp_path: Path) -> None:
    marks.leave_kill_note(tmp_path, "ours", "run_timeout", "")

    assert read(tmp_path, without="ours") == Marks((), None)


def test_a_note_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "killed-one.json").write_text("{")

    assert read(tmp_path).kill_note is None


def test_a_note_for_a_directory_that_was_moved_is_not_needed(tmp_path: Path) -> None:
    marks.leave_kill_note(tmp_path / "gone", "one", "run_timeout", "")

    assert list(tmp_path.iterdir()) == []


def test_a_mark_that_vanishes_while_it_is_read_is_open(tmp_path: Path) -> None:
    (mark,) = marks.read(str(tmp_path), ["started-one.json"]).marks

    assert (mark.token, mark.closed) == ("one", None)
