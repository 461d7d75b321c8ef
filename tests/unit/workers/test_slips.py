from __future__ import annotations

from pathlib import Path

from workers.keeping import slips
from workers.keeping.slips import Deadline, OpenSlip, Sheet, Slip


def a_slip(token: str, task_id: str = "task-1") -> Slip:
    return Slip(
        token=token,
        lease="lease:1",
        holder="{}",
        task_id=task_id,
        attempt=1,
        leg=1,
        run_dir="/run",
        attempt_dir="/run/a",
        owner=1,
        owner_started=2,
        pid=1,
        pid_started=2,
    )


def test_one_file_serves_the_executions_of_a_process_one_after_the_other(tmp_path: Path) -> None:
    blank: list[Sheet] = []
    first = OpenSlip(tmp_path, a_slip("a", "a task with a long name"), blank)
    first.until(12.5, "run_timeout")
    assert list(slips.read_all(tmp_path)) == [
        (a_slip("a", "a task with a long name"), Deadline(12.5, "run_timeout"))
    ]

    first.close()
    assert list(slips.read_all(tmp_path)) == []
    second = OpenSlip(tmp_path, a_slip("b"), blank)

    assert list(slips.read_all(tmp_path)) == [(a_slip("b"), None)]
    assert len(list(tmp_path.iterdir())) == 1
    second.close()


def test_a_sheet_of_the_parent_is_not_written_on(tmp_path: Path) -> None:
    others = tmp_path / "others"
    others.write_bytes(b"")
    blank = [Sheet(descriptor=-1, owner=-1)]

    OpenSlip(tmp_path, a_slip("a"), blank).close()

    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "others"]


def test_of_a_line_that_is_half_old_and_half_new_nothing_is_believed(tmp_path: Path) -> None:
    slip = OpenSlip(tmp_path, a_slip("a"))
    path = tmp_path / "a"
    slip.until(999.0, "run_timeout")
    old = path.read_bytes()
    slip.until(1000.0, "evaluation_timeout")
    new = path.read_bytes()
    whole = {Deadline(999.0, "run_timeout"), Deadline(1000.0, "evaluation_timeout")}

    for cut in range(len(new) + 1):
        for torn in (new[:cut] + old[cut:], new[:cut]):
            path.write_bytes(torn)
            found = {deadline for _, deadline in slips.read_all(tmp_path)}
            assert found <= whole
