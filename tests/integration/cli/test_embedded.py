"""`agentcompass run` without a broker: everything is started for it, and ends with it."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from agentcompass.store import sealed
from agentcompass.store.check import check_run
from tests.integration.cli.conftest import Bench
from tests.support.cluster import COMMAND_LINE, PATIENCE_S, report_of, series_of, until
from tests.support.processes import descendants
from tests.support.tree import paths_in

pytestmark = pytest.mark.integration

SLOW_TAIL = {"t3": "hang", "t4": "hang", "t5": "hang"}


def ended(process: subprocess.Popen[bytes]) -> int:
    return process.wait(timeout=PATIENCE_S)


def started(
    bench: Bench, tasks: int, script: dict[str, str], module: str = COMMAND_LINE
) -> subprocess.Popen[bytes]:
    """Start a run whose first three tasks end and whose others do not, and wait for the three."""
    flags = bench.flags(tasks, "--workers", "2", script=script)
    process = bench.cluster.start("run", *flags, module=module)
    until(lambda: bench.results() >= 3 and bench.executed() >= 5, "three results and two at work")
    return process


def last_log(bench: Bench) -> str:
    return bench.cluster.logs[-1].read_text()


def status_of(run_dir: Path) -> str:
    return sealed.load(run_dir).status


def test_a_run_is_executed_reported_and_leaves_nothing_running(bench: Bench) -> None:
    said = bench.cluster.call("run", *bench.flags(3, "-k", "2", "--json"))

    assert said.code == 0, said
    first, last = map(json.loads, said.out.splitlines())
    run_dir = bench.cluster.the_run()
    assert (first["path"], last["state"]) == (str(run_dir), "completed")
    assert bench.executed() == 6
    assert series_of(run_dir)["correct.avg@2"]["value"] == 1.0
    assert check_run(run_dir) == []
    assert not (run_dir / ".broker").exists()


def test_one_attempt_alone_makes_a_report_too(bench: Bench) -> None:
    assert bench.cluster.call("run", *bench.flags(1)).code == 0
    assert report_of(bench.cluster.the_run())["k"] == 1


def test_errors_and_wrong_answers_end_where_they_belong(bench: Bench) -> None:
    script = {"t0": "wrong", "t1": "error", "t2": "fatal"}
    said = bench.cluster.call("run", *bench.flags(4, "--max-retries", "0", script=script))

    run_dir = bench.cluster.the_run()
    assert said.code == 1, said
    filed = {path.parent.name for path in paths_in(run_dir, "details/*/t*")}
    assert filed == {"normal", "error", "fatal"}
    assert status_of(run_dir) == "failed"
    assert "No official value" in said.out


class TestCtrlC:
    def test_it_cancels_keeps_results_tells_how_to_go_on_and_resume_does(
        self, bench: Bench
    ) -> None:
        process = started(bench, 6, SLOW_TAIL)
        mine = descendants(process.pid)

        process.send_signal(signal.SIGINT)

        assert ended(process) == 3
        run_dir = bench.cluster.the_run()
        assert status_of(run_dir) == "cancelled"
        assert f"agentcompass resume {run_dir}" in last_log(bench)
        assert report_of(run_dir)["extra"]["partial"]["missing"] == 3
        assert (bench.results(), check_run(run_dir)) == (3, [])
        until(lambda: alive(mine) == [], "workers and broker end with their coordinator")

        said = bench.cluster.call("resume", str(run_dir), "--timeout", "1", "--max-retries", "0")
        assert said.code == 1, said
        assert [bench.executed(f"t{number}") for number in range(3)] == [1, 1, 1]
        assert series_of(run_dir)["correct.native@1"]["counts"]["total"] == 6

    def test_a_second_one_leaves_faster(self, bench: Bench) -> None:
        bench.cluster.environment["AGENTCOMPASS_STOP_S"] = "3600"  # nobody kills the stubborn ones
        stubborn = {"t3": "stubborn", "t4": "stubborn"}
        process = started(bench, 5, stubborn, module="tests.support.endless_coordinator")

        process.send_signal(signal.SIGINT)
        until(lambda: "cancelled; waiting" in last_log(bench), "the first one is heard")
        process.send_signal(signal.SIGINT)

        assert ended(process) == 3
        assert status_of(bench.cluster.the_run()) == "cancelled"


def test_sigterm_leaves_an_interrupted_run_that_resume_completes(bench: Bench) -> None:
    process = started(bench, 5, {"t3": "hang|ok", "t4": "hang|ok"})

    process.send_signal(signal.SIGTERM)

    assert ended(process) == 3
    run_dir = bench.cluster.the_run()
    assert status_of(run_dir) == "interrupted"
    said = bench.cluster.call("resume", str(run_dir))
    assert said.code == 0, said
    assert [bench.executed(f"t{number}") for number in range(5)] == [1, 1, 1, 2, 2]


def test_sigkill_leaves_nothing_running_and_resume_completes(bench: Bench) -> None:
    process = started(bench, 5, {"t3": "hang|ok", "t4": "hang|ok"})
    mine = descendants(process.pid)

    process.kill()
    process.wait()

    until(lambda: alive(mine) == [], "workers and broker end with their coordinator")
    run_dir = bench.cluster.the_run()
    assert "its coordinator is gone" in bench.cluster.call("status", str(run_dir)).out
    said = bench.cluster.call("resume", str(run_dir))
    assert said.code == 0, said
    assert check_run(run_dir) == []
    assert [bench.executed(f"t{number}") for number in range(3)] == [1, 1, 1]


def test_a_second_coordinator_joins_and_both_see_the_end(bench: Bench) -> None:
    may_end = bench.cluster.directory / "may-end"
    script = {f"t{number}": f"until:{may_end}" for number in range(1, 8)}
    first = bench.cluster.start("run", *bench.flags(8, "--workers", "1", script=script))
    until(lambda: bench.results() == 1 and bench.executed() == 2, "one result and one at work")

    second = bench.cluster.start("resume", str(bench.cluster.the_run()), "--workers", "1")
    until(lambda: bench.executed() == 3, "the other one's worker is at work, too")
    may_end.touch()

    assert (ended(second), ended(first)) == (0, 0), bench.cluster.log_text()
    assert bench.executed() == 8
    assert check_run(bench.cluster.the_run()) == []


def test_cancelling_one_attempt_from_elsewhere_lets_the_others_finish(bench: Bench) -> None:
    process = bench.cluster.start("run", *bench.flags(3, script={"t1": "hang"}))
    until(lambda: bench.results() >= 2 and bench.executed() == 3, "two results and one at work")
    run_dir = bench.cluster.the_run()

    assert bench.cluster.call("cancel", str(run_dir), "t1", "1", "--reason", "stuck").code == 0

    assert ended(process) == 1
    counts = series_of(run_dir)["correct.native@1"]["counts"]
    assert (counts["evaluated"], counts["unavailable"], counts["error"]) == (2, 1, 0)
    assert status_of(run_dir) == "completed"


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}").exists() and not _is_zombie(pid)]


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
