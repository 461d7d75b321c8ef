"""Real agents, in real environments, on real workers; the model is scripted and reacts to what it sees."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from agentcompass.store.check import check_run
from tests.integration.agents.conftest import SILENT
from tests.support.agents import CLUMSY, MAX_STEPS, STUCK, WRONG, AgentLab, AgentRun
from tests.support.docker_engine import docker

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

ENVIRONMENTS = ["host_process", "bubblewrap", "docker"]
MODES = ["reuse", "fresh"]


def is_exactly_as_scripted(run: AgentRun) -> None:
    correct, cases = run.series["correct.native@1"], run.series["cases.native@1"]
    covered = {"total": 10, "evaluated": 10, "error": 0, "unavailable": 0, "invalidated": 0}
    assert (correct["value"], correct["counts"]) == (0.7, covered)
    assert correct["categories"]["write"]["value"] == 0.6
    assert correct["categories"]["repair"]["value"] == 0.8
    assert (cases["value"], cases["counts"]) == (0.7, covered)
    failed = {id_ for id_, found in run.results.items() if not found["metrics"]["correct"]}
    assert failed == {*WRONG, *STUCK}
    ends = run.telemetry("ended")
    assert {id_ for id_, end in ends.items() if end == "step_limit"} == {*STUCK}
    assert {end for id_, end in ends.items() if id_ not in STUCK} == {"submitted"}
    assert check_run(run.directory) == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_tool_loop_scores_exactly_what_the_script_solves(
    lab: AgentLab, environment: str, mode: str
) -> None:
    run = lab.run(f"loop-{environment}-{mode}", "tool_loop", environment, mode)

    is_exactly_as_scripted(run)
    steps = run.telemetry("steps")
    assert {id_: n for id_, n in steps.items() if n != 6} == {
        **dict.fromkeys(WRONG, 4),
        **dict.fromkeys(STUCK, MAX_STEPS),
        **dict.fromkeys(CLUMSY, 7),
    }
    if environment == "docker":
        assert docker(lab.engine, "ps", "--all", "--quiet") == ""


@pytest.mark.parametrize("protocol", ["openai-responses", "anthropic"])
def test_tool_loop_scores_the_same_in_every_protocol(lab: AgentLab, protocol: str) -> None:
    run = lab.run(f"loop-{protocol}", "tool_loop", "host_process", "fresh", "--protocol", protocol)

    is_exactly_as_scripted(run)


@pytest.mark.parametrize(
    ("environment", "mode"), [*((each, "fresh") for each in ENVIRONMENTS), ("docker", "reuse")]
)
def test_mini_swe_agent_scores_the_same(lab: AgentLab, environment: str, mode: str) -> None:
    run = lab.run(f"mini-{environment}-{mode}", "mini_swe_agent", environment, mode)

    is_exactly_as_scripted(run)
    assert list(lab.home.iterdir()) == [], "nothing is written to the user's home"


def test_an_agent_ends_by_itself_before_its_deadline_and_its_work_counts(lab: AgentLab) -> None:
    def late(harness: str) -> AgentRun:
        return lab.run(
            f"late-{harness}", harness, "host_process", "reuse", "--task-id", STUCK[0],
            "--timeout", "30", "--model", SILENT,
        )  # fmt: skip

    with ThreadPoolExecutor() as both:
        runs = list(both.map(late, ("tool_loop", "mini_swe_agent")))

    for run in runs:
        result = run.results[STUCK[0]]
        assert [(each["severity"], each["code"]) for each in result["issues"]] == [
            ("warning", "time_limit")
        ]
        told = {"correct": False, "cases": 0.0}
        assert (result["status"], result["metrics"]) == ("completed", told)


def test_a_trajectory_tells_what_was_said_and_what_came_of_it(lab: AgentLab) -> None:
    for harness in ("tool_loop", "mini_swe_agent"):
        run = lab.run(
            f"told-{harness}", harness, "host_process", "fresh", "--task-id", "csv-total",
        )  # fmt: skip

        steps = run.results["csv-total"]["trajectory"]["steps"]
        assert [step["step_id"] for step in steps] == [1, 2, 3, 4, 5, 6, 7]
        assert "total.sh" in steps[0]["user_content"]
        assert steps[0]["tools"]
        assert steps[1]["assistant_content"]["reasoning_content"] == "One thing at a time."
        assert steps[1]["assistant_content"]["tool_calls"][0]["function"]["name"] == "bash"
        assert "LOOKED" in steps[1]["observation"][0]["content"]
        assert "CHECKED 3" in steps[3]["observation"][0]["content"]
        assert all(step["metric"]["llm_infer_ms"] > 0 for step in steps)
        assert steps[3]["metric"]["env_action_ms"] > 0
        assert steps[3]["metric"]["stop_reason"] == "tool_calls"
