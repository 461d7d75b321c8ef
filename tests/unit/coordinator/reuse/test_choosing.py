"""Runs of ours as sources: what is taken of them, and which of them is chosen."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from agentcompass.coordinator.refusal import Refusal
from agentcompass.coordinator.reuse import choose as choosing
from agentcompass.coordinator.reuse.choose import Activity, Chosen
from agentcompass.errors import RunNotFound
from agentcompass.models.request import Request, ReuseSettings
from agentcompass.models.run_info import ControlRecord
from agentcompass.store import attempts, control, run_info
from agentcompass.store.attempts import result_of
from agentcompass.store.check import check_run
from tests.builders import T0, a_result, a_task
from tests.support import golden_runs as theirs
from tests.support.reusing import fingerprint, look, new_request, reuse_into, start_new, the_source
from tests.support.store_runs import a_reserved_run, begin, decide, execute, publish

RIGHT = theirs.their_result(correct=True, tokens=10.0)
FAILED = theirs.their_result(status="run_error", issues=[theirs.ISSUE])


def toy(
    source: Path,
    *,
    k: int = 1,
    strategy: str = "avg",
    keep_errors: bool = False,
    skip_malformed: bool = False,
) -> Request:
    """Return a request for the benchmark of the golden runs that names its source."""
    reuse = ReuseSettings(
        run_id=str(source), keep_errors=keep_errors, skip_malformed=skip_malformed
    )
    return new_request(k=k, strategy=strategy, benchmark="toy", model="org/model", reuse=reuse)


def codes(chosen: Chosen) -> dict[str, tuple[str, str]]:
    assert chosen.reuse is not None
    return {each.task_id: (each.code, " ".join(each.deeds)) for each in chosen.reuse.choices}


class TestOurs:
    def test_units_single_attempts_and_snapshots_are_taken(self, tmp_path: Path) -> None:
        source = the_source(tmp_path / "results")
        before = fingerprint(source)
        request = new_request(reuse=ReuseSettings())
        specs = [a_task(name) for name in ("whole", "errored", "half", "absent", "new")]

        run, chosen = reuse_into(tmp_path / "results", request, specs)

        assert codes(chosen) == {
            "whole": ("complete", "take take"),
            "errored": ("errored", "evaluate run"),
            "half": ("interrupted", "take run"),
            "absent": ("not_in_source", "run run"),
            "new": ("not_in_source", "run run"),
        }
        assert check_run(run.address.run_dir, deep=True) == []
        assert fingerprint(source) == before

    def test_artifacts_have_inodes_of_their_own_and_their_paths_lead_to_them(
        self, tmp_path: Path
    ) -> None:
        source = the_source(tmp_path / "results")
        request = new_request(reuse=ReuseSettings())

        run, _ = reuse_into(tmp_path / "results", request, [a_task("whole"), a_task("errored")])

        copies = sorted(run.address.run_dir.rglob("answer.txt"))
        originals = sorted(source.rglob("details/*/*/*/artifacts/*/answer.txt"))
        assert len(copies) == 2
        assert {path.stat().st_ino for path in copies}.isdisjoint(
            path.stat().st_ino for path in originals
        )
        result = attempts.load_result(result_of(run.address.run_dir, "whole", 1) or Path())
        assert (run.address.run_dir / str(result.artifacts["file"])).is_dir()

    def test_observations_and_answers_are_equal_field_by_field(self, tmp_path: Path) -> None:
        results = tmp_path / "results"
        source = start_new(results, new_request(k=1), [a_task("a")]).address.run_dir
        odd = {"nested": [0.0, False, 1, None, {"why": "no value"}]}
        original = a_result("a", metrics={"correct": False}).model_copy(
            update={"final_answer": odd, "analysis_result": {"x": {"score": 0.0}}, "retry_count": 2}
        )
        execute(source, "a", result=original)

        run, _ = reuse_into(results, new_request(k=1, reuse=ReuseSettings()), [a_task("a")])

        copy = attempts.load_result(result_of(run.address.run_dir, "a", 1) or Path())
        assert copy == original.model_copy(update={"reused_from": source.name})

    def test_a_chain_of_reuse_names_who_paid(self, tmp_path: Path) -> None:
        results = tmp_path / "results"
        the_source(results)
        reuse_into(results, new_request(reuse=ReuseSettings(), run_id="zzz"), [a_task("whole")])
        request = new_request(reuse=ReuseSettings())

        run, chosen = reuse_into(results, request, [a_task("whole")])

        assert chosen.reuse is not None
        assert chosen.reuse.source.run_id == "zzz"
        path = result_of(run.address.run_dir, "whole", 1) or Path()
        assert attempts.load_result(path).reused_from == "source"
        plans = run_info.load(run.address.run_dir).resolved_execution_plans
        assert plans is not None
        assert plans.reused is not None

    def test_a_changed_task_is_named_and_run_again_only_if_it_must_be_the_same(
        self, tmp_path: Path
    ) -> None:
        the_source(tmp_path / "results")
        specs = [a_task("whole").model_copy(update={"question": "3 + 3?"})]

        warned = look(tmp_path / "results", new_request(reuse=ReuseSettings()), specs)
        strict = ReuseSettings(run_id="source", require_same_tasks=True)
        refused = look(tmp_path / "results", new_request(reuse=strict), specs)

        assert warned.reuse is not None
        assert {"field": "tasks", "changed": ["whole"]} in warned.reuse.differences
        assert codes(warned) == {"whole": ("complete", "take take")}
        assert codes(refused) == {"whole": ("content_changed", "run run")}

    def test_the_content_of_each_task_has_a_digest_that_its_order_of_fields_does_not_change(
        self, tmp_path: Path
    ) -> None:
        one = a_task("a").model_copy(update={"metadata": {"x": 1, "y": 2}})
        other = a_task("a").model_copy(update={"metadata": {"y": 2, "x": 1}})
        run_dir = start_new(tmp_path / "results", new_request(k=1), [one]).address.run_dir
        execute(run_dir, "a")

        chosen = look(tmp_path / "results", new_request(k=1, reuse=ReuseSettings()), [other])

        assert chosen.reuse is not None
        assert not chosen.reuse.differences
        record = json.loads(next(run_dir.glob("details/normal/*/task.json")).read_text())
        assert len(record["content_sha256"]) == 64

    def test_a_damaged_artifact_of_a_published_attempt_is_named(self, tmp_path: Path) -> None:
        source = the_source(tmp_path / "results")
        path = next(source.glob("details/*/whole--*/attempt-1/artifacts/*/out/deep/answer.txt"))
        path.write_text("tampered")

        with pytest.raises(Refusal, match="checksum"):
            look(tmp_path / "results", new_request(reuse=ReuseSettings()), [a_task("whole")])

    def test_a_task_record_of_another_task_is_named(self, tmp_path: Path) -> None:
        source = the_source(tmp_path / "results")
        path = next(source.glob("details/*/whole--*/task.json"))
        path.write_text(path.read_text().replace('"whole"', '"other"'))

        with pytest.raises(Refusal, match="task_id is 'other'"):
            look(tmp_path / "results", new_request(reuse=ReuseSettings()), [a_task("whole")])

    def test_another_benchmark_is_refused_by_the_field(self, tmp_path: Path) -> None:
        source = the_source(tmp_path / "results")
        request = new_request(benchmark="other", reuse=ReuseSettings(run_id=str(source)))

        with pytest.raises(Refusal, match=r"benchmark\.id is 'bench'") as caught:
            look(tmp_path / "results", request, [a_task("whole")])

        assert caught.value.code == "benchmark_differs"

    def test_empty_and_foreign_folders_are_no_candidates(self, tmp_path: Path) -> None:
        source = the_source(tmp_path / "results")
        (source.parent / "zzz").mkdir()
        (source.parent / "zzzz").mkdir()
        (source.parent / "zzzz" / "notes.txt").write_text("mine")

        chosen = look(tmp_path / "results", new_request(reuse=ReuseSettings()), [a_task("whole")])

        assert chosen.reuse is not None
        assert chosen.reuse.source.run_id == "source"
        assert chosen.passed_over == []

    @pytest.mark.parametrize("reader", ["is_foreign", "scan"])
    def test_a_candidate_that_is_deleted_while_it_is_looked_at_is_none(
        self, reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        source = the_source(tmp_path / "results")
        newer = the_source(tmp_path / "results", run_id="zzz")
        assert newer.parent == source.parent
        real = getattr(choosing, reader)

        def overtaken(run_dir: Path, *rest: object) -> object:
            if run_dir == newer:
                shutil.rmtree(run_dir)
            return real(run_dir, *rest)

        monkeypatch.setattr(choosing, reader, overtaken)
        chosen = look(tmp_path / "results", new_request(reuse=ReuseSettings()), [a_task("whole")])

        assert chosen.reuse is not None
        assert chosen.reuse.source.run_id == "source"
        assert chosen.passed_over == []

    def test_a_candidate_that_stays_and_cannot_be_read_is_named(self, tmp_path: Path) -> None:
        source = the_source(tmp_path / "results")
        shutil.rmtree(source / "control")

        with pytest.raises(RunNotFound):
            look(tmp_path / "results", new_request(reuse=ReuseSettings()), [a_task("whole")])

    def test_a_newer_run_without_anything_over_is_passed_over(self, tmp_path: Path) -> None:
        the_source(tmp_path / "results")
        start_new(tmp_path / "results", new_request(run_id="zero"), [a_task("whole")])

        chosen = look(tmp_path / "results", new_request(reuse=ReuseSettings()), [a_task("whole")])

        assert chosen.reuse is not None
        assert chosen.reuse.source.run_id == "source"
        assert [each.code for each in chosen.passed_over] == ["nothing_reusable"]


class TestChoosing:
    def test_a_named_source_that_was_never_sealed_is_refused(self, tmp_path: Path) -> None:
        reserved = a_reserved_run(tmp_path)
        request = new_request(reuse=ReuseSettings(run_id=str(reserved)))

        with pytest.raises(Refusal, match="interrupted while it was planned") as caught:
            look(tmp_path / "results", request, [a_task("whole")])

        assert caught.value.code == "source_not_sealed"

    def test_an_unreadable_beginning_of_a_named_source_is_named(self, tmp_path: Path) -> None:
        source = the_source(tmp_path / "results")
        (source / "tasks.jsonl").write_text('{"task_id')
        request = new_request(reuse=ReuseSettings(run_id="source"))

        with pytest.raises(Refusal, match=r"tasks\.jsonl"):
            look(tmp_path / "results", request, [a_task("whole")])

    def test_a_run_that_has_nothing_of_these_tasks_is_passed_over(self, tmp_path: Path) -> None:
        the_source(tmp_path / "results")

        chosen = look(tmp_path / "results", new_request(reuse=ReuseSettings()), [a_task("other")])

        assert chosen.reuse is None
        assert [each.code for each in chosen.passed_over] == ["nothing_reusable"]

    def test_each_broker_of_an_open_leg_is_asked_and_silence_is_no_answer(
        self, tmp_path: Path
    ) -> None:
        source = the_source(tmp_path / "results")
        opens(source, leg=2, broker="redis://second")
        asked: list[str] = []

        def silent(_: Path, broker: str) -> Activity:
            asked.append(broker)
            return Activity("unknown", "no answer") if broker else Activity("idle")

        request = new_request(reuse=ReuseSettings())
        implicit = look(tmp_path / "results", request, [a_task("whole")], silent)
        named = new_request(reuse=ReuseSettings(run_id="source"))
        explicit = look(tmp_path / "results", named, [a_task("whole")], silent)

        assert asked == ["", "redis://second"] * 2
        assert [each.code for each in implicit.passed_over] == ["activity_unknown"]
        assert explicit.warnings == ["cannot tell whether 'source' is still active: no answer"]

    def test_a_paused_run_and_one_that_is_over_are_idle_whatever_a_broker_says(
        self, tmp_path: Path
    ) -> None:
        source = the_source(tmp_path / "results")
        decide(source, "pause")

        def busy(*_: object) -> Activity:
            return Activity("live", "it says so")

        request = new_request(reuse=ReuseSettings())
        assert look(tmp_path / "results", request, [a_task("whole")], busy).reuse is not None

    def test_a_paused_run_is_live_until_what_executes_has_come_to_its_end(
        self, tmp_path: Path
    ) -> None:
        source = the_source(tmp_path / "results")
        opens(source, leg=2, broker="redis://second")
        view = begin(source, "half", 2, leg=2)
        decide(source, "pause")
        asked: list[str] = []

        def busy(_: Path, broker: str) -> Activity:
            asked.append(broker)
            return Activity("live", "it holds 1")

        request = new_request(reuse=ReuseSettings())
        executing = look(tmp_path / "results", request, [a_task("half")], busy)
        publish(source, view)
        over = look(tmp_path / "results", request, [a_task("half")], busy)

        assert [each.code for each in executing.passed_over] == ["live"]
        assert codes(over) == {"half": ("complete", "take take")}
        assert asked == ["redis://second"]

    def test_a_cancelled_run_is_idle_whatever_stopped_in_it(self, tmp_path: Path) -> None:
        source = the_source(tmp_path / "results")
        begin(source, "half", 2)
        decide(source, "cancel")

        def busy(*_: object) -> Activity:
            return Activity("live", "it says so")

        request = new_request(reuse=ReuseSettings())
        assert look(tmp_path / "results", request, [a_task("half")], busy).reuse is not None

    def test_a_snapshot_that_lost_a_file_or_was_masked_is_of_no_use(self, tmp_path: Path) -> None:
        source = the_source(tmp_path / "results")
        next(source.glob("details/error/errored--*/attempt-1/result.json")).unlink()
        next(source.glob("details/error/errored--*/attempt-1/artifacts/*/out/deep/*")).unlink()

        chosen = look(
            tmp_path / "results",
            new_request(reuse=ReuseSettings()),
            [a_task("whole"), a_task("errored")],
        )

        assert chosen.reuse is not None
        errored = chosen.reuse.choices[1]
        assert errored.deeds == ("run", "take")
        assert "checksum differs" in errored.reason

    def test_a_snapshot_of_another_evaluation_mode_is_of_no_use(self, tmp_path: Path) -> None:
        source = the_source(tmp_path / "results")
        path = next(source.glob("details/error/errored--*/attempt-1/checkpoint.json"))
        path.write_text(path.read_text().replace('"mode":"none"', '"mode":"fresh"'))

        chosen = look(tmp_path / "results", new_request(reuse=ReuseSettings()), [a_task("errored")])

        assert chosen.reuse is None, "nothing of it can be reused"

    def test_artifacts_of_an_agent_that_failed_are_only_evidence(self, tmp_path: Path) -> None:
        source = the_source(tmp_path / "results")
        path = next(source.glob("details/normal/whole--*/attempt-1/checkpoint.json"))
        path.write_text(path.read_text().replace('"run_completed":true', '"run_completed":false'))
        next(source.glob("details/normal/whole--*/attempt-1/artifacts/*/out/deep/*")).unlink()

        chosen = look(tmp_path / "results", new_request(reuse=ReuseSettings()), [a_task("whole")])

        assert codes(chosen) == {"whole": ("complete", "take take")}

    def test_a_masked_snapshot_of_another_writer_is_of_no_use(self, tmp_path: Path) -> None:
        source = tmp_path / "theirs"
        theirs.their_run_info(source, "a")
        task = theirs.their_task(source / "details" / "error", "a", FAILED)
        masked = theirs.v1_checkpoint("", ground_truth="********")
        theirs.write(task / "attempt-1" / "checkpoint.json", masked)

        chosen = look(tmp_path / "results", toy(source), [a_task("a")])

        assert chosen.reuse is not None
        assert "masked" in chosen.reuse.choices[0].reason


def opens(run_dir: Path, *, leg: int, broker: str) -> None:
    control.append(
        run_dir, lambda _: ControlRecord(leg=leg, action="resume", by="me", at=T0, broker=broker)
    )
