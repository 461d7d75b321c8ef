"""A launch on real workers: one request fails at planning, one has errors, one is clean."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agentcompass.store import sealed
from agentcompass.store.check import check_run
from tests.integration.cli.conftest import STUBS, Bench
from tests.support.cluster import PATIENCE_S, report_of, series_of, until
from tests.support.processes import descendants
from tests.support.stubs import executions
from tests.support.tree import paths_in

pytestmark = pytest.mark.integration


class Nightly:
    """A suite of three requests over stubs, with a ledger each."""

    def __init__(self, bench: Bench, agents: Mapping[str, Mapping[str, str]]) -> None:
        self.cluster = bench.cluster
        self.file = self.cluster.directory / "nightly.yaml"
        requests = [self.request(name, script) for name, script in agents.items()]
        broken = {"name": "broken", "benchmark": "tests.integration.acceptance.plugins:Broken"}
        content = {
            "version": 1,
            "name": "nightly",
            "results_dir": str(self.cluster.results),
            "defaults": {
                "benchmark": {
                    "id": f"{STUBS}:StubBenchmark",
                    "params": {"tasks": ["t0", "t1", "t2"]},
                },
                "harness": f"{STUBS}:StubHarness",
                "environment": f"{STUBS}:StubEnvironment",
                "model": "m",
                "execution": {"max_retries": 0},
                "runtime": {"workers": 2},
            },
            "requests": [broken, *requests],
        }
        self.file.write_text(json.dumps(content))  # YAML, too

    def request(self, name: str, script: Mapping[str, str]) -> dict[str, object]:
        params = {"script": script, "ledger": str(self.ledger(name))}
        return {"name": name, "harness": {"id": f"{STUBS}:StubHarness", "params": params}}

    def ledger(self, name: str) -> Path:
        return self.cluster.directory / f"{name}.jsonl"

    def executed(self, name: str) -> list[int]:
        return [executions(self.ledger(name), "agent", task) for task in ("t0", "t1", "t2")]

    @property
    def record_path(self) -> Path:
        (path,) = paths_in(self.cluster.results / ".launches", "*.json")
        return path

    @property
    def record(self) -> Any:
        return json.loads(self.record_path.read_bytes())

    def run_dir(self, name: str) -> Path:
        run = next(each["run"] for each in self.record["requests"] if each["name"] == name)
        return self.cluster.results / run

    def outcomes(self) -> dict[str, tuple[str, int | None]]:
        return {
            each["name"]: (each["state"], each["exit_code"]) for each in self.record["requests"]
        }


ENDED = {"broken": ("failed", 2), "errors": ("completed", 1), "clean": ("completed", 0)}


def is_well(nightly: Nightly) -> None:
    """Everything that has to be true of the three once the launch has ended."""
    assert nightly.outcomes() == ENDED
    assert nightly.record["status"] == "failed"
    assert "cannot load its tasks: ValueError" in nightly.record["requests"][0]["error"]
    assert not (nightly.cluster.results / "broken").exists()
    for name, errors in (("errors", 1), ("clean", 0)):
        run_dir = nightly.run_dir(name)
        assert check_run(run_dir) == []
        assert series_of(run_dir)["correct.native@1"]["counts"]["error"] == errors
    assert len(list(nightly.cluster.run_dirs())) == 2
    results = nightly.cluster.results
    until(lambda: not paths_in(results, "**/.broker"), "the broker of its runs is gone")


def test_one_fails_at_planning_one_has_errors_one_is_clean(bench: Bench) -> None:
    nightly = Nightly(bench, {"errors": {"t1": "error"}, "clean": {}})

    said = bench.cluster.call("launch", str(nightly.file))

    assert said.code == 1, said
    is_well(nightly)
    assert nightly.executed("errors") == nightly.executed("clean") == [1, 1, 1]
    assert report_of(nightly.run_dir("clean"))["series"][0]["value"] == 1.0
    assert "clean: 3/3 attempts" in said.err


def killed_in_the_middle(bench: Bench, nightly: Nightly) -> list[int]:
    """Kill a launch when each run has a result and something at work; return what was executed."""
    process = bench.cluster.start("launch", str(nightly.file), "--workers", "4")
    until(
        lambda: (
            nightly.executed("errors") == nightly.executed("clean") == [1, 1, 1]
            and bench.results() == 4
        ),
        "two results each and the others at work",
    )
    mine = descendants(process.pid)
    process.kill()
    process.wait()
    return mine


def test_a_sigkill_in_the_middle_and_a_resume_finish_it(bench: Bench) -> None:
    agents = {"errors": {"t1": "error", "t2": "hang|ok"}, "clean": {"t2": "hang|ok"}}
    nightly = Nightly(bench, agents)
    mine = killed_in_the_middle(bench, nightly)
    until(lambda: not any(Path(f"/proc/{pid}/exe").exists() for pid in mine), "all of it ends")
    assert nightly.record["status"] == "running"

    said = bench.cluster.call("resume", str(nightly.record_path))

    assert said.code == 1, said
    is_well(nightly)
    assert nightly.executed("errors") == nightly.executed("clean") == [1, 1, 2]


def test_ctrl_c_cancels_all_of_it_and_says_how_to_go_on(bench: Bench) -> None:
    agents = {"errors": {"t1": "error", "t2": "hang|ok"}, "clean": {"t2": "hang|ok"}}
    nightly = Nightly(bench, agents)
    process = bench.cluster.start("launch", str(nightly.file), "--workers", "4")
    until(lambda: nightly.executed("clean") == nightly.executed("errors") == [1, 1, 1], "at work")

    process.send_signal(signal.SIGINT)

    assert ended(process) == 3
    assert nightly.record["status"] == "cancelled"
    assert set(nightly.outcomes().values()) == {("failed", 2), ("cancelled", 3)}
    assert f"agentcompass resume {nightly.record_path}" in bench.cluster.log_text()
    assert bench.cluster.call("resume", str(nightly.record_path)).code == 1
    is_well(nightly)


def test_a_second_coordinator_joins_one_of_its_runs_and_both_see_the_end(bench: Bench) -> None:
    may_end = bench.cluster.directory / "may-end"
    held = {f"t{number}": f"until:{may_end}" for number in range(3)}
    nightly = Nightly(bench, {"errors": {"t1": "error"}, "clean": held})
    first = bench.cluster.start("launch", str(nightly.file), "--workers", "1")
    until(lambda: sum(nightly.executed("clean")) == 1, "the clean one is at work")

    second = bench.cluster.start("resume", str(nightly.run_dir("clean")), "--workers", "1")
    until(lambda: sum(nightly.executed("clean")) == 2, "the other one's worker is at work, too")
    may_end.touch()

    assert (ended(second), ended(first)) == (0, 1), bench.cluster.log_text()
    is_well(nightly)
    assert nightly.executed("clean") == [1, 1, 1]


def test_with_a_broker_it_can_be_left_and_looked_after_later(bench: Bench) -> None:
    nightly = Nightly(bench, {"errors": {"t1": "error"}, "clean": {}})
    bench.cluster.broker.start()
    bench.cluster.worker("prefork")
    broker = ("--broker", bench.cluster.broker.url)

    left = bench.cluster.call("launch", str(nightly.file), *broker, "--detach", "--json")

    assert left.code == 1, left
    until(lambda: all(is_over(nightly, name) for name in ("errors", "clean")), "both end")
    said = bench.cluster.call("resume", str(nightly.record_path), *broker, "--json")
    assert said.code == 1, said
    is_well(nightly)
    assert json.loads(said.out.splitlines()[-1])["launch"] == nightly.record
    assert nightly.executed("errors") == nightly.executed("clean") == [1, 1, 1]


def is_over(nightly: Nightly, name: str) -> bool:
    return sealed.load(nightly.run_dir(name)).status == "completed"


def ended(process: subprocess.Popen[bytes]) -> int:
    return process.wait(timeout=PATIENCE_S)
