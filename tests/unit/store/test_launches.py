from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from agentcompass.errors import FormatUnknown, RecordCorrupt, RunExists, UsageError
from agentcompass.models.launch import LaunchedRequest, LaunchRecord
from agentcompass.store import launches
from agentcompass.store.reserve import adopt, is_taken, reserve
from agentcompass.store.root import ResultsRoot
from tests.builders import T0, a_request
from tests.support.store_runs import a_root

FIRST, SECOND = "20260102_030405", "20260102_030406"


def a_record(launch_id: str) -> LaunchRecord:
    one = LaunchedRequest(name="one", request=a_request(), run=f"one/{launch_id}")
    return LaunchRecord(launch_id=launch_id, name="nightly", started_at=T0, requests=(one,))


@pytest.fixture
def root(tmp_path: Path) -> ResultsRoot:
    return a_root(tmp_path)


class TestRecords:
    def test_an_id_is_published_once_and_the_next_launch_gets_the_next_second(
        self, root: ResultsRoot
    ) -> None:
        ids = [launches.publish(root, T0, a_record).launch_id for _ in range(2)]

        assert ids == [FIRST, SECOND]

    def test_an_id_whose_runs_are_there_is_passed_over(self, root: ResultsRoot) -> None:
        def record_for(launch_id: str) -> LaunchRecord | None:
            return None if launch_id == FIRST else a_record(launch_id)

        assert launches.publish(root, T0, record_for).launch_id == SECOND
        assert not launches.path_of(root.path, FIRST).exists()

    def test_what_was_written_is_read_back(self, root: ResultsRoot) -> None:
        record = launches.publish(root, T0, a_record)
        done = record.model_copy(
            update={"status": "completed", "finished_at": T0 + timedelta(hours=1)}
        )

        launches.replace(root, done)

        assert launches.load(launches.path_of(root.path, FIRST)) == (root, done)

    def test_a_record_that_is_none_is_refused(self, root: ResultsRoot, tmp_path: Path) -> None:
        launches.publish(root, T0, a_record)
        path = launches.path_of(root.path, FIRST)
        content = json.loads(path.read_bytes())

        for text, error in (
            ("{", RecordCorrupt),
            (json.dumps({**content, "schema_version": "agentcompass.launch.v9"}), FormatUnknown),
        ):
            path.write_text(text)
            with pytest.raises(error):
                launches.load(path)
        for absent in (launches.path_of(root.path, SECOND), tmp_path / ".launches" / "x.json"):
            with pytest.raises(UsageError):
                launches.load(absent)

    def test_its_place_tells_it_from_a_run(self, root: ResultsRoot) -> None:
        assert launches.is_launch(launches.path_of(root.path, FIRST))
        assert not launches.is_launch(root.path / "one" / "run_info.json")


class TestAdoption:
    def test_what_a_crash_left_of_the_same_reservation_is_taken(self, root: ResultsRoot) -> None:
        (root.path / "one" / FIRST).mkdir(parents=True)

        run_dir = adopt(root, ("one",), FIRST, T0)

        assert run_dir == root.path / "one" / FIRST
        assert (run_dir / "details" / "running").is_dir()

    def test_what_is_not_there_is_made(self, root: ResultsRoot) -> None:
        assert adopt(root, ("one",), FIRST, T0).is_dir()

    def test_a_run_is_not(self, root: ResultsRoot) -> None:
        (reserve(root, ("one",), FIRST, T0) / "run_info.json").write_text("{}")

        with pytest.raises(RunExists):
            adopt(root, ("one",), FIRST, T0)

    @pytest.mark.parametrize(
        ("run_id", "namespaces"),
        [("Night", ["one"]), ("night", ["one"]), ("a/b", []), ("other", [])],
    )
    def test_ids_are_compared_as_they_are_written_and_case_folded(
        self, root: ResultsRoot, run_id: str, namespaces: list[str]
    ) -> None:
        reserve(root, ("one",), "Night", T0)

        taken = [name for name in ("one", "two") if is_taken(root.path, (name,), run_id)]
        assert taken == namespaces
