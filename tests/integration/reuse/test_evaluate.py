"""A run evaluated again with real workers: no agent runs, and the source stays as it was."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agentcompass.store.check import check_run
from tests.support.cluster import Cluster
from tests.support.laboratory import STUBS, Evaluated, Laboratory, Wanted, strict_json
from tests.support.reusing import fingerprint
from tests.support.tree import paths_in

pytestmark = pytest.mark.integration

MENDED = ("--param", 'benchmark.script={"*": "grade"}')


def evaluated(laboratory: Laboratory, name: str, run: Evaluated, *more: str) -> Evaluated:
    said = laboratory.cluster.call("evaluate", str(run.directory), "--json", *more)
    return Evaluated(said, laboratory.ledger(name))


def info_of(run: Evaluated) -> Mapping[str, Any]:
    found: Mapping[str, Any] = strict_json((run.directory / "run_info.json").read_bytes())
    return found


def old_verdicts(run: Evaluated) -> list[str]:
    paths = paths_in(run.directory, "details/*/*/attempt-*/retries/reused/result.json")
    return [str(json.loads(path.read_bytes())["status"]) for path in paths]


def test_u08_a_mended_evaluator_scores_what_the_agents_left(laboratory: Laboratory) -> None:
    tasks = tuple(f"t{number}" for number in range(5))
    source = laboratory.run("u08", Wanted(tasks=tasks, evaluator={"*": "error"}))
    before = fingerprint(source.directory)
    assert (source.executed(), source.executed(who="evaluator")) == (5, 5)

    again = evaluated(laboratory, "u08", source, *MENDED, *laboratory.broker)

    assert (source.said.code, again.said.code) == (1, 0), again.said
    assert (again.executed(), again.executed(who="evaluator")) == (5, 10)
    assert again.counts()["evaluated"] == 5
    beside = strict_json((again.directory / ".summary.json").read_bytes())
    usage = beside["context"]["highlights"]["usage"]
    paid = {name: usage[name]["input_tokens"]["of"] for name in ("incurred", "accepted")}
    assert paid == {"incurred": 0, "accepted": 5}
    agents = {each["agent_from"] for each in again.results().values()}
    assert agents == {info_of(source)["run_id"]}
    assert old_verdicts(again) == ["eval_error"] * 5
    provenance = info_of(again)["reused_from"]
    assert (provenance["kind"], provenance["evaluations"]) == ("evaluate", 5)
    assert provenance["run_id"] == info_of(source)["run_id"]
    changed = {"field": "benchmark.params.script.*", "source": "error", "now": "grade"}
    assert provenance["differences"] == [changed]
    assert info_of(again)["benchmark_sha256"] == info_of(source)["benchmark_sha256"]
    assert check_run(again.directory, deep=True) == []
    assert fingerprint(source.directory) == before


def test_the_evaluator_and_its_mode_may_be_others_and_the_broker_a_private_one(
    cluster: Cluster,
) -> None:
    laboratory = Laboratory(cluster)
    source = laboratory.run_with("mode", Wanted(k=2, evaluator={"*": "wrong"}))

    other = ("--benchmark", f"{STUBS}:FreshStubBenchmark")
    again = evaluated(laboratory, "mode", source, *other, *MENDED, "--analyzer", "tokens")

    assert again.said.code == 0, again.said
    assert again.executed() == 4
    assert again.executed(who="evaluator") == 8
    plan = info_of(again)["resolved_execution_plans"]
    assert plan["plans"][plan["default"]]["evaluation_mode"] == "fresh"
    assert (again.directory / "analysis_summary.json").exists()
    fields = [each["field"] for each in info_of(again)["reused_from"]["differences"]]
    assert fields[0] == "benchmark.id"
    assert check_run(again.directory, deep=True) == []


def with_a_broken_agent(laboratory: Laboratory, name: str) -> Evaluated:
    wanted = Wanted(tasks=("good", "broken"), agent={"broken": "error|ok"})
    return laboratory.run(name, wanted)


class TestNothingLeftToEvaluate:
    def test_it_is_listed_and_refused_before_anything_is_reserved(
        self, laboratory: Laboratory
    ) -> None:
        source = with_a_broken_agent(laboratory, "listed")
        runs = set(source.directory.parent.iterdir())

        for more in ((), ("--dry-run",)):
            again = evaluated(laboratory, "listed", source, *more, *laboratory.broker)

            assert again.said.code == 2
            assert "[agents_missing]" in again.said.err
            why = "nothing to evaluate: broken attempt 1: the agent did not run cleanly"
            assert why in again.said.err
        assert set(source.directory.parent.iterdir()) == runs

    def test_its_old_result_is_kept_if_that_is_asked_for(self, laboratory: Laboratory) -> None:
        source = with_a_broken_agent(laboratory, "kept")
        ran = source.executed()

        again = evaluated(laboratory, "kept", source, "--keep-missing", *laboratory.broker)

        assert again.said.code == 1
        assert again.executed() == ran
        assert again.codes()["broken"] == source.codes()["broken"]
        assert check_run(again.directory, deep=True) == []

    def test_its_agent_runs_if_that_is_asked_for(self, laboratory: Laboratory) -> None:
        source = with_a_broken_agent(laboratory, "ran")
        more = ("--run-missing-agents", *laboratory.broker)

        again = evaluated(laboratory, "ran", source, *more)

        assert again.said.code == 0, again.said
        assert (again.executed("good"), again.executed("broken")) == (1, 2)

    def test_a_damaged_artifact_or_snapshot_is_nothing_to_evaluate(
        self, laboratory: Laboratory
    ) -> None:
        source = laboratory.run("damaged", Wanted(tasks=("a",)))
        path = paths_in(source.directory, "details/*/*/attempt-1/checkpoint.json")[0]
        damage(path)

        again = evaluated(laboratory, "damaged", source, *laboratory.broker)

        assert again.said.code == 2
        assert str(path) in again.said.err


def damage(checkpoint: Path) -> None:
    data = checkpoint.read_bytes()
    checkpoint.write_bytes(data[: len(data) // 2])
