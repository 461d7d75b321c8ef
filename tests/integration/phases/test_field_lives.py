"""Field reports R12 and R30: what happens before an agent starts, and attempts side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentcompass.models.plan import RetryPolicy
from agentcompass.models.task import ArtifactRequest, TaskSpec
from agentcompass.store.check import check_run
from tests.support.cluster import Cluster
from tests.support.delivering import a_lab
from tests.support.laboratory import Laboratory, Wanted
from tests.support.tree import paths_in

pytestmark = pytest.mark.integration


@pytest.fixture
def laboratory(tmp_path: Path) -> Iterator[Laboratory]:
    with Cluster(tmp_path) as cluster:
        yield Laboratory(cluster)


def test_r12_what_fails_before_the_agent_starts_is_recorded_and_tried_no_more_than_allowed(
    laboratory: Laboratory,
) -> None:
    script = {"start t1": "raise", "start t3": "raise"}
    ledger = laboratory.ledger("r12")
    environment = (
        *("--param", f"environment.script={json.dumps(script)}"),
        *("--param", f"environment.ledger={ledger}", "--max-retries", "1"),
    )
    wanted = Wanted(tasks=tuple(f"t{number}" for number in range(5)))

    run = laboratory.run_with("r12", wanted, *environment)
    results = {path: path.read_bytes() for path in run.result_files()}
    lines = ledger.read_text()
    again = [laboratory.cluster.call("resume", str(run.directory)) for _ in range(2)]

    assert [run.said.code, *(said.code for said in again)] == [1, 1, 1]
    assert {task: list(codes) for task, codes in run.codes().items() if codes} == {
        "t1": ["setup_failed"],
        "t3": ["setup_failed"],
    }
    assert len(paths_in(run.directory, "details/fatal/t[13]--*/task.json")) == 2
    assert [run.executed("", who=f"environment start t{n}") for n in (1, 3)] == [2, 2]
    assert [run.executed(f"t{n}") for n in range(5)] == [1, 0, 1, 0, 1]
    assert ledger.read_text() == lines
    assert {path: path.read_bytes() for path in run.result_files()} == results
    assert check_run(run.directory) == []


def test_r30_siblings_have_their_own_artifacts_and_their_own_failed_tries(tmp_path: Path) -> None:
    script = {f"t0:{n}": f"run:echo {n} > out.txt" for n in (1, 3, 4)}
    script["t0:2"] = "error|error|run:echo 2 > out.txt"
    lab = a_lab(
        tmp_path,
        agent=script,
        host=True,
        k=4,
        retry=RetryPolicy(max_retries=2, patterns=(".",)),
        task_specs=[TaskSpec(task_id="t0", artifacts=(ArtifactRequest(path="out.txt"),))],
    )

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: lab.deliver("t0", number), (1, 2, 3, 4)))

    found = {
        number: [path.read_text().strip() for path in paths_in(folder, "artifacts/*/*")]
        for number in (1, 2, 3, 4)
        for folder in [lab.attempt_dir("t0", number)]
    }
    assert found == {1: ["1"], 2: ["2"], 3: ["3"], 4: ["4"]}
    retries = lab.attempt_dir("t0", 2) / "retries"
    assert sorted(path.name for path in paths_in(retries, "retry-*")) == ["retry-1", "retry-2"]
    assert [lab.result("t0", n).retry_count for n in (1, 2, 3, 4)] == [0, 2, 0, 0]
    assert check_run(lab.run_dir, deep=True) == []
