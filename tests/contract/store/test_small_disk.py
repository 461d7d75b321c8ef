"""A real disk of two megabytes that fills up in the middle of a run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from errno import ENOSPC
from pathlib import Path

import pytest

from agentcompass.store import attempts
from agentcompass.store.check import check_run
from tests.builders import a_result
from tests.support.store_runs import a_run, begin, publish, write_report

BIG = "x" * 700_000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if sys.platform != "linux":
        pytest.skip("needs a file system in memory")
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("may not mount a file system here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_what_fits_stays_and_what_does_not_can_be_done_again(small_disk: Path) -> None:
    ids = ("a", "b", "c")
    run_dir = a_run(small_disk, *ids)
    results = [a_result(name).model_copy(update={"final_answer": BIG}) for name in ids]
    for name, result in zip(ids[:2], results, strict=False):
        publish(run_dir, begin(run_dir, name), result)
    view = begin(run_dir, "c")

    with pytest.raises(OSError, match="No space left") as caught:
        publish(run_dir, view, results[2])

    assert caught.value.errno == ENOSPC
    assert check_run(run_dir) == []
    assert [attempts.is_published(run_dir, name, 1) for name in ids] == [True, True, False]
    small = a_result("c")  # after somebody freed space, or a smaller answer
    assert publish(run_dir, begin(run_dir, "c", token="again"), small)
    assert write_report(run_dir).status == "completed"
    assert check_run(run_dir) == []
