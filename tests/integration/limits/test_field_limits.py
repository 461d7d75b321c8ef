"""Field reports about rate limits, with and without limits of our own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cluster import Cluster, report_of
from tests.support.limited import Questions, results, telemetry
from tests.support.scripted_server import Answer, InOrder, ScriptedServer, rate_limited

pytestmark = pytest.mark.integration
LIMITED = pytest.mark.parametrize("limits", [{}, {"model": {"concurrent_calls": 4}}])
QUICK = {"max_model_retries": 2, "backoff_base_s": 0.01}


def asked(cluster: Cluster, server: ScriptedServer, count: int, limits: Any) -> Questions:
    """Ask questions on one worker with ten threads, each attempt without retries of its own."""
    questions = Questions(cluster, server, count)
    config = questions.config(
        "field",
        harness={"id": "openai_chat", "params": QUICK},
        execution={"max_retries": 0, "limits": limits},
    )
    cluster.worker("threads", concurrency=10)
    cluster.call("run", "--broker", cluster.broker.url, "--config", config)
    return questions


@LIMITED
def test_c08_a_server_that_is_busy_for_ever_is_asked_a_bounded_number_of_times(
    cluster: Cluster, limits: Any
) -> None:
    with ScriptedServer(InOrder(rate_limited("0"))) as server:
        questions = asked(cluster, server, 10, limits)

        assert len(server.traffic.calls) == 10 * 3

    run_dir = questions.run_dir("field")
    for each in results(run_dir):
        assert each["metrics"] == {}
        assert [found["code"] for found in each["issues"]] == ["model_failed"]
    assert report_of(run_dir)["series"][0]["value"] is None


@LIMITED
def test_c09_two_refusals_and_then_an_answer_are_a_normal_result(
    cluster: Cluster, limits: Any
) -> None:
    with ScriptedServer(InOrder(rate_limited("1"), rate_limited("1"), Answer("0"))) as server:
        questions = asked(cluster, server, 1, limits)

        assert len(server.traffic.calls) == 3

    run_dir = questions.run_dir("field")
    (told,) = telemetry(run_dir)
    assert told["model_retries"] == 2
    assert told["backoff_s"] >= 2
    assert report_of(run_dir)["series"][0]["value"] == 1.0
