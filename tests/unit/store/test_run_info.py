from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import orjson
import pytest

from agentcompass.errors import FormatUnknown, RecordCorrupt, RunNotFound, RunNotSealed, UsageError
from agentcompass.models.run_info import RunInfo
from agentcompass.store import filing, layout, run_info, scan, tasks
from tests.builders import T0, a_result, a_run_info, a_task, an_issue
from tests.support.store_runs import (
    a_reserved_run,
    a_run,
    decide,
    execute,
    write_report,
)


def raw(run_dir: Path) -> bytes:
    return (run_dir / layout.RUN_INFO).read_bytes()


class TestPlanning:
    def test_what_is_sealed_reads_back_equal(self, tmp_path: Path) -> None:
        run_dir = a_reserved_run(tmp_path)
        frozen = tasks.freeze(run_dir, [a_task()])
        info = a_run_info(run_id=run_dir.name)
        info = info.model_copy(update={"tasks_sha256": frozen.sha256})

        sealed = run_info.seal(run_dir, info, T0)

        assert sealed.sealed_at == T0
        assert run_info.load(run_dir) == sealed

    def test_sealing_twice_is_sealing_once(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        sealed = run_info.load(run_dir)

        assert run_info.seal(run_dir, sealed, T0 + timedelta(days=1)) == sealed

    def test_a_seal_of_other_tasks_is_refused(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        other = run_info.load(run_dir).model_copy(update={"tasks_sha256": "f" * 64})

        with pytest.raises(run_info.SealedOtherwise, match="another coordinator"):
            run_info.seal(run_dir, other, T0)

    def test_a_task_file_that_is_not_the_one_named_is_not_sealed(self, tmp_path: Path) -> None:
        run_dir = a_reserved_run(tmp_path)
        tasks.freeze(run_dir, [a_task("other")])
        info = a_run_info(run_id=run_dir.name).model_copy(update={"tasks_sha256": "f" * 64})

        with pytest.raises(run_info.SealedOtherwise):
            run_info.seal(run_dir, info, T0)
        assert run_info.load(run_dir).sealed_at is None

    def test_a_run_is_planned_by_one_coordinator_at_a_time(self, tmp_path: Path) -> None:
        run_dir = a_reserved_run(tmp_path)

        second = run_info.planning(run_dir)
        with run_info.planning(run_dir), pytest.raises(UsageError, match="planning this run"):
            second.__enter__()
        with run_info.planning(run_dir):
            pass

    def test_params_name_what_is_evaluated(self, tmp_path: Path) -> None:
        params = orjson.loads((a_run(tmp_path, k=3) / layout.PARAMS).read_bytes())

        assert sorted(params) == ["benchmark", "execution", "model", "output"]
        assert params["execution"] == {"attempts": {"k": 3, "strategy": "avg"}}


class TestLoading:
    def test_without_the_file_there_is_no_run(self, tmp_path: Path) -> None:
        with pytest.raises(RunNotFound):
            run_info.load(tmp_path / "gone")

    def test_an_unsealed_run_holds_no_work(self, tmp_path: Path) -> None:
        run_dir = a_reserved_run(tmp_path)

        with pytest.raises(RunNotSealed):
            run_info.load_sealed(run_dir)
        with pytest.raises(RunNotSealed):
            run_info.refresh(run_dir)

    @pytest.mark.parametrize("length", [0, 1, 10, 200])
    def test_a_torn_file_is_refused_by_name(self, length: int, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        (run_dir / layout.RUN_INFO).write_bytes(raw(run_dir)[:length])

        with pytest.raises(RecordCorrupt, match="run_info"):
            run_info.load(run_dir)

    def test_a_newer_format_is_refused_by_name(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        newer = raw(run_dir).replace(b"run_info.v3", b"run_info.v4")
        (run_dir / layout.RUN_INFO).write_bytes(newer)

        with pytest.raises(FormatUnknown, match=r"run_info\.v4"):
            run_info.load(run_dir)

    def test_another_writers_run_is_not_taken_for_ours(self, tmp_path: Path) -> None:
        (tmp_path / layout.RUN_INFO).write_text('{"schema_version": "agentcompass.run_info.v3"}')

        with pytest.raises(FormatUnknown, match="another writer"):
            run_info.load(tmp_path)


def refreshed(run_dir: Path) -> RunInfo:
    info = run_info.refresh(run_dir)
    before = raw(run_dir)
    assert run_info.refresh(run_dir) == info
    assert raw(run_dir) == before, "a second refresh changes nothing"
    return info


class TestRefresh:
    def test_a_run_with_attempts_left_is_running(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path, k=2)
        execute(run_dir)

        info = refreshed(run_dir)

        assert (info.status, info.finished_at, info.metric_artifacts) == ("running", None, None)

    def test_a_run_without_metrics_is_not_completed(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        execute(run_dir)
        assert refreshed(run_dir).status == "running"

        assert write_report(run_dir).status == "completed"
        (run_dir / layout.METRICS).unlink()

        assert refreshed(run_dir).status == "running"
        assert write_report(run_dir).status == "completed"

    def test_a_completed_run_ends_with_its_last_result(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        execute(run_dir)
        write_report(run_dir)

        info = refreshed(run_dir)

        assert info.finished_at == a_result().finished_at
        assert info.metric_artifacts is not None
        assert info.metric_artifacts.generated_at == info.finished_at

    def test_a_fatal_issue_makes_it_failed(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path, "a", "b")
        execute(run_dir, "a")
        execute(run_dir, "b", result=a_result("b", issues=[an_issue("fatal")]))
        write_report(run_dir)

        info = refreshed(run_dir)

        assert (info.status, info.error) == ("failed", "1 of 2 tasks ended with a fatal issue")

    def test_metrics_of_other_results_do_not_complete_it(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        execute(run_dir)
        write_report(run_dir)
        decide(run_dir, "rerun", ("task-1", 1))

        assert refreshed(run_dir).status == "running"
        filing.reopen(run_dir, "task-1", {1: 2})
        execute(run_dir, result=a_result(leg=2, token="n" * 16))
        assert refreshed(run_dir).status == "running"
        assert write_report(run_dir).status == "completed"

    def test_a_cancelled_run_says_so_until_somebody_resumes(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        decide(run_dir, "cancel")

        info = refreshed(run_dir)

        assert (info.status, info.finished_at, info.error) == ("cancelled", T0, "why")
        decide(run_dir, "resume")
        assert refreshed(run_dir).status == "running"

    def test_an_interrupted_run_says_so(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        decide(run_dir, "interrupt")

        assert refreshed(run_dir).status == "interrupted"

    def test_what_was_over_when_it_was_cancelled_is_completed(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        execute(run_dir)
        decide(run_dir, "cancel")

        assert write_report(run_dir).status == "completed"

    def test_an_attempt_cancelled_by_name_is_not_missed(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path, "a", "b")
        execute(run_dir, "a")
        write_report(run_dir)
        assert refreshed(run_dir).status == "running"

        decide(run_dir, "cancel", ("b", 1))
        assert refreshed(run_dir).status == "running", "the metrics do not know it yet"

        assert write_report(run_dir).status == "completed"

    def test_metrics_that_are_not_the_ones_covered_say_nothing(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        execute(run_dir)
        write_report(run_dir)
        path = run_dir / layout.METRICS
        path.write_bytes(path.read_bytes().replace(b"1.0", b"0.0"))

        info = refreshed(run_dir)

        assert (info.status, info.metric_artifacts) == ("running", None)

    def test_a_refresh_that_was_overtaken_looks_again(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        execute(run_dir)
        write_report(run_dir)
        decide(run_dir, "rerun", ("task-1", 1))
        stale = scan.scan(run_dir)
        run_info.refresh(run_dir)
        filing.reopen(run_dir, "task-1", {1: 2})
        execute(run_dir, result=a_result(leg=2, token="n" * 16))
        write_report(run_dir)

        assert run_info.refresh(run_dir, stale).status == "completed"
