"""Runs of other writers and older layouts as sources: what is taken, and that they stay as they are."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentcompass.coordinator.refusal import Refusal
from agentcompass.coordinator.reuse.choose import Chosen
from agentcompass.errors import AgentCompassError
from agentcompass.models.request import Request, ReuseSettings
from agentcompass.models.task import TaskSpec
from agentcompass.store import attempts
from agentcompass.store.attempts import result_of
from agentcompass.store.check import check_run
from agentcompass.store.foreign import open_foreign
from tests.builders import a_task
from tests.support import golden_runs as theirs
from tests.support.reusing import fingerprint, look, new_request, reuse_into

FOREIGN_RUNS = os.environ.get("AGENTCOMPASS_FOREIGN_RUNS", "")
RIGHT = theirs.their_result(correct=True, tokens=10.0)
WRONG = theirs.their_result(correct=False)
FAILED = theirs.their_result(status="run_error", issues=[theirs.ISSUE])
OLD_FAILED = theirs.their_result(status="run_error", issues=None, error="it broke")


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


def taken(tmp_path: Path, request: Request, *ids: str) -> dict[str, tuple[str, str]]:
    """Reuse into a new run, hold the invariants, and return task id -> (code, deeds)."""
    specs = [TaskSpec(task_id=name, category="x") for name in ids]
    assert request.reuse is not None
    source = Path(request.reuse.run_id)
    before = fingerprint(source)
    run, chosen = reuse_into(tmp_path / "results", request, specs)
    assert check_run(run.address.run_dir, deep=True) == []
    assert fingerprint(source) == before
    return codes(chosen)


def codes(chosen: Chosen) -> dict[str, tuple[str, str]]:
    assert chosen.reuse is not None
    return {each.task_id: (each.code, " ".join(each.deeds)) for each in chosen.reuse.choices}


class TestOtherWriters:
    def test_clean_details_are_taken_and_failed_ones_run(self, tmp_path: Path) -> None:
        source = tmp_path / "theirs"
        theirs.their_run_info(source, "a", "b", "c")
        theirs.their_task(source / "details" / "normal", "a", RIGHT)
        theirs.their_task(source / "details" / "normal", "b", WRONG)
        theirs.their_task(source / "details" / "error", "c", FAILED)

        assert taken(tmp_path, toy(source), "a", "b", "c", "d") == {
            "a": ("complete", "take"),
            "b": ("complete", "take"),
            "c": ("errored", "run"),
            "d": ("not_in_source", "run"),
        }

    def test_only_declared_observations_come_along_with_their_types(self, tmp_path: Path) -> None:
        source = tmp_path / "theirs"
        theirs.their_run_info(source, "a")
        theirs.their_task(source / "details" / "normal", "a", RIGHT)

        taken(tmp_path, toy(source), "a")

        target = next((tmp_path / "results").glob("*/*/run_info.json")).parent
        result = attempts.load_result(result_of(target, "a", 1) or Path())
        assert result.metrics == {"correct": True}
        assert (result.task_id, result.attempt, result.reused_from) == ("a", 1, "theirs")

    def test_what_strategy_pass_did_not_run_counts_as_skipped(self, tmp_path: Path) -> None:
        source = tmp_path / "theirs"
        theirs.their_run_info(source, "a", "b", k=3, strategy="pass")
        for name, results in (("a", (WRONG, RIGHT)), ("b", (WRONG,))):
            task = theirs.their_task(source / "details" / "normal", name, *results, k=3)
            record = json.loads((task / "task.json").read_text())
            record["attempt_plan"]["strategy"] = "pass"
            (task / "task.json").write_text(json.dumps(record))

        assert taken(tmp_path, toy(source, k=3, strategy="pass"), "a", "b") == {
            "a": ("complete", "take take skip"),
            "b": ("interrupted", "take run run"),
        }

    def test_an_attempt_that_was_stopped_is_not_over(self, tmp_path: Path) -> None:
        source = tmp_path / "theirs"
        theirs.their_run_info(source, "a", k=2, status=None)
        stopped = theirs.their_result(status="cancelled")
        theirs.their_task(source / "details" / "running", "a", RIGHT, stopped, k=2)

        assert taken(tmp_path, toy(source, k=2), "a") == {"a": ("interrupted", "take run")}

    def test_they_are_never_the_implicit_source(self, tmp_path: Path) -> None:
        source = tmp_path / "results" / "org_model_toy_none" / "theirs"
        theirs.their_run_info(source, "a")
        theirs.their_task(source / "details" / "normal", "a", RIGHT)
        request = new_request(k=1, benchmark="toy", model="org/model", reuse=ReuseSettings())

        chosen = look(tmp_path / "results", request, [a_task("a")])

        assert chosen.reuse is None
        assert [each.code for each in chosen.passed_over] == ["other_writer"]
        named = request.model_copy(update={"reuse": ReuseSettings(run_id="theirs")})
        assert codes(look(tmp_path / "results", named, [a_task("a")])) == {
            "a": ("complete", "take")
        }


class TestOlderLayouts:
    def test_a_failure_without_a_severity_runs_again_even_if_errors_are_kept(
        self, tmp_path: Path
    ) -> None:
        source = tmp_path / "flat"
        theirs.their_run_info(source, "a", "b", schema="agentcompass.run_info.v2")
        theirs.their_task(source / "details", "a", RIGHT)
        theirs.their_task(source / "details", "b", OLD_FAILED)

        assert taken(tmp_path, toy(source, keep_errors=True), "a", "b") == {
            "a": ("complete", "take"),
            "b": ("unclassified", "run"),
        }

    def test_the_oldest_layout_gives_its_normal_records(self, tmp_path: Path) -> None:
        source = tmp_path / "oldest"
        theirs.their_run_info(source, schema=None, status=None)
        theirs.detail_file(source, "a_x", "a", {"correct": True, "score": 0.0}, category="x")
        theirs.detail_file(source, "_error_b_x", "b", {"error": "broke"}, category="x")
        theirs.detail_file(source, "c", "c", {"correct": False}, category="x")
        theirs.detail_file(source, "_error_c_x", "c", {"error": "broke"}, category="x")

        assert taken(tmp_path, toy(source), "a", "b", "c") == {
            "a": ("complete", "take"),
            "b": ("unclassified", "run"),
            "c": ("complete", "take"),
        }

    @pytest.mark.parametrize("strategy", ["avg", "pass"])
    def test_a_plan_of_the_oldest_layout_fits_each_strategy_if_nothing_stopped_early(
        self, tmp_path: Path, strategy: str
    ) -> None:
        source = tmp_path / "oldest"
        theirs.their_run_info(source, schema=None, status=None, k=2)
        theirs.detail_file(source, "a", "a", {"correct": False}, {"correct": True}, k=2)

        found = taken(tmp_path, toy(source, k=2, strategy=strategy), "a")

        assert found == {"a": ("complete", "take take")}

    def test_one_that_stopped_early_is_of_strategy_pass(self, tmp_path: Path) -> None:
        source = tmp_path / "oldest"
        theirs.their_run_info(source, schema=None, status=None, k=2)
        theirs.detail_file(source, "a", "a", {"correct": True}, k=2)

        assert taken(tmp_path, toy(source, k=2, strategy="pass"), "a") == {
            "a": ("complete", "take skip")
        }
        with pytest.raises(Refusal, match="k=2 pass"):
            taken(tmp_path, toy(source, k=2), "a")

    def test_the_oldest_namespace_is_looked_into_for_an_id(self, tmp_path: Path) -> None:
        source = tmp_path / "results" / "toy" / "org_model" / "old"
        theirs.their_run_info(source, schema=None, status=None)
        theirs.detail_file(source, "a", "a", {"correct": True})
        request = toy(Path("old"))

        assert codes(look(tmp_path / "results", request, [a_task("a")])) == {
            "a": ("complete", "take")
        }

    def test_mixed_directories_are_refused_with_the_reason(self, tmp_path: Path) -> None:
        source = tmp_path / "mixed"
        theirs.their_run_info(source, "a")
        theirs.their_task(source / "details", "a", RIGHT)
        theirs.detail_file(source, "b", "b", {"correct": True})

        with pytest.raises(Refusal, match="mixes layouts") as caught:
            look(tmp_path / "results", toy(source), [a_task("a")])

        assert caught.value.code == "mixed_layouts"

    def test_a_malformed_record_of_it_is_named_and_can_be_skipped(self, tmp_path: Path) -> None:
        source = tmp_path / "oldest"
        theirs.their_run_info(source, schema=None, status=None)
        theirs.detail_file(source, "a", "a", {"correct": True})
        (source / "details" / "b.json").write_text('{"task_id": "b"')

        with pytest.raises(Refusal, match=r"b\.json"):
            look(tmp_path / "results", toy(source), [a_task("a"), a_task("b")])
        assert taken(tmp_path, toy(source, skip_malformed=True), "a", "b") == {
            "a": ("complete", "take"),
            "b": ("not_in_source", "run"),
        }


def fixtures() -> Sequence[Path]:
    return sorted(Path(FOREIGN_RUNS).rglob("run_info.json")) if FOREIGN_RUNS else []


@pytest.mark.skipif(not FOREIGN_RUNS, reason="AGENTCOMPASS_FOREIGN_RUNS names no directory")
@pytest.mark.parametrize("info", fixtures(), ids=lambda path: "/".join(path.parts[-4:-1]))
def test_every_run_of_the_other_writer_works_as_a_source(info: Path, tmp_path: Path) -> None:
    source = info.parent
    try:
        run = open_foreign(source)
    except AgentCompassError:
        pytest.skip("it is none that can be read")
    reuse = ReuseSettings(run_id=str(source))
    request = new_request(
        k=run.attempts.k,
        strategy=run.attempts.strategy,
        benchmark=run.benchmark_id,
        model=run.model_id,
        reuse=reuse,
    )
    specs = [
        TaskSpec(task_id=task.task_id, category=task.category, ground_truth="42")
        for task in run.tasks
    ] or [a_task("nothing")]
    before = fingerprint(source)

    made, _ = reuse_into(tmp_path / "results", request, specs)

    assert check_run(made.address.run_dir, deep=True) == []
    assert fingerprint(source) == before
